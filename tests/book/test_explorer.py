"""The controls of chapter 5 on its built page: they move, and no kernel runs."""

import pytest
from browser import serve, watched_page
from build import HTML

PAGE = "chapters/05_geometry.html"
VIEWS = {"desktop": {}, "phone": {"width": 360, "height": 740, "dark": True}}


@pytest.fixture(scope="module", params=VIEWS)
def page(request, browser):
    """The chapter, loaded until its last control is drawn."""
    view = VIEWS[request.param]
    with (
        serve(HTML) as address,
        watched_page(browser, **view) as watched,
    ):
        watched.page.goto(f"{address}/{PAGE}")
        watched.page.wait_for_selector("mjx-container")  # formulas and controls agree
        watched.page.wait_for_selector(".noUi-handle[aria-label]")
        watched.page.wait_for_selector(".book-live caption")
        yield watched.page
        assert watched.errors == []
        assert watched.foreign == []


def box_of(page, control):
    return page.locator(".book-interactive").filter(has=control)


def wait_for_caption(box, text):
    box.locator("caption", has_text=text).wait_for(state="visible")


def first_word(box):
    return box.locator("tbody tr").first.locator("td").first.inner_text()


def test_the_explorer_moves_by_keyboard(page):
    menu = page.get_by_label("one word of 24", exact=True)
    box = box_of(page, menu)
    menu.select_option("king")
    assert first_word(box) == "prince"
    menu.press("ArrowDown")
    wait_for_caption(box, "Nearest to “queen”")
    assert first_word(box) == "princess"
    menu.press("End")
    wait_for_caption(box, "Nearest to “obama”")
    menu.press("Home")
    wait_for_caption(box, "Nearest to “king”")
    assert first_word(box) == "prince"


def test_the_explorer_moves_by_mouse(page):
    menu = page.get_by_label("one word of 24", exact=True)
    box = box_of(page, menu)
    menu.select_option("king")
    menu.click()
    assert menu.evaluate("menu => menu === document.activeElement")
    menu.select_option("apple")
    wait_for_caption(box, "Nearest to “apple”")
    assert first_word(box) == "blackberry"


def test_the_offset_grows_by_keyboard(page):
    handle = page.get_by_role("slider", name="times the offset")
    box = box_of(page, handle)
    wait_for_caption(box, "Nearest to king + 1.0 · step")
    assert first_word(box) == "king"
    handle.press("ArrowRight")
    wait_for_caption(box, "Nearest to king + 1.25 · step")
    assert first_word(box) == "queen"
    assert handle.get_attribute("aria-valuetext") == "1.25"
    handle.press("ArrowLeft")
    wait_for_caption(box, "Nearest to king + 1.0 · step")


def test_the_offset_grows_by_mouse(page):
    handle = page.get_by_role("slider", name="times the offset")
    box = box_of(page, handle)
    track = box.locator(".noUi-base").bounding_box()
    middle = track["y"] + track["height"] / 2
    handle.hover()
    page.mouse.down()
    page.mouse.move(track["x"] + track["width"], middle, steps=5)
    page.mouse.up()
    wait_for_caption(box, "Nearest to king + 2.0 · step")
    assert first_word(box) == "queen"
    page.mouse.click(track["x"] + track["width"] / 2, middle)
    wait_for_caption(box, "Nearest to king + 1.0 · step")


def test_the_live_box_says_that_it_needs_a_kernel(page):
    box = page.locator(".book-live")
    assert "Nearest to “geometry”" in box.inner_text()
    assert "Open the notebook in JupyterLab" in box.inner_text()
    assert not box.get_by_role("textbox").is_visible()
