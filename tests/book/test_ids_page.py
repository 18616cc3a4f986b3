"""The built page on M-RoPE: its tokens are stepped through by keyboard, on a phone."""

import re

import pytest
from browser import serve, watched_page
from build import HTML

PAGE = "chapters/12_mrope.html"
PHONE = {"width": 390, "height": 844}
SMALLEST = 9  # pixels of a letter


@pytest.fixture(scope="module")
def page(browser):
    with serve(HTML) as address, watched_page(browser, **PHONE) as watched:
        watched.page.goto(f"{address}/{PAGE}")
        watched.page.wait_for_selector(".noUi-handle[aria-label]")
        yield watched.page
        assert watched.foreign == []
        assert watched.errors == []


def shown(page):
    return page.locator(".book-interactive img[width]:visible")


def wait_for(page, start):
    page.wait_for_selector(f'.book-interactive img[alt^="{start}"]:visible')
    return shown(page).get_attribute("alt")


def test_arrow_keys_step_through_the_tokens(page):
    handle = page.get_by_role("slider", name="token")
    handle.press("Home")
    assert wait_for(page, "Token 0, a word").endswith("w 0. Next text at 1.")
    for token in range(1, 21):
        handle.press("ArrowRight")
        wait_for(page, f"Token {token},")
    assert "t 12, h 12, w 12. Next text at 13, not at 21." in wait_for(page, "Token 20")


def test_the_menu_keeps_the_token_and_changes_the_prompt(page):
    handle = page.get_by_role("slider", name="token")
    handle.press("Home")
    for _ in range(7):
        handle.press("ArrowRight")
    wait_for(page, "Token 7,")
    menu = page.get_by_role("combobox", name="prompt")
    names = menu.locator("option").all_inner_texts()
    alts = []
    for name in names:
        menu.select_option(label=name)
        page.wait_for_timeout(100)
        alts.append(wait_for(page, "Token 7,"))
    assert len(set(alts)) == len(names) == 4
    assert "frame 1, row 0, column 0 of a grid: t 4, h 3, w 3" in alts[1]
    assert "frame 1, row 0, column 0 of a grid: t 3, h 3, w 3" in alts[2]  # as frame 0


def test_letters_are_readable_on_a_phone(page):
    image = shown(page)
    source = image.get_attribute("src")
    scale = image.bounding_box()["width"] / float(
        re.search(r"viewBox='0 0 ([\d.]+)", source).group(1)
    )
    sizes = [float(size) for size in re.findall(r"font-size='([\d.]+)'", source)]
    assert min(sizes) * scale >= SMALLEST
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width == PHONE["width"]  # nothing is cut off
