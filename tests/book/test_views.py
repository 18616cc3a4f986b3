"""Every built page as a reader sees it: at desktop and phone width, light and dark.

The tests read `_build/html`, which `make book` makes, in headless Chromium.
"""

import pytest
from browser import axe_violations, serve, watched_page
from build import HTML

EVERY = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html"))
PAGES = [page for page in EVERY if not page.startswith("_")]  # without the theme's own
VIEWS = {
    "desktop-light": {"width": 1280, "height": 900, "dark": False},
    "desktop-dark": {"width": 1280, "height": 900, "dark": True},
    "phone-light": {"width": 360, "height": 740, "dark": False},
    "phone-dark": {"width": 360, "height": 740, "dark": True},
}
# axe's rules of structure hold for a width, those of colour for a palette.
COLOUR = ["color-contrast", "link-in-text-block"]
NO_COLOUR = {"rules": {rule: {"enabled": False} for rule in COLOUR}}
ONLY_COLOUR = {"runOnly": {"type": "rule", "values": COLOUR}}
RULES = {"desktop-light": {}, "phone-light": NO_COLOUR, "desktop-dark": ONLY_COLOUR}


def longest_first() -> list[str]:
    """Every page but index.html, which only sends the reader on to the first page."""
    pages = [page for page in PAGES if page != "index.html"]
    return sorted(pages, key=lambda page: -(HTML / page).stat().st_size)


@pytest.fixture(scope="module")
def site():
    with serve(HTML) as address:
        yield address


@pytest.fixture(
    scope="module",
    params=[pytest.param(v, marks=pytest.mark.xdist_group(v)) for v in VIEWS],
)
def view(request):
    """The views one after the other, each on the worker that opened its tab."""
    return request.param


@pytest.fixture(scope="module")
def tab(browser, view):
    """One tab a view: every page of it finds the fonts and scripts at hand."""
    with watched_page(browser, **VIEWS[view]) as watched:
        watched.page.add_init_script("localStorage.clear(); sessionStorage.clear()")
        yield watched


@pytest.mark.parametrize("page", longest_first())
def test_a_page_reads_well(tab, site, page, view):
    tab.forget()
    tab.page.goto(f"{site}/{page}")
    tab.page.wait_for_load_state("networkidle")
    tab.page.evaluate("window.MathJax?.startup?.promise")
    assert tab.foreign == []
    assert tab.errors == []
    theme = tab.page.evaluate("document.documentElement.dataset.theme")
    assert theme == view.split("-")[1]
    width = tab.page.evaluate("document.documentElement.scrollWidth")
    assert width <= VIEWS[view]["width"]
    if view in RULES:
        assert axe_violations(tab.page, options=RULES[view]) == []
