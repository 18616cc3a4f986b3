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
# Colours do not depend on the width: contrast, the slowest check, is made on desktops.
WITHOUT_CONTRAST = {"rules": {"color-contrast": {"enabled": False}}}
RULES = {view: WITHOUT_CONTRAST if "phone" in view else None for view in VIEWS}
# index.html only sends the reader on to the first page.
READ = [page for page in PAGES if page != "index.html"]


@pytest.fixture(scope="module")
def site():
    with serve(HTML) as address:
        yield address


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("page", READ)
def test_a_page_reads_well(browser, site, page, view):
    with watched_page(browser, **VIEWS[view]) as watched:
        watched.page.goto(f"{site}/{page}")
        watched.page.wait_for_load_state("networkidle")
        watched.page.evaluate("window.MathJax?.startup?.promise")
        assert watched.foreign == []
        assert watched.errors == []
        theme = watched.page.evaluate("document.documentElement.dataset.theme")
        assert theme == view.split("-")[1]
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= VIEWS[view]["width"]
        assert axe_violations(watched.page, options=RULES[view]) == []
