"""`lib.figures.ids_frame`: what its SVG holds, and what its alternative text says."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import torch

from lib.figures import COLORS, ids_frame
from lib.interactive import switched_slider
from lib.mrope import mrope_position_ids

SPACE = "{http://www.w3.org/2000/svg}"
IMAGE, FILM = [3, (1, 2, 4), 2], [1, (2, 1, 2), 1]
AXES = {"t": "vermillion", "h": "blue", "w": "green"}


def numbered(pieces):
    types, grids = [], []
    for piece in pieces:
        if isinstance(piece, int):
            types += [0] * piece
            continue
        t, h, w = piece
        types += [2] * (t * h * w)
        grids.append([t, 2 * h, 2 * w])
    grids = torch.tensor(grids) if grids else None
    return mrope_position_ids(torch.tensor([types]), video_grid_thw=grids)[0][:, 0]


def image_of(frame):
    found = {}

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.update(attrs, tag=tag)

    Parser().feed(frame)
    return found


def svg_of(pieces, token):
    source = image_of(ids_frame(numbered(pieces), pieces, token))["src"]
    return ElementTree.fromstring(unquote(source.split(",", 1)[1]))


def texts_of(svg):
    return [text.text for text in svg.iter(f"{SPACE}text")]


def line_of(svg, axis):
    """The points of one axis, y upwards."""
    (path,) = [
        p for p in svg.iter(f"{SPACE}path") if p.get("stroke") == COLORS[AXES[axis]]
    ]
    numbers = [float(n) for n in re.findall(r"[\d.]+", path.get("d"))]
    return list(zip(numbers[::2], [-y for y in numbers[1::2]], strict=True))[:-1]


@pytest.mark.parametrize(
    "pieces", [IMAGE, FILM, [4], [(1, 1, 1)], [(1, 2, 2), (2, 2, 1)]]
)
def test_the_lines_are_the_positions(pieces):
    ids = numbered(pieces)
    count = ids.shape[1]
    for token in range(count):
        svg = svg_of(pieces, token)
        for axis, row in zip(AXES, ids.tolist(), strict=True):
            points = line_of(svg, axis)
            assert len(points) == token + 1  # what comes is left to guess
            low = points[0][1] if row[0] == 0 else None
            heights = [y - low for _, y in points] if low is not None else []
            if max(row[: token + 1], default=0):
                unit = max(heights) / max(row[: token + 1])
                for height, position in zip(heights, row, strict=False):
                    assert height == pytest.approx(unit * position, abs=0.2)


@pytest.mark.parametrize(
    ("pieces", "token", "next_text", "counted"),
    [
        (IMAGE, 1, 2, 2),
        (IMAGE, 3, 7, 11),
        (IMAGE, 10, 7, 11),
        (IMAGE, 12, 9, 13),
        (FILM, 0, 1, 1),
        (FILM, 4, 3, 5),
        (FILM, 5, 4, 6),
    ],
)
def test_where_text_goes_on(pieces, token, next_text, counted):
    frame = ids_frame(numbered(pieces), pieces, token)
    alt = image_of(frame)["alt"]
    counts = "" if next_text == counted else f", not at {counted}"
    assert alt.endswith(f"Next text at {next_text}{counts}.")
    assert f"next text at {next_text}" in texts_of(svg_of(pieces, token))


@pytest.mark.parametrize(
    ("pieces", "token", "said"),
    [
        (IMAGE, 0, "Token 0, a word: t 0, h 0, w 0."),
        (IMAGE, 9, "Token 9, row 1, column 2 of a grid: t 3, h 4, w 5."),
        (FILM, 3, "Token 3, frame 1, row 0, column 0 of a grid: t 2, h 1, w 1."),
        (
            [(1, 1, 1), (1, 1, 2)],
            2,
            "Token 2, row 0, column 1 of grid 1: t 1, h 1, w 2.",
        ),
    ],
)
def test_the_alternative_text_says_the_three_numbers(pieces, token, said):
    assert image_of(ids_frame(numbered(pieces), pieces, token))["alt"].startswith(said)
    here = [f"{a} = {n}" for a, n in zip(AXES, numbered(pieces)[:, token], strict=True)]
    assert set(here) <= set(texts_of(svg_of(pieces, token)))


def test_one_cell_is_filled_and_one_box_marked():
    for token in range(13):
        boxes = list(svg_of(IMAGE, token).iter(f"{SPACE}rect"))
        assert len(boxes) == (2 if 3 <= token < 11 else 1)
    cells = {
        (b.get("x"), b.get("y"))
        for token in range(3, 11)
        for b in list(svg_of(IMAGE, token).iter(f"{SPACE}rect"))[:1]
    }
    assert len(cells) == 8


def test_letters_stay_readable_on_a_phone_and_nothing_leaves_the_drawing():
    svg = svg_of([2, *[1, (1, 2, 2)] * 6, 2], 9)
    _, _, width, height = map(float, svg.get("viewBox").split())
    sizes = [svg.get("font-size"), *(t.get("font-size") for t in svg.iter())]
    assert min(float(size) for size in sizes if size) * 320 / width >= 9
    for path in svg.iter(f"{SPACE}path"):
        for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d")):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height


def test_frames_are_small_and_serve_a_slider():
    pieces = [3, (3, 2, 2), 6]
    frames = [ids_frame(numbered(pieces), pieces, token) for token in range(21)]
    assert max(map(len, frames)) < 4_000
    assert len(set(frames)) == 21
    box = switched_slider(
        {"one": frames, "two": frames[::-1]}, "prompt", "token", range(21)
    )
    assert len(box.links) == 3


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"token": 13}, IndexError, "token 13 is outside 0 … 12"),
        ({"token": -1}, IndexError, "token -1"),
        ({"token": 1.5}, TypeError, "1.5"),
        ({"ids": [[0] * 13] * 2}, ValueError, r"\[3, 13\].*got \[2, 13\]"),
        ({"ids": [[0] * 12] * 3}, ValueError, r"\[3, 13\].*got \[3, 12\]"),
        ({"pieces": [3, (1, 0, 4), 2]}, ValueError, "piece.*0"),
        ({"pieces": [0, (1, 2, 4), 2]}, ValueError, "piece.*0"),
        ({"pieces": [3, (1, 2.0, 4), 2]}, TypeError, "2.0"),
        ({"pieces": [3, (2, 4), 2]}, ValueError, r"\(2, 4\)"),
        ({"pieces": [], "ids": [[], [], []]}, IndexError, "token 3"),
    ],
)
def test_odd_input_is_named(change, error, words):
    good = {"ids": numbered(IMAGE), "pieces": IMAGE, "token": 3}
    with pytest.raises(error, match=words):
        ids_frame(**{**good, **change})
