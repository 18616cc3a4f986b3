"""`lib.figures.clocks`: hands, sweeps and curves stand where their numbers say."""

import math
import re
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from lib.figures import clocks_frame, shift_frame

SVG = "{http://www.w3.org/2000/svg}"
FOUR, NAMES = [0.0, math.pi / 2, math.pi, 2.0], list("abcd")
CURVES = ([0.0, 0.5, -0.5], [0.5, -0.5, 1.0])


def drawing(frame):
    (data,) = re.findall(r'src="data:image/svg\+xml,([^"]*)"', frame)
    return ElementTree.fromstring(unquote(data))


def words(picture):
    return [text.text for text in picture.iter(f"{SVG}text")]


def test_hands_begin_at_twelve_and_turn_clockwise():
    picture = drawing(clocks_frame(FOUR, NAMES, "place 7", "four clocks"))
    tips = [c for c in picture.iter(f"{SVG}circle") if c.get("fill")]
    found = [(float(c.get("cx")), float(c.get("cy"))) for c in tips]
    centers = [(108, 114), (312, 114), (108, 320), (312, 320)]
    for (x, y), (cx, cy), angle in zip(found, centers, FOUR, strict=True):
        assert x - cx == pytest.approx(84 * math.sin(angle), abs=0.1)  # the sine: right
        assert cy - y == pytest.approx(84 * math.cos(angle), abs=0.1)  # the cosine: up
    assert words(picture) == [*NAMES, "sine", "cosine", "place 7"]


def test_a_sweep_goes_from_the_old_hand_to_the_new_and_takes_the_long_way_if_it_must():
    before, after = [0.0] * 4, [1.0, 4.0, 2 * math.pi + 1, -0.5]
    frame = shift_frame(before, after, NAMES, CURVES, 1, "by 1", "a shift")
    arcs = [
        p.get("d") for p in drawing(frame).iter(f"{SVG}path") if "A44" in p.get("d")
    ]
    long_way = [re.search(r"A44 44 0 (\d) 1", arc)[1] for arc in arcs]
    assert long_way == ["0", "1", "0", "1"]


def test_curves_run_from_key_0_to_the_last_and_the_query_is_named():
    frame = shift_frame(FOUR, FOUR, NAMES, CURVES, 2, "still", "no shift")
    picture = drawing(frame)
    before, after = (
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in picture.iter(f"{SVG}polyline")
    )
    assert [x for x, _ in before] == [x for x, _ in after] == [12, 210, 408]
    assert [y for _, y in before] == [270, 230, 310]
    assert [y for _, y in after] == [230, 310, 190]
    assert {"query at 2", "key 0", "key 2", "still"} <= set(words(picture))


def test_no_letter_is_below_nine_pixels_where_the_page_is_390_wide():
    """The picture is 420 units wide and shown at 342 there."""
    for frame in (
        clocks_frame(FOUR, NAMES, "", "clocks"),
        shift_frame(FOUR, FOUR, NAMES, CURVES, 0, "", "a shift"),
    ):
        size = float(drawing(frame).get("font-size"))
        assert size * 342 / 420 >= 9


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"before": FOUR[:3]}, ValueError, "four before fit the picture, got 3"),
        ({"after": [*FOUR[:3], math.nan]}, ValueError, "nan"),
        ({"titles": [*NAMES, "e"]}, ValueError, "four titles fit the picture, got 5"),
        ({"curves": ([0.0, 1.0], [0.0])}, ValueError, r"got lengths \[2, 1\]"),
        ({"curves": ([0.0], [0.0])}, ValueError, r"got lengths \[1, 1\]"),
        ({"curves": ([0.0, 2.0], [0.0, 0.0])}, ValueError, "score 2 lies beyond"),
        (
            {"curves": ([0.0, math.nan], [0.0, 0.0])},
            ValueError,
            "score nan lies beyond",
        ),
        ({"reach": 0}, ValueError, "reach must be .* above 0, got 0"),
        ({"place": 3}, IndexError, "3"),
        ({"alt": ""}, ValueError, "alt is empty"),
    ],
)
def test_what_cannot_be_drawn_is_refused(change, error, message):
    given = {"before": FOUR, "after": FOUR, "titles": NAMES, "curves": CURVES}
    given |= {"place": 0, "note": "", "alt": "a shift"} | change
    with pytest.raises(error, match=message):
        shift_frame(**given)
