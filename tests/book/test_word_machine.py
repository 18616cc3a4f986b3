"""The machine of chapter 5 on its built page: it answers, and no kernel runs."""

import base64
import json
import re

import pytest
from browser import serve, watched_page
from build import HTML
from notebooks import ROOT

from lib.corpus import load_questions_words
from lib.geometry import analogy
from lib.glove import load_glove_6b
from lib.word_page import pack_rows

PAGE = "chapters/05_geometry.html"
VIEWS = {"desktop": {}, "phone": {"width": 360, "height": 740, "dark": True}}


@pytest.fixture(scope="module", params=VIEWS)
def machine(request, browser):
    """The machine on the chapter's page, at either width and in either palette."""
    view = VIEWS[request.param]
    with serve(HTML) as address, watched_page(browser, **view) as watched:
        watched.page.goto(f"{address}/{PAGE}")
        machine = watched.page.locator(".word-machine")
        machine.locator(".wm-body").wait_for(timeout=10_000)
        yield machine
        assert watched.errors == []
        assert watched.foreign == []


def ask(machine, *words):
    for name, word in zip(("a", "is to b", "as c"), words, strict=True):
        machine.get_by_label(name, exact=True).fill(word)
    machine.get_by_label("as c", exact=True).press("Enter")
    first = machine.locator(".wm-results tbody tr").first
    return first.locator("bdi").all_inner_texts()


@pytest.fixture(scope="module")
def names():
    """The words of the table that the notebook stores, which is below 400 kB."""
    cells = json.loads((ROOT / PAGE).with_suffix(".ipynb").read_text("utf-8"))["cells"]
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    html = ["".join(out.get("data", {}).get("text/html", "")) for out in outputs]
    (shown,) = [text for text in html if "word-machine" in text]
    table = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', shown)[1]
    assert len(table.encode()) < 400_000
    return json.loads(base64.b64decode(json.loads(table)["words"]))


def test_the_machine_answers_as_the_library_does(machine, names):
    words, vectors = load_glove_6b(limit=30_000)
    index = {word: row for row, word in enumerate(words)}
    rows = pack_rows(vectors[[index[word] for word in names]]).double()
    place = {word: row for row, word in enumerate(names)}
    for part in load_questions_words().values():
        a, b, c, _ = next(q for q in part if all(word in place for word in q))
        (row, _), *_ = analogy(rows, place[a], place[b], place[c], k=1)
        assert ask(machine, a, b, c)[0] == names[row]


def test_inputs_are_kept_by_keyboard(machine):
    assert ask(machine, "man", "woman", "king")[:2] == ["queen", "prince"]
    out = machine.get_by_role("radio", name="left out")
    out.focus()
    out.press("ArrowRight")
    assert ask(machine, "man", "woman", "king")[:2] == ["king", "king"]
    machine.get_by_role("radio", name="kept").press("ArrowLeft")
    assert out.is_checked()


def test_neighbours_and_a_misspelt_word(machine):
    machine.get_by_role("radio", name="neighbours").check()
    field = machine.get_by_label("neighbours of", exact=True)
    field.fill("qeen")
    field.press("Enter")
    machine.get_by_role("alert").get_by_role("button", name="queen", exact=True).click()
    assert machine.locator(".wm-go").first.inner_text() == "princess"
    machine.get_by_role("radio", name="an analogy").check()


def test_the_map_is_as_wide_as_its_box(machine):
    machine.get_by_role("radio", name="an analogy").check()
    box, plot = (machine.locator(s).bounding_box() for s in (".wm-map", ".wm-plot svg"))
    assert box["width"] - 4 < plot["width"] <= box["width"]
    assert machine.locator(".wm-plot text").count() >= 7
