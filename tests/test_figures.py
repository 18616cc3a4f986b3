"""`lib.figures`: colours that can be told apart, labels that do not overlap."""

import io
from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

from lib.figures import (
    COLORS,
    GREY,
    draw_matrix,
    label_ends,
    label_points,
    picture,
    use_book_style,
)

DARK_PAGE = "#16181d"
# Machado, Oliveira and Fernandes 2009, table 1, severity 1: linear RGB to linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def srgb(code: str) -> np.ndarray:
    return np.array([int(code[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def linear(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG 2.1's contrast ratio of two sRGB colours."""
    low, high = sorted(
        float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def on_dark_page(rgb: np.ndarray) -> np.ndarray:
    """The CSS filter `invert(1) hue-rotate(180deg)`, as the standard defines it."""
    grey = np.array([0.213, 0.715, 0.072])
    turn = 2 * np.tile(grey, (3, 1)) - np.eye(3)
    return np.clip(turn @ (1 - rgb), 0, 1)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a linear RGB colour under D65."""
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    x, y, z = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("name", [*COLORS, "grey"])
def test_colours_read_as_text_on_both_pages(name):
    color = srgb({**COLORS, "grey": GREY}[name])
    assert contrast(color, srgb("#ffffff")) >= 4.5
    assert contrast(on_dark_page(color), srgb(DARK_PAGE)) >= 4.5


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("pair", list(combinations(COLORS, 2)), ids="-".join)
def test_colours_differ_for_every_reader(vision, pair):
    one, other = (
        lab(np.array(VISION[vision]) @ linear(srgb(COLORS[name]))) for name in pair
    )
    assert np.linalg.norm(one - other) > 12  # 2.3 is the least that one can see


@pytest.fixture
def ax():
    use_book_style()
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_labels_stand_at_the_ends_and_apart(ax):
    for slope, name in [(1.0, "high"), (0.0, "low"), (0.01, "close")]:
        ax.plot([0, 1], [0, slope], label=name)
    ax.plot([0, 1], [0, 0.5])
    texts = label_ends(ax)
    assert [text.get_text() for text in texts] == ["low", "close", "high"]
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert [t.get_color() for t in texts] == [
        ax.lines[i].get_color() for i in (1, 2, 0)
    ]


def test_labels_follow_a_logarithmic_axis(ax):
    ax.loglog([1e3, 1e5], [1, 1000], label="a")
    ax.loglog([1e3, 1e5], [1, 1], label="b")
    low, high = label_ends(ax)
    assert low.get_text() == "b"
    for text, height in [(low, 0.05), (high, 0.95)]:  # matplotlib's margins are 5 %
        assert text.xy == pytest.approx((0.95, height), abs=0.03)


def test_labels_need_a_labelled_line(ax):
    ax.plot([0, 1])
    with pytest.raises(ValueError, match="no line"):
        label_ends(ax)


def test_matrix_numbers_and_frame(ax):
    draw_matrix(
        ax, [[1.0, -2.0], [0.5, -0.04]], fmt=".1f", diverging=True, outline_rows=[1]
    )
    assert [text.get_text() for text in ax.texts] == ["1.0", "−2.0", "0.5", "0.0"]
    assert ax.patches[0].get_xy() == (-0.5, 0.5)
    assert ax.images[0].get_clim() == (-2.0, 2.0)


@pytest.mark.parametrize("row", [2, -1])
def test_matrix_frame_outside(ax, row):
    with pytest.raises(IndexError, match=f"row {row} .*0 to 1"):
        draw_matrix(ax, [[1, 2], [3, 4]], outline_rows=[row])


def test_matrix_of_another_shape(ax):
    with pytest.raises(ValueError, match="got 1 dim"):
        draw_matrix(ax, [1, 2])


def test_a_figure_has_no_background(ax):
    buffer = io.BytesIO()
    ax.figure.savefig(buffer)
    buffer.seek(0)
    assert plt.imread(buffer)[0, 0, 3] == 0


READERS_OWN = (
    "axes.grid: True\nfont.size: 20\nsavefig.dpi: 50\naxes.spines.left: False\n"
)


def book_picture() -> bytes:
    use_book_style()
    figure, axes = plt.subplots()
    axes.plot([0, 1], [0, 1])
    buffer = io.BytesIO()
    figure.savefig(buffer)
    plt.close(figure)
    return buffer.getvalue()


def test_p24_a_reader_s_own_settings_do_not_reach_a_figure(tmp_path):
    (tmp_path / "matplotlibrc").write_text(READERS_OWN)
    with plt.rc_context():
        plt.rcdefaults()
        plain = book_picture()
        matplotlib.rc_file(tmp_path / "matplotlibrc")
        assert plt.rcParams["axes.grid"]
        assert book_picture() == plain


def test_names_of_points_do_not_overlap(ax):
    points = [[0.5, 0.5], [0.5, 0.52], [0.52, 0.5], [0.9, 0.1]]
    names = ["river", "money", "bank", "far"]
    labels = label_points(ax, points, names, [GREY] * 4)
    assert [label.get_text() for label in labels] == names
    ax.figure.canvas.draw()
    boxes = [Text.get_window_extent(label) for label in labels]
    dots = ax.transData.transform(points)
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    assert not any(box.contains(*dot) for box in boxes for dot in dots)


def test_a_name_and_a_colour_for_each_point(ax):
    with pytest.raises(ValueError, match="got 2 points, 1 names, 3 colours"):
        label_points(ax, [[0, 0], [1, 1]], ["one"], [GREY] * 3)
    with pytest.raises(ValueError, match="points must be finite, row 1 holds nan"):
        label_points(ax, [[0, 0], [1, np.nan]], ["one", "two"], [GREY] * 2)
    assert len(ax.texts) == 0


def test_a_dollar_in_a_name_is_a_dollar(ax):
    (label,) = label_points(ax, [[0.5, 0.5]], ["us$^$"], [GREY])
    ax.figure.canvas.draw()  # as mathematics it would not parse
    assert label.get_text() == "us$^$"


def test_a_picture_says_what_one_sees():
    for alt in ("", " \n"):
        with pytest.raises(ValueError, match="alt is empty"):
            picture("a.png", alt, 1, 1)
