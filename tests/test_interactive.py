"""`lib.interactive`: named controls over frames, drawn beforehand or asked anew."""

import pytest

from lib.interactive import (
    choice,
    frame_slider,
    live,
    live_slider,
    progress_bar,
    switched_slider,
)

FRAMES = ["<p>near</p>", "<p>far</p>", "<p>out of sight</p>"]


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


def test_a_menu_and_a_slider_move_rows_of_frames_by_links_in_the_browser():
    rows = {"off": ["<p>1</p>", "<p>2</p>"], "on": ["<p>3</p>", "<p>4</p>"]}
    box = switched_slider(rows, "light", "hour", [6, 18], start=1)
    menu, slider, outer, _ = box.children
    assert (menu.description, slider.description) == ("light", "hour")
    assert [name for name, _ in menu.options] == ["off", "on"]
    assert (menu.index, slider.index, outer.selected_index) == (0, 1, 0)
    for stack, frames in zip(outer.children, rows.values(), strict=True):
        assert [page.value for page in stack.children] == frames
        assert stack.selected_index == 1
    ends = [(link.source, link.target) for link in box.links]
    assert ends == [
        ((slider, "index"), (outer.children[0], "selected_index")),
        ((slider, "index"), (outer.children[1], "selected_index")),
        ((menu, "index"), (outer, "selected_index")),
    ]


def test_rows_of_frames_that_do_not_fit():
    with pytest.raises(ValueError, match="2 or more rows are needed, got 1"):
        switched_slider({"on": FRAMES}, "light", "hour", "abc")
    with pytest.raises(ValueError, match="3 values for 2 frames of 'b'"):
        switched_slider({"a": FRAMES, "b": FRAMES[:2]}, "light", "hour", "abc")
    with pytest.raises(ValueError, match="label is empty"):
        switched_slider({"a": FRAMES, "b": FRAMES}, " ", "hour", "abc")
    with pytest.raises(IndexError, match="start 3 is outside"):
        switched_slider({"a": FRAMES, "b": FRAMES}, "light", "hour", "abc", start=3)


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


@pytest.mark.parametrize("total", [1.5, True, "3"])
def test_steps_of_a_progress_bar_are_whole(total):
    with pytest.raises(TypeError, match="total must be an int"):
        progress_bar(total, "training")
