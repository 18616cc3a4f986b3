"""A built page on paper, and under colours that the reader's system forces on it."""

import pytest
from browser import serve, watched_page
from build import HTML

PAGE = "chapters/02_one_hot.html"
BEHIND_A_CLICK = "details.sd-dropdown p, .solution p:not(.admonition-title)"
LUMINANCES = """all => all.map(element => {
  const parts = getComputedStyle(element).color.match(/[\\d.]+/g).map(Number);
  return (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
})"""
GROUND = """element => [getComputedStyle(element).backgroundColor,
                        getComputedStyle(element).filter]"""


@pytest.fixture(scope="module")
def site():
    with serve(HTML) as address:
        yield address


@pytest.fixture
def page(browser, site):
    with watched_page(browser, dark=True) as watched:
        watched.page.goto(f"{site}/{PAGE}")
        watched.page.wait_for_load_state("networkidle")
        yield watched.page


def turn_to(page, media: str, theme: str) -> None:
    """Change the medium, and wait until the page has heard of it."""
    page.emulate_media(media=media)
    heard = f"document.documentElement.dataset.theme === '{theme}'"
    page.wait_for_function(heard, timeout=10_000)


def lightest(page, selector: str) -> float:
    """The luminance of the lightest text among some elements, from 0 to 1."""
    return max(page.locator(selector).evaluate_all(LUMINANCES))


def shown(page) -> list[bool]:
    """Whether each paragraph of solutions and answers is in sight."""
    return page.locator(BEHIND_A_CLICK).evaluate_all(
        "all => all.map(e => e.checkVisibility({visibilityProperty: true}))"
    )


def test_p29_paper_is_light_whatever_the_theme(page):
    text = ".bd-article p, .bd-article h2, .bd-article .highlight span[class]"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert lightest(page, text) > 0.6
    turn_to(page, "print", "light")
    assert lightest(page, text) < 0.4
    filters = page.locator(".cell_output img").evaluate_all(
        "all => all.map(image => getComputedStyle(image).filter)"
    )
    assert set(filters) == {"none"}
    turn_to(page, "screen", "dark")
    assert lightest(page, text) > 0.6


def test_p29_solutions_and_answers_stand_open_on_paper(page):
    assert not any(shown(page))
    turn_to(page, "print", "light")
    assert len(shown(page)) >= 6
    assert all(shown(page))
    turn_to(page, "screen", "dark")
    assert not any(shown(page))


def test_p29_printing_leaves_the_page_as_it_was(page):
    page.pdf()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert not any(shown(page))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_p30_a_figure_brings_its_paper_under_forced_colours(page, theme):
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    page.emulate_media(forced_colors="active", color_scheme="dark")
    figures = page.locator("figure img:not(.photograph)").all()
    assert figures
    for figure in figures:
        assert figure.evaluate(GROUND) == ["rgb(255, 255, 255)", "none"]
