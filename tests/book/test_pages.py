"""The built book: every page complete, every link good.

The tests read `_build/html`, which `make book` makes.
"""

import re
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from bs4 import BeautifulSoup
from build import HTML, ROOT, last_change, pages_of_contents

EVERY = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html"))
PAGES = [page for page in EVERY if not page.startswith("_")]  # without the theme's own


def place_below_a_chapter(page: str) -> int | None:
    """Give the place of a page among those below a chapter; None for a chapter."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    for chapter in (c for part in contents["parts"] for c in part["chapters"]):
        below = [f"{section['file']}.html" for section in chapter.get("sections", ())]
        if page in below:
            return below.index(page) + 1
    return None


@pytest.fixture(scope="module")
def soups():
    return {
        page: BeautifulSoup((HTML / page).read_text(encoding="utf-8"), "html.parser")
        for page in PAGES
    }


def test_every_page_of_the_contents_is_built():
    missing = [p for p in pages_of_contents() if f"{p}.html" not in PAGES]
    assert missing == []
    assert {"index.html", "404.html", "search.html"} <= set(PAGES)


def test_the_reference_holds_every_room_once():
    pages = [path.read_text("utf-8") for path in (ROOT / "appendices").glob("e_api_*")]
    listed = re.findall(r"automodule:: lib\.(\w+)", "".join(pages))
    rooms = {path.stem for path in (ROOT / "lib").glob("[a-z]*")}
    assert sorted(listed) == sorted(rooms)


def test_every_internal_link_has_a_target(soups):
    ids = {
        page: {tag["id"] for tag in soup.select("[id]")} for page, soup in soups.items()
    }
    broken = []
    for page, soup in soups.items():
        if page == "404.html":
            continue  # its links are absolute, see below
        for link in soup.select("a[href]"):
            address, anchor = urldefrag(link["href"])
            if "://" in address or address.startswith("mailto:"):
                continue
            target = (HTML / page).parent / unquote(address) if address else HTML / page
            name = target.resolve().relative_to(HTML.resolve()).as_posix()
            missing = anchor and unquote(anchor) not in ids.get(name, ())
            if missing or not target.exists():
                broken.append((page, link["href"]))
    assert broken == []


def test_the_page_for_lost_readers_links_from_the_root(soups):
    links = [a["href"] for a in soups["404.html"].select("nav a[href]")]
    inside = [link for link in links if link.startswith("/")]
    assert len(inside) > 5
    assert all((HTML / link.split("#")[0].lstrip("/")).exists() for link in inside)


@pytest.mark.parametrize("page", [f"{page}.html" for page in pages_of_contents()])
def test_a_shared_link_has_a_title_a_text_and_a_picture(page, soups):
    found = {m["property"]: m["content"] for m in soups[page].select("meta[property]")}
    assert found["og:title"]
    assert len(found["og:description"]) > 40
    assert found["og:image"].endswith("_static/drawn/preview.png")
    assert (HTML / "_static/drawn/preview.png").exists()


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("chapters/")])
def test_a_chapter_can_be_run_kept_and_corrected(page, soups):
    links = " ".join(a["href"] for a in soups[page].select("a[href]"))
    for wanted in (
        "mybinder.org",
        "colab.research.google.com",
        "/edit/",
        "/issues/new",
    ):
        assert wanted in links, wanted
    assert ".ipynb" in links
    assert bool(soups[page].find("p", class_="last-updated")) == bool(last_change())


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("chapters/")])
def test_a_chapter_shows_every_picture_with_caption_and_alt_text(page, soups):
    pictures = soups[page].select(".cell_output img")
    assert pictures
    for picture in pictures:
        assert len(picture.get("alt", "").split()) >= 8, picture
        assert picture.find_parent("figure").select_one("figcaption"), picture


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("chapters/")])
def test_a_chapter_bears_the_number_of_its_file(page, soups):
    number = int(page.removeprefix("chapters/")[:2])
    soup = soups[page]
    place = place_below_a_chapter(page)
    shown = f"{number}.{place}." if place else f"{number}."
    assert soup.select_one("h1 .section-number").text == f"{shown} "
    assert soup.select(".bd-sidebar .current.active")[-1].text.startswith(shown)
    figures = soup.select("figcaption .caption-number")
    assert figures
    assert all(f.text.startswith(f"Figure {number}.") for f in figures)
