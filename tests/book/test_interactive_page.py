"""`lib.interactive` on a built page: its controls move, and no kernel runs."""

import subprocess
import sys

import nbformat
import pytest
from browser import axe_violations, serve, skip_or_fail, watched_page
from notebooks import CONTROLS, ROOT, execute, notebook_of
from widget_ids import renumber_widgets

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page of the book's theme with every control on it; yields its address."""
    if not (ROOT / "assets/vendor/widgets/embed.js").exists():
        skip_or_fail("no widget manager: run `python tools/assets.py` to fetch it")
    source, built = (tmp_path_factory.mktemp(name) for name in ("source", "built"))
    notebook = renumber_widgets(execute(notebook_of(CONTROLS)), "index")
    nbformat.write(notebook, source / "index.ipynb")
    settings = {
        "extensions": ["myst_nb"],
        "html_theme": "sphinx_book_theme",
        "html_static_path": [str(ROOT / "assets")],
        "html_css_files": ["interactive.css"],
        "html_context": {"default_mode": "auto"},
        "nb_execution_mode": "off",
        "nb_ipywidgets_js": {"vendor/widgets/embed.js": {}},
    }
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    (source / "conf.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", str(source), str(built)]
    subprocess.run(command, check=True)
    with serve(built) as address:
        yield f"{address}/index.html"


@pytest.fixture
def watched(browser, site):
    with watched_page(browser) as watched:
        watched.page.goto(site)
        watched.page.wait_for_selector(".noUi-handle[aria-label]")
        yield watched


def shown(page):
    """The alt of the figure that the first slider shows."""
    return page.locator(".book-interactive img[width]").get_attribute("alt")


def wait_for_figure(page, height):
    page.wait_for_selector(f'img[alt="a line that climbs to {height}"]')


def test_arrow_keys_move_the_slider_and_the_frame(watched):
    page = watched.page
    handle = page.get_by_role("slider", name='where the "line" climbs, x < 1 & y > 0')
    assert shown(page) == "a line that climbs to 10"
    for key, height in [("ArrowRight", 100), ("ArrowUp", 1000), ("ArrowLeft", 100)]:
        handle.press(key)
        wait_for_figure(page, height)
        assert handle.get_attribute("aria-valuetext") == str(height)
    handle.press("Home")
    wait_for_figure(page, 1)
    handle.press("ArrowLeft")
    page.wait_for_timeout(200)
    assert shown(page) == "a line that climbs to 1"


def test_tab_reaches_the_slider_and_skips_its_readout(watched):
    page = watched.page
    page.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowRight")
    wait_for_figure(page, 100)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") != "widget-readout"


def test_the_mouse_drags_and_taps_the_slider(watched):
    page = watched.page
    handle = page.get_by_role("slider").first
    track = page.locator(".noUi-base").first.bounding_box()
    middle = track["y"] + track["height"] / 2
    handle.hover()
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"], middle, steps=5)
    page.mouse.up()
    wait_for_figure(page, 1000)
    page.mouse.click(track["x"] + 1, middle)
    wait_for_figure(page, 1)


def test_the_menu_moves_by_keyboard_and_by_mouse(watched):
    page = watched.page
    menu = page.get_by_label("prepared word")
    caption = page.locator(".book-interactive:not(.book-live) caption")
    assert caption.inner_text().startswith("Near to king, among")
    menu.press("ArrowDown")
    page.wait_for_selector("caption:has-text('Near to sun')")
    menu.select_option("sea")
    page.wait_for_selector("caption:has-text('Near to sea')")
    assert caption.inner_text().startswith("Near to sea, among")


def test_a_live_control_does_not_pretend_to_be_alive(watched):
    page = watched.page
    assert page.get_by_label("any word").is_hidden()
    assert page.get_by_text("Near to king").last.is_visible()
    assert page.get_by_text("3 squared is 9").is_visible()
    assert page.get_by_text("Open the notebook in JupyterLab").count() == 2


def test_the_page_asks_no_other_host_and_throws_nothing(watched):
    watched.page.wait_for_timeout(500)
    assert watched.foreign == []
    assert watched.errors == []


@pytest.mark.parametrize("look", [{"dark": True}, PHONE], ids=["dark", "phone"])
def test_axe_finds_nothing_and_nothing_sticks_out(browser, site, look):
    with watched_page(browser, **look) as watched:
        page = watched.page
        page.goto(site)
        page.wait_for_selector(".noUi-handle[aria-label]")
        page.wait_for_load_state("networkidle")
        assert axe_violations(page) == []
        wide = page.evaluate(
            """[...document.querySelectorAll('.book-interactive *')]
            .filter(e => e.getBoundingClientRect().right > innerWidth)
            .map(e => e.outerHTML.slice(0, 80))"""
        )
        assert wide == []
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0


def test_the_stock_slider_is_what_axe_complains_of(watched):
    """The check above can fail: without its name, the same handle is found."""
    watched.page.evaluate(
        "document.querySelector('.noUi-handle').removeAttribute('aria-label')"
    )
    (found,) = axe_violations(watched.page)
    assert "aria-input-field-name" in found
