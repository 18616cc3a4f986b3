"""`lib.figures.window_frame`: what its SVG holds, and where."""

import math
import re
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import torch

from lib.figures import COLORS, window_frame
from lib.interactive import frame_slider

WORDS = ["in", "the", "beginning", "god"]
POINTS = {"in": (0.0, 0.0), "the": (1.0, 0.0), "beginning": (0.0, 1.0), "god": (1, 1)}
SPACE = "{http://www.w3.org/2000/svg}"


def image_of(frame):
    found = {}

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.update(attrs, tag=tag)

    Parser().feed(frame)
    return found


def svg_of(frame):
    source = image_of(frame)["src"]
    assert source.startswith("data:image/svg+xml,")
    return ElementTree.fromstring(unquote(source.split(",", 1)[1]))


def dots_of(svg):
    return [
        (float(c.get("cx")), float(c.get("cy"))) for c in svg.iter(f"{SPACE}circle")
    ]


def arrows_of(svg):
    """Colour, start and end of each arrow."""
    paths = [path for path in svg.iter(f"{SPACE}path") if path.get("marker-end")]
    return [
        (path.get("stroke"), *map(float, re.findall(r"-?[\d.]+", path.get("d"))))
        for path in paths
    ]


def draw(**changes):
    asked = {"words": WORDS, "points": POINTS, "alt": "four words"}
    return window_frame(**{**asked, **changes})


def test_a_word_stands_where_it_is_with_up_as_up():
    (in_, the, beginning, god) = dots_of(svg_of(draw()))
    assert the[0] > in_[0]
    assert the[1] == in_[1]
    assert beginning[1] < in_[1]  # an SVG counts from the top
    assert god == (the[0], beginning[1])
    assert the[0] - in_[0] == pytest.approx(in_[1] - beginning[1])


def test_the_window_marks_a_word_and_its_neighbours():
    spans = list(svg_of(draw(place=1, window=1)).iter(f"{SPACE}tspan"))
    assert [span.text for span in spans] == WORDS
    assert [span.get("font-weight") for span in spans] == ["bold", "bold", "bold", None]
    assert [span.get("fill") for span in spans[:3]] == [
        COLORS[name] for name in ("green", "blue", "green")
    ]


def test_arrows_follow_each_other_to_where_the_word_ends():
    pulls, pushes = [(0.5, 0.0), (0.0, 0.5)], [(-0.25, 0.25)]
    svg = svg_of(draw(place=0, window=1, pulls=pulls, pushes=pushes))
    first, second, third = arrows_of(svg)
    assert [color for color, *_ in (first, second, third)] == [
        COLORS[name] for name in ("green", "green", "vermillion")
    ]
    assert first[3:] == second[1:3]
    assert second[3:] == third[1:3]
    assert third[3:] == dots_of(svg)[0]
    unit = dots_of(svg)[1][0] - arrows_of(svg)[0][1]  # "the" is 1 from where "in" was
    assert math.dist(third[3:], first[1:3]) == pytest.approx(
        unit * math.dist((0.25, 0.75), (0, 0)), abs=0.2
    )


def test_a_long_sentence_is_broken_and_a_strange_word_is_shown_as_it_is():
    words = ["<b>&'"] * 30
    svg = svg_of(window_frame(words, {"<b>&'": (0, 0)}, alt='a "word"'))
    lines = [t for t in svg.iter(f"{SPACE}text") if t.get("font-family")]
    assert len(lines) > 1
    assert all(len("".join(line.itertext())) <= 42 for line in lines)
    assert "".join(lines[0].itertext()).startswith("<b>&' <b>&'")


def test_the_alt_text_and_a_few_thousand_bytes():
    frame = draw(place=1, window=2, pulls=[(0.1, 0.1)] * 4, note='50 % & "more"')
    image = image_of(frame)
    assert (image["tag"], image["alt"]) == ("img", "four words")
    assert len(frame) < 4_500
    assert '50 % & "more"' in "".join(svg_of(frame).itertext())
    assert frame_slider([frame, frame], "step").children


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"alt": " "}, ValueError, "alt is empty"),
        ({"place": 4}, IndexError, "place 4 is outside the sentence of 4 words"),
        ({"place": -1}, IndexError, "place -1"),
        ({"place": 0.5}, TypeError, "place must be an int"),
        ({"place": True}, TypeError, "place must be an int"),
        ({"window": -1}, ValueError, "window must be at least 0, got -1"),
        ({"pulls": [(1, 1)]}, ValueError, "place is None"),
        ({"place": 1, "pulls": [(1, math.nan)]}, ValueError, "finite, got nan"),
        ({"points": {"in": (0, -3.4)}}, ValueError, r"'in' at \(0, -3.4\) is beyond"),
        ({"points": {"in": (math.nan, 0)}}, ValueError, "'in' at .nan, 0. is beyond"),
    ],
)
def test_what_cannot_be_drawn(changes, error, message):
    with pytest.raises(error, match=message):
        draw(**changes)


def test_steps_of_a_tensor_and_an_empty_word_in_the_middle():
    steps = torch.tensor([[1.0, 0.5], [0.0, 0.5]])
    frame = window_frame(
        [""], {"": (0, 0)}, alt="x", place=0, pulls=steps, pushes=steps
    )
    assert len(arrows_of(svg_of(frame))) == 4


@pytest.mark.parametrize("word", ["\ud800", "a\x00b", "\ufffe"])
def test_what_xml_cannot_hold_breaks_no_picture(word):
    texts = svg_of(window_frame([word], {}, alt="x")).iter(f"{SPACE}tspan")
    assert [len(text.text) for text in texts] == [len(word)]


def test_a_middle_word_without_a_point():
    with pytest.raises(KeyError, match="in"):
        window_frame(["in"], {"the": (0, 0)}, alt="one word", place=0)
