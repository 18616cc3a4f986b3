"""`lib.interactive.dots_frame`: dots where they belong, names that can be read."""

import math
import re
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from lib.interactive import dots_frame, frame_slider

STYLES = {"bank, river": ("#0b62b0", True), "bank, money": ("#0b62b0", False)}
SVG = "{http://www.w3.org/2000/svg}"


def drawing(frame):
    (data,) = re.findall(r'src="data:image/svg\+xml,([^"]*)"', frame)
    return ElementTree.fromstring(unquote(data))


def test_dots_stand_where_they_belong_filled_or_not():
    points = [(0, 0), (1, 1), (-1.5, -1)]
    groups = ["bank, river", "bank, river", "bank, money"]
    picture = drawing(dots_frame(points, groups, STYLES, "three dots"))
    dots = [(int(c.get("cx")), int(c.get("cy"))) for c in picture.iter(f"{SVG}circle")]
    assert dots == [(320, 210), (520, 10), (20, 410)]
    assert [g.get("fill") for g in picture.iter(f"{SVG}g")] == ["#0b62b0", "none"]
    assert [t.text for t in picture.iter(f"{SVG}text")] == list(STYLES)


def test_names_of_groups_in_one_place_do_not_lie_over_each_other():
    groups = ["bank, river", "bank, money"]
    frame = dots_frame([(0, 0), (0, 0)], groups, STYLES, "two in one place")
    heights = [int(t.get("y")) for t in drawing(frame).iter(f"{SVG}text")]
    assert abs(heights[0] - heights[1]) >= 18


def test_a_frame_is_small_and_a_slider_takes_it():
    points, groups = [(0.1, 0.2)] * 48, ["bank, river", "bank, money"] * 24
    frame = dots_frame(points, groups, STYLES, 'many "dots" & a ring')
    assert len(frame) < 4_000
    assert 'alt="many &quot;dots&quot; &amp; a ring"' in frame
    frame_slider([frame, frame], "state")


@pytest.mark.parametrize("name", ["<b>'\"&", "שלום", "\ud800", "a\x00b", "\uffff"])
def test_a_strange_name_or_colour_breaks_no_picture(name):
    styles = {name: (f"{name}' onload='x", True)}
    picture = drawing(dots_frame([(0, 0)], [name], styles, "a dot"))
    (text,) = picture.iter(f"{SVG}text")
    assert len(text.text) == len(name)
    assert [mark for mark in picture.iter() if mark.get("onload")] == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"alt": " "}, ValueError, "alt is empty"),
        ({"groups": ["bank, river"] * 2}, ValueError, "1 points for 2 groups"),
        ({"reach": 0}, ValueError, "reach must be .* above 0, got 0"),
        ({"reach": math.inf}, ValueError, "reach must be finite"),
        ({"points": [], "styles": {}}, ValueError, "0 points for 1 groups"),
        ({"groups": [None], "styles": {}}, KeyError, "None"),
        ({"groups": ["bat"]}, KeyError, "bat"),
        ({"points": [(0, 1.01)]}, ValueError, r"point \(0, 1.01\) lies beyond"),
        ({"points": [(1.6, 0)]}, ValueError, "lies beyond reach"),
        ({"points": [(0, math.nan)]}, ValueError, "nan"),
    ],
)
def test_what_cannot_be_drawn_is_named(change, error, message):
    asked = {"points": [(0, 0)], "groups": ["bank, river"], "styles": STYLES}
    with pytest.raises(error, match=message):
        dots_frame(**{**asked, "alt": "a dot", **change})
