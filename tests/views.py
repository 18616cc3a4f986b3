"""Every built page as a reader sees it: at desktop and phone width, light and dark.

The pages are read from `_build/html`, which `make book` makes, in headless Chromium.
`tests/book/test_views_light.py` and `test_views_dark.py` look at them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from browser import Watched, axe_violations, serve, watched_page
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


@contextmanager
def tab_for(browser, view: str) -> Iterator[Watched]:
    """Open one tab for all pages of a view: each finds fonts and scripts at hand."""
    with serve(HTML) as address, watched_page(browser, **VIEWS[view]) as tab:
        tab.page.add_init_script("localStorage.clear(); sessionStorage.clear()")
        tab.address = address
        yield tab


def check_page(tab: Watched, page: str, view: str) -> None:
    """Load a page and hold what a reader sees of it against what one should."""
    tab.forget()
    tab.page.goto(f"{tab.address}/{page}")
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
