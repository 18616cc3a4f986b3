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
# axe's rules of structure are run once a page, its rules of colour once a palette.
CONTRAST, LINKS = "color-contrast", "link-in-text-block"
REST = {"rules": {CONTRAST: {"enabled": False}}}
ONLY_LINKS = {"runOnly": {"type": "rule", "values": [LINKS]}}
ONLY_CONTRAST = {"runOnly": {"type": "rule", "values": [CONTRAST]}}
RULES = {"desktop-light": REST, "desktop-dark": ONLY_LINKS}
# The contrast of a text depends on its colour, its size, its weight and the ground that
# it stands on. Of texts that have all four in common, one is marked for axe to measure:
# a page has ten thousand and some fifty looks.
MARK_LOOKS = """() => {
  const grounds = new Map([[null, ""]]), looks = new Set();
  const ground = (box) => {
    if (!grounds.has(box)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(box);
      const own = [backgroundColor, backgroundImage, opacity].join();
      const plain = own === "rgba(0, 0, 0, 0),none,1";
      grounds.set(box, ground(box.parentElement) + (plain ? "" : own + ";"));
    }
    return grounds.get(box);
  };
  for (const box of document.querySelectorAll("body, body *")) {
    const said = [...box.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!said || !box.checkVisibility({ visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(box);
    const look = [color, fontSize, fontWeight, ground(box)].join();
    if (!looks.has(look)) box.dataset.look = looks.size;
    looks.add(look);
  }
  return looks.size;
}"""


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
        assert low_contrast(tab.page) == []


def low_contrast(page) -> list[str]:
    """List the looks of text that stand out too little from their ground."""
    assert page.evaluate(MARK_LOOKS) > 0
    return axe_violations(page, context="[data-look]", options=ONLY_CONTRAST)
