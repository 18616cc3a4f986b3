"""One head of attention as a picture: from the stream, through a head, and back."""

from collections.abc import Sequence
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

from lib.checks import check_index
from lib.figures.style import COLORS, GREY

WIDE, HIGH = 4.9, 6.5  # inches: the picture, narrow enough for a phone
FIRST, STEP = 1.95, 1.16  # inches: the first column, between two
BESIDE, SIDE = 0.49, 0.98  # inches: from a column to its stream, the width of a box
Y = {  # inches from the top
    "word": 0.3,
    "query": 1.02,
    "key": 1.7,
    "score": 2.32,
    "weight": 3.04,
    "value": 3.7,
    "found": 4.52,
    "out": 5.2,
    "add": 5.92,
}
SAID = {
    "word": ("Residual stream", "a token’s vector"),
    "query": ("Query", "what it looks for"),
    "key": ("Keys", "what each offers"),
    "score": ("Scores, mask", "query · key ÷ √D;\nthe future: hidden"),
    "weight": ("Softmax", "weights, sum 1"),
    "value": ("Values", "what each hands on"),
    "found": ("Weighted mean", "of the values"),
    "out": ("Projection", "joins the heads"),
    "add": ("Add", "into the stream"),
}
BLUE, ORANGE, GREEN = COLORS["blue"], COLORS["vermillion"], COLORS["green"]


def draw_attention(
    words: Sequence[str],
    place: int,
    query: str,
    keys: Sequence[str],
    scores: Sequence[str | None],
    weights: Sequence[float],
    values: Sequence[str],
    found: str,
) -> Figure:
    """Draw what one head does for one token, with the numbers of an example.

    Args:
        words: three tokens.
        place: the token that asks.
        query, found: its query, and the mean that it gets, as they are to be read.
        keys, values: those of each token, as they are to be read.
        scores: those of the query with each key; None where the mask hides the key.
        weights: of each token, 0 where it is hidden; written as fractions.
        values: of each token.

    Returns:
        The figure.

    Raises:
        TypeError, IndexError: a place that is not 0, 1 or 2.
        ValueError: other than three of each, a weight that is not from 0 to 1 or not 0
            where the key is hidden, or no key that is not.

    Example:
        >>> thirds = [2 / 3, 1 / 3, 0.0]
        >>> abc, scores = list("abc"), ["1", "0", None]
        >>> fig = draw_attention(abc, 1, "q", abc, scores, thirds, abc, "m")
        >>> "2/3" in [text.get_text() for text in fig.axes[0].texts]
        True
    """
    columns = _columns(words, keys, scores, weights, values)
    place = check_index("place", place, len(columns))
    fig = Figure(figsize=(WIDE, HIGH))
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, WIDE), ylim=(HIGH, 0))
    ax.axis("off")
    for row, (title, text) in SAID.items():
        ax.text(0.05, Y[row], title, fontsize=10, weight="bold", va="bottom")
        ax.text(0.05, Y[row] + 0.05, text, color=GREY, fontsize=9, va="top")
    x = FIRST + STEP * place
    for number, column in enumerate(columns):
        _draw_token(ax, FIRST + STEP * number, *column, target=x)
    _draw_query(ax, x, query, [score is not None for score in scores])
    _draw_way_back(ax, x, found)
    return fig


def _columns(words, keys, scores, weights, values) -> list[tuple]:
    """Check three tokens, and give what stands below each."""
    lists = words, keys, scores, weights, values
    sizes = [len(entries) for entries in lists]
    if sizes != [3] * 5:
        found = "{} words, {} keys, {} scores, {} weights, {} values".format(*sizes)
        raise ValueError(f"three tokens fit the picture, got {found}")
    if all(score is None for score in scores):
        raise ValueError("every key is hidden, at least 1 must be seen")
    for number, (score, weight) in enumerate(zip(scores, weights, strict=True)):
        if not 0 <= weight <= 1 + 1e-6:  # the rounding of a softmax
            raise ValueError(f"weight {number} must be from 0 to 1, got {weight}")
        if weight > 0 and score is None:
            raise ValueError(f"key {number} is hidden, its weight is {weight}, not 0")
    return list(zip(*lists, strict=True))


