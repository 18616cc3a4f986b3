"""Every built page as a reader sees it: at desktop and phone width, light and dark.

The pages are read from `_build/html`, which `make book` makes, in headless Chromium.
`tests/book/test_views_desktop.py` and `test_views_phone.py` look at them. A page is
loaded once a width, under dark colours on a desktop and under light ones on a phone,
and then the reader's system changes its mind. The desktop has it from a server, the
phone from its disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from browser import Watched, axe_violations, watched_page
from build import HTML

EVERY = sorted(path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html"))
PAGES = [page for page in EVERY if not page.startswith("_")]  # without the theme's own
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
# Colours that change with the theme do so in a fraction of a second: they are put at
# their end. To wait for them is to hang where a browser under load draws no frames. A
# text whose colour ends may start one of its own, so this goes on until none is left.
SETTLE = """() => {
  const moving = () => document.getAnimations()
    .filter((one) => one instanceof CSSTransition);
  for (let round = 0; round < 20 && moving().length; round++)
    for (const one of moving()) one.finish();
  return moving().length;
}"""
# Nothing that a page promises is waited for without an end.
SET = """Promise.race([
  Promise.resolve(window.MathJax?.startup?.promise).then(() => "set"),
  new Promise((late) => setTimeout(late, 30_000, "not set in 30 s")),
])"""
# axe's rules of structure are run once a page, its rules of colour once a palette, on
# what `MARK_LOOKS` marks.
MARKED = {"color-contrast": "[data-look]", "link-in-text-block": "a[data-look]"}
COLOUR = {"runOnly": {"type": "rule", "values": list(MARKED)}}
# The contrast of a text depends on its colour, its size, its weight and the ground that
# it stands on; whether a link stands out, on the text around it as well. Of texts and
# links that have all of it in common, one is marked for axe to measure: a page has ten
# thousand and some fifty looks in either palette.
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
  const setting = (link) => {
    const block = link.parentElement.closest("p, li, dd, dt, td, th, div, main");
    const alone = block?.textContent.trim() === link.textContent.trim();
    const around = getComputedStyle(link.parentElement).color;
    return [getComputedStyle(link).textDecorationLine, alone || around].join();
  };
  for (const box of document.querySelectorAll("body, body *")) {
    const link = box.matches("a[href]");
    const said = [...box.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!(said || link) || !box.checkVisibility({ visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(box);
    const kind = link ? setting(box) : "";
    const look = [color, fontSize, fontWeight, ground(box), kind].join();
    if (!looks.has(look)) box.dataset.look = looks.size;
    looks.add(look);
  }
  return looks.size;
}"""

# Code has thousands of spans that look like a marked one; as plain text they cost axe
# nothing.
PLAIN_CODE = """() => {
  for (const span of document.querySelectorAll("pre span, dt span"))
    if (!span.matches("[data-look]") && !span.querySelector("[data-look]"))
      span.replaceWith(span.textContent);
}"""


def longest_first() -> list[str]:
    """Every page but index.html, which only sends the reader on to the first page."""
    pages = [page for page in PAGES if page != "index.html"]
    return sorted(pages, key=lambda page: -(HTML / page).stat().st_size)


@contextmanager
def tab_for(browser, address: str, dark: bool, **size) -> Iterator[Watched]:
    """Open one tab for all pages of a view: each finds fonts and scripts at hand."""
    with watched_page(browser, dark=dark, **size) as tab:
        tab.page.add_init_script("localStorage.clear(); sessionStorage.clear()")
        tab.address, tab.loads_dark = address, dark
        yield tab


def load(tab: Watched, page: str) -> None:
    """Open a page under the colours that its tab loads with."""
    tab.forget()
    tab.page.emulate_media(color_scheme="dark" if tab.loads_dark else "light")
    tab.page.goto(f"{tab.address}/{page}")
    tab.page.wait_for_load_state("networkidle")
    assert tab.page.evaluate(SET) == "set"


def look(tab: Watched, colours: str, width: int) -> None:
    """Hold what a reader sees of a loaded page against what one should see."""
    tab.page.emulate_media(color_scheme=colours)
    themed = f"document.documentElement.dataset.theme === '{colours}'"
    tab.page.wait_for_function(themed, timeout=5_000)
    assert tab.page.evaluate(SETTLE) == 0
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.foreign == []
    assert tab.errors == []


def mark_looks(page) -> None:
    """Mark one text or link of each look that the page has now."""
    assert page.evaluate(MARK_LOOKS) > 0


def faults(page, options=None) -> list[str]:
    """List what axe finds on a marked page; `COLOUR` asks for the rules of colour."""
    page.evaluate(PLAIN_CODE)
    return axe_violations(page, options=options, selectors=MARKED)
