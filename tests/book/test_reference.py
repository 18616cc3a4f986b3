"""The built reference, against the library: each public name, whole and once."""

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
from book_extension import list_sources
from bs4 import BeautifulSoup
from build import HTML

from lib.transformer import PRESETS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "appendices").glob("e_api_*.md"))
ROOMS = [
    line.split()[-1]
    for page in PAGES
    for line in page.read_text("utf-8").splitlines()
    if line.startswith(".. automodule::")
]
VARIADIC = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
# Four parameters or more and one text, unless it sends the reader elsewhere.
SHARED = re.compile(r"^ +\w+(?:, \w+){3,}:\s+(?!as (?:for|in)\b|those of\b)", re.M)
FIELDS = {"Parameters", "Returns", "Raises", "Yields", "Source", "Type"}


@pytest.fixture(scope="module")
def entries():
    """The built description of each object, by its full name, in the order of pages."""
    found = []
    for page in PAGES:
        built = HTML / "appendices" / page.with_suffix(".html").name
        soup = BeautifulSoup(built.read_text("utf-8"), "html.parser")
        titles = soup.select("dl.py > dt.sig[id]")
        found += [(dt["id"], dt, dt.find_next_sibling("dd")) for dt in titles]
    return found


def described(entry) -> set[str]:
    """The names of the parameters and attributes that an entry describes."""
    names = {title["id"].split(".")[-1] for title in entry.select("dt.sig[id]")}
    for term in entry.select("dl.field-list > dt"):
        if term.find_parent("dl", class_="py") is entry.parent:
            texts = term.find_next_sibling("dd").select("strong")
            names |= {text.get_text().lstrip("*") for text in texts}
    return names


def is_called(thing) -> bool:
    return inspect.isroutine(thing) or inspect.isclass(thing)


def parameters(thing) -> set[str]:
    """The parameters that a caller names."""
    if inspect.isclass(thing) and thing.__init__ is object.__init__:
        return set()
    given = inspect.signature(thing).parameters.values()
    return {p.name for p in given if p.kind not in VARIADIC} - {"self", "cls"}


def find(name: str):
    """Find an object of `lib` by its full name; None for an attribute of instances."""
    room = next(room for room in ROOMS if name.startswith(f"{room}."))
    thing = importlib.import_module(room)
    for part in name.removeprefix(f"{room}.").split("."):
        thing = getattr(thing, part, None)
    return thing


def test_each_public_name_is_described_once(entries):
    counts = Counter(name for name, *_ in entries)
    assert [name for name, count in counts.items() if count > 1] == []
    shown = [find(name) for name in counts]
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)  # another room may describe it
            assert not is_called(thing) or thing in shown, (room, name)


def test_each_parameter_is_described(entries):
    called = [(name, entry, find(name)) for name, _, entry in entries]
    missing = {
        name: sorted(parameters(thing) - described(entry))
        for name, entry, thing in called
        if is_called(thing)
    }
    assert {name: some for name, some in missing.items() if some} == {}


def test_no_text_is_shared_by_four_parameters():
    for path in sorted((ROOT / "lib").rglob("*.py")):
        assert not SHARED.search(path.read_text("utf-8")), path
    assert SHARED.search("    a, b, c, d: V, d, a seed and a width.")
    assert not SHARED.search("    a, b, c, d: as for `SkipGram`.")


def test_the_presets_are_listed():
    text = (ROOT / "appendices" / "e_api_models.md").read_text("utf-8")
    assert [name for name in PRESETS if f'"{name}"' not in text] == []


def test_no_field_is_torn(entries):
    """A colon makes a type of what stands before it, an indent a term of a list."""
    for name, _, entry in entries:
        for term in entry.select("dl.field-list > dt, dl.simple > dt"):
            title = term.get_text().strip().rstrip(":")
            assert title in FIELDS, (name, title)
            assert term.find_next_sibling("dd").get_text().strip(), (name, title)
        lists = [text.parent for text in entry.select("ol > li")]
        assert lists == [], name  # "V." at the start of a line would be one


def test_each_entry_leads_to_its_source(entries):
    for name, title, _ in entries:
        thing = find(name)
        if is_called(thing):
            link = title.select_one("a[href*='_modules/']")
            assert link, name
            page, mark = link["href"].split("#")
            built = (HTML / "appendices" / page).resolve()
            assert f'id="{mark}"' in built.read_text("utf-8"), name


def test_a_source_of_several_lines_is_one_field():
    lines = ["Turn.", "", "Source: a paper,", "    section 2; code.", "", "Example:"]
    list_sources(None, "function", "turn", None, None, lines)
    assert lines == ["Turn.", "", ":Source: a paper, section 2; code.", "", "Example:"]
    lines = ["Source:", "    here; and", "    there."]
    list_sources(None, "function", "turn", None, None, lines)
    assert lines == [":Source: here; and there."]