def _draw_token(ax, x, word, key, score, weight, value, target: float) -> None:
    """Draw one token's stream, key, score, weight and value, from top to bottom."""
    stream = {
        "color": "#c3c8d0",
        "lw": 4,
        "arrowstyle": "-|>",
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ends = (x - BESIDE, HIGH - 0.08), (x - BESIDE, Y["word"] + 0.17)
    ax.annotate("", *ends, arrowprops=stream, zorder=0)
    _box(ax, x - 0.03, Y["word"], word, COLORS["ink"], fontsize=11)
    for row, text, color in (("key", key, ORANGE), ("value", value, GREEN)):
        _arrow(ax, (x - BESIDE, Y[row]), (x - SIDE / 2 + 0.1, Y[row]), GREY)
        _box(ax, x + 0.1, Y[row], text, color)
    hidden = score is None
    written = {"ha": "center", "va": "center", "fontsize": 10}
    text, color = ("hidden", GREY) if hidden else (score, COLORS["ink"])
    ax.text(x + 0.1, Y["score"], text, color=color, **written)
    left = x + 0.1 - 0.45
    ax.add_patch(Rectangle((left, Y["weight"]), 0.9, 0.13, fc="none", ec=GREY, lw=0.8))
    ax.add_patch(Rectangle((left, Y["weight"]), 0.9 * weight, 0.13, fc=BLUE, lw=0))
    share = str(Fraction(weight).limit_denominator(99))
    ax.text(x + 0.1, Y["weight"] - 0.12, share, color=BLUE, **written)
    if not hidden:
        start, end = (x + 0.1, Y["value"] + 0.16), (target + 0.1, Y["found"] - 0.18)
        _arrow(ax, start, end, GREEN, lw=1 + 4 * weight)


def _draw_query(ax: Axes, x: float, query: str, visible: Sequence[bool]) -> None:
    """Draw the query of the token at x, and its way to the keys that it may see."""
    _arrow(ax, (x - BESIDE, Y["query"]), (x - SIDE / 2 + 0.1, Y["query"]), GREY)
    _box(ax, x + 0.1, Y["query"], query, BLUE)
    level = (Y["query"] + Y["key"]) / 2
    seen = [FIRST + STEP * j + 0.1 for j, sees in enumerate(visible) if sees]
    ax.plot([x + 0.1] * 2, [Y["query"] + 0.16, level], color=BLUE, lw=1.6)
    ax.plot([min(*seen, x), max(*seen, x + 0.1)], [level] * 2, color=BLUE, lw=1.6)
    for column in seen:
        _arrow(ax, (column, level), (column, Y["key"] - 0.16), BLUE, lw=1.6)


def _draw_way_back(ax: Axes, x: float, found: str) -> None:
    """Draw the mean, the output projection and the sum with the stream of x."""
    _box(ax, x + 0.1, Y["found"], found, GREEN)
    _arrow(ax, (x + 0.1, Y["found"] + 0.16), (x + 0.1, Y["out"] - 0.16), GREEN, lw=1.6)
    _box(ax, x + 0.1, Y["out"], "× $W_O$", COLORS["ink"])
    right = x + STEP - 0.02
    ax.text(right, Y["out"], "other heads", color=GREY, fontsize=9, va="center")
    _arrow(ax, (right - 0.04, Y["out"]), (x + 0.1 + SIDE / 2, Y["out"]), GREY)
    ax.plot([x + 0.1] * 2, [Y["out"] + 0.16, Y["add"]], color=COLORS["ink"], lw=1.6)
    end = (x - BESIDE + 0.13, Y["add"])
    _arrow(ax, (x + 0.1, Y["add"]), end, COLORS["ink"], lw=1.6)
    centre = (x - BESIDE, Y["add"])
    ax.add_patch(Circle(centre, 0.13, fc="white", ec=COLORS["ink"], lw=1.4, zorder=3))
    plus = {"ha": "center", "va": "center", "fontsize": 13, "zorder": 4}
    ax.text(*centre, "+", **plus)


def _box(ax: Axes, x: float, y: float, text: str, color: str, fontsize=9.5) -> None:
    shape = {"boxstyle": "round,pad=0,rounding_size=0.07", "lw": 1.6, "zorder": 3}
    corner = (x - SIDE / 2, y - 0.16)
    ax.add_patch(FancyBboxPatch(corner, SIDE, 0.32, fc="white", ec=color, **shape))
    written = {"ha": "center", "va": "center", "zorder": 4}
    ax.text(x, y, text, color=color, fontsize=fontsize, **written)


def _arrow(ax: Axes, start, end, color: str, lw: float = 1.0) -> None:
    line = {"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=line)
