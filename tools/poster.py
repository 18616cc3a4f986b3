"""The picture on the first page: one sentence on its way through a language model."""

import cmath
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

INK, GREY, BLUE, ORANGE = "#1f2933", "#6b7280", "#0b62b0", "#c65102"
SIGNS = LinearSegmentedColormap.from_list("signs", [BLUE, "#ffffff", ORANGE])

# SmolLM2-135M's own: tests/book/test_poster.py compares them with the model.
SENTENCE = "The capital of France is"
IDS = (504, 3575, 282, 4649, 314)
ROWS = (  # the first features of each row, in standard deviations of these rows
    (1.1, 0.2, -0.9, 0.8, 0.9, -0.3, 0.5, 0.7),
    (-0.1, -1.4, 0.4, 1.2, -1.3, -1.2, -0.5, 2.3),
    (-0.5, -0.2, -0.8, 1.5, 1.0, 0.0, 1.7, -0.4),
    (-1.2, 0.3, 0.2, 0.0, -0.1, -0.5, -2.0, -0.4),
    (-0.6, 0.1, -0.6, 0.4, 1.7, 0.6, -0.1, -0.8),
)
NEXT = ((" Paris", 0.77), (" the", 0.06), (" London", 0.01))

FIRST, STEP, CELL = 2.3, 0.84, 0.1  # inches: the first column, between two, a cell


def draw_poster(path: Path) -> None:
    """Draw the sentence as tokens, rows, turns, layers and the next token."""
    figure = Figure(figsize=(6.4, 4.3), dpi=200)
    figure.patch.set_alpha(0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 6.4), ylim=(4.3, 0))
    axes.axis("off")
    words = SENTENCE.replace(" ", " ␣").split(" ")
    for place, word in enumerate(words):
        _draw_column(axes, FIRST + STEP * place, word, place)
    _draw_layers(axes)
    _draw_next(axes)
    picks = "each number picks a row\nof the table; orange:\nabove 0, blue: below"
    parts = (
        (0.3, "Tokens", "pieces of text,\nand their numbers"),
        (1.17, "Tokens as vectors", picks),
        (2.02, "Order", "in each layer the place\nturns queries and keys"),
        (3.4, "Back to tokens", "the last vector, normed,\ntimes the table; softmax"),
    )
    for y, title, text in parts:
        axes.text(0.05, y, title, color=INK, fontsize=10.5, weight="bold", va="center")
        axes.text(0.05, y + 0.12, text, color=GREY, fontsize=9, va="top")
    figure.savefig(path, metadata={"Software": None})


def _draw_column(axes: Axes, x: float, word: str, place: int) -> None:
    """Draw one token, its id, its row and its turn, from top to bottom."""
    shape = {"boxstyle": "round,pad=0,rounding_size=0.06", "lw": 1}
    box = FancyBboxPatch((x - 0.38, 0.15), 0.76, 0.3, fc="none", ec=BLUE, **shape)
    axes.add_patch(box)
    centred = {"ha": "center", "va": "center"}
    axes.text(x, 0.31, word, color=INK, fontsize=9, **centred)
    axes.text(x, 0.6, IDS[place], color=GREY, fontsize=9, **centred)
    for row, value in enumerate(ROWS[place]):
        colour, corner = SIGNS((value + 2.3) / 4.6), (x - 0.17, 0.86 + CELL * row)
        axes.add_patch(Rectangle(corner, 0.34, CELL, fc=colour, ec=GREY, lw=0.4))
    axes.add_patch(Circle((x, 2.1), 0.2, fill=False, ec=GREY, lw=0.8))
    hand = {"arrowstyle": "-|>", "color": ORANGE, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
    turn = 0.2 * cmath.rect(1, place - cmath.pi / 2)  # one radian a place, from noon
    tip = (x + turn.real, 2.1 + turn.imag)
    axes.annotate("", tip, (x, 2.1), arrowprops=hand)
    for top, bottom in ((0.68, 0.84), (1.68, 1.82)):
        axes.plot((x, x), (top, bottom), color=GREY, lw=0.8)


def _draw_layers(axes: Axes) -> None:
    left, right = FIRST - 0.38, FIRST + 4 * STEP + 0.38
    box = FancyBboxPatch(
        (left, 1.82), right - left, 1.02, boxstyle="round,pad=0,rounding_size=0.06"
    )
    box.set(fc="none", ec=BLUE, lw=1)
    axes.add_patch(box)
    text = "30 layers: each token reads itself and those before it"
    centre = {"ha": "center", "va": "center"}
    axes.text((left + right) / 2, 2.68, text, color=INK, fontsize=9, **centre)


def _draw_next(axes: Axes) -> None:
    """Draw what the model holds likely to come next, under the last column."""
    x, left = FIRST + 4 * STEP, 3.0
    line = {"arrowstyle": "-|>", "color": GREY, "shrinkB": 0}
    axes.annotate("", (x, 3.2), (x, 2.84), arrowprops=line)
    for row, (word, chance) in enumerate(NEXT):
        y = 3.38 + 0.28 * row
        text = {"color": INK, "fontsize": 9, "va": "center"}
        axes.text(left - 0.1, y, word.replace(" ", "␣"), ha="right", **text)
        axes.add_patch(Rectangle((left, y - 0.09), 3 * chance, 0.18, fc=BLUE, lw=0))
        axes.text(left + 3 * chance + 0.08, y, f"{chance:.2f}", **text)
