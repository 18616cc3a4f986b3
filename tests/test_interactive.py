"""`lib.interactive`: named controls over frames, on a built page without a kernel."""

import subprocess
import sys

import nbformat
import pytest
from browser import (
    axe_violations,
    serve,
    skip_or_fail,
    watched_page,
)
from notebooks import CONTROLS, ROOT, execute, notebook_of
from widget_ids import renumber_widgets

from lib.interactive import choice, frame_slider, live, live_slider, progress_bar

FRAMES = ["<p>near</p>", "<p>far</p>", "<p>out of sight</p>"]
PHONE = {"width": 360, "height": 740}


# What the functions make, and what they refuse


@pytest.mark.parametrize("start", [0, 2])
def test_the_frame_shown_first_is_the_one_the_slider_points_at(start):
    slider, stack, _ = frame_slider(FRAMES, "distance", [1, 5, 90], start).children
    assert (slider.description, slider.label) == ("distance", str([1, 5, 90][start]))
    assert stack.children[stack.selected_index].value == FRAMES[start]
    assert [child.value for child in stack.children] == FRAMES


def test_frames_are_numbered_unless_named():
    slider = frame_slider(FRAMES, "frame").children[0]
    assert [label for label, _ in slider.options] == ["0", "1", "2"]


def test_a_menu_lists_the_names_in_order():
    menu, stack = choice(FRAMES, "word", ["b", "a", "c"], start=1).children
    assert [label for label, _ in menu.options] == ["b", "a", "c"]
    assert (menu.label, stack.selected_index) == ("a", 1)


def test_a_link_in_the_browser_joins_control_and_frames():
    box = frame_slider(FRAMES, "distance")
    control, stack, _ = box.children
    assert box.link.source == (control, "index")
    assert box.link.target == (stack, "selected_index")


@pytest.mark.parametrize("make", [frame_slider, choice])
def test_bad_frames_values_and_starts(make):
    names = ["a", "b", "c"]
    with pytest.raises(TypeError, match="one string"):
        make("<p>text</p>", "label", names)
    with pytest.raises(TypeError, match="frame 2 is a int"):
        make([*FRAMES[:2], 3], "label", names)
    with pytest.raises(ValueError, match="got 0"):
        make([], "label", [])
    with pytest.raises(ValueError, match="2 values for 3 frames"):
        make(FRAMES, "label", ["a", "b"])
    with pytest.raises(ValueError, match=r"must differ.*\['1'\]"):
        make(FRAMES, "label", [1, "1", 2])
    with pytest.raises(ValueError, match="frame 1 has an image without alt"):
        make(["<p></p>", "<img src='x'>", "<p></p>"], "label", names)
    for start in (-1, 3):
        with pytest.raises(IndexError, match=rf"start {start} is outside 0 … 2"):
            make(FRAMES, "label", names, start)
    with pytest.raises(TypeError, match="float"):
        make(FRAMES, "label", names, 1.0)


def test_a_slider_over_one_frame_has_nowhere_to_go():
    with pytest.raises(ValueError, match="2 or more frames are needed, got 1"):
        frame_slider(FRAMES[:1], "label")
    with pytest.raises(ValueError, match="2 or more values are needed, got 1"):
        live_slider(str, "label", [1])
    assert len(choice(FRAMES[:1], "label", ["only"]).children[1].children) == 1


@pytest.mark.parametrize("label", ["", "  "])
@pytest.mark.parametrize(
    "make",
    [
        lambda label: frame_slider(FRAMES, label),
        lambda label: choice(FRAMES, label, "abc"),
        lambda label: live(str, label, "king"),
        lambda label: live_slider(str, label, [1, 2]),
    ],
)
def test_no_control_is_without_a_name(make, label):
    with pytest.raises(ValueError, match="label is empty"):
        make(label)


def test_live_asks_again_on_every_change():
    asked = []

    def answer(word):
        asked.append(word)
        return f"<p>{word}</p>"

    text, shown, _ = live(answer, "word", "king").children
    assert shown.value == "<p>king</p>"
    text.value = "  queen "
    assert shown.value == "<p>queen</p>"
    assert asked == ["king", "queen"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyError("'kng' is unknown; near it: <king>"), "near it: &lt;king&gt;"),
        (KeyError("kng"), ">kng<"),
        (ValueError("a vector of length 0"), "a vector of length 0"),
        (IndexError("row 9 of 4"), "row 9 of 4"),
        (KeyError(), "KeyError"),
    ],
)
def test_live_puts_an_error_in_words_and_recovers(error, shown):
    def answer(word):
        if word == "kng":
            raise error
        return f"<p>{word}</p>"

    text, view, _ = live(answer, "word", "king").children
    text.value = "kng"
    assert 'role="alert"' in view.value
    assert shown in view.value
    assert "Traceback" not in view.value
    text.value = "queen"
    assert view.value == "<p>queen</p>"


def test_an_error_at_the_first_value_is_the_author_s():
    def answer(word):
        raise KeyError(word)

    with pytest.raises(KeyError, match="king"):
        live(answer, "word", "king")
    with pytest.raises(KeyError, match="4"):
        live_slider(answer, "number", [3, 4], start=1)


def test_a_fault_of_the_program_is_not_taken_for_the_reader_s():
    text = live(lambda word: f"<p>{word}</p>" if word else None, "word", "k").children[
        0
    ]
    with pytest.raises(Exception, match="None"):
        text.value = ""


def test_a_live_slider_passes_values_of_any_type():
    slider, view, *_ = live_slider(repr, "base", [1e4, None, "x"], start=1).children
    assert view.value == "None"
    slider.index = 0
    assert view.value == "10000.0"


# On a built page


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


def test_a_progress_bar_fills_and_shows_no_time():
    box, advance = progress_bar(3, "training")
    bar, text = box.children
    assert (bar.description, bar.value, text.value) == ("training", 0, "0 of 3")
    for step, loss in enumerate([3.14159, 2.0, 1.0]):
        advance(step, loss)
    assert (bar.value, bar.max, text.value) == (3, 3, "3 of 3, loss 1.0")


@pytest.mark.parametrize(("total", "label"), [(0, "a"), (-1, "a"), (1, " ")])
def test_a_progress_bar_without_steps_or_name(total, label):
    with pytest.raises(ValueError, match=r"total must|label is empty"):
        progress_bar(total, label)
