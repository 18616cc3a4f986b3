"""Pairs of features as pictures: clocks, and the two layouts side by side."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from lib.figures.style import COLORS, GREY

PAIR_COLORS = [COLORS[name] for name in ("blue", "vermillion", "green", "purple")]
CELL = 0.42  # half the side of a drawn feature


def draw_clocks(angles: Sequence[float], titles: Sequence[str], note: str) -> Figure:
    """Draw four pairs of one position as hands, each with its sine and its cosine.

    Args:
        angles: of the four hands, in radians, counter-clockwise from the right.
        titles: what stands above each clock.
        note: what stands below all of them.

    Returns:
        The figure.

    Raises:
        ValueError: not four of each.

    Example:
        >>> fig = draw_clocks([0, 1, 2, 3], list("abcd"), "position 7")
        >>> len(fig.axes)
        4
        >>> plt.close(fig)
    """
    fig, axes = _four_dials(titles, note, names=("sine", "cosine"))
    for ax, angle in zip(axes, angles, strict=True):
        _draw_face(ax)
        x, y = math.cos(angle), math.sin(angle)
        ax.plot([0, x], [0, 0], color=COLORS["blue"], lw=5, solid_capstyle="butt")
        ax.plot([x, x], [0, y], color=COLORS["vermillion"], lw=5, solid_capstyle="butt")
        ax.plot([0, x], [0, y], color=COLORS["ink"], lw=2, solid_capstyle="round")
        ax.plot(x, y, "o", color=COLORS["ink"], ms=6)
    return fig


def _four_dials(
    titles: Sequence[str], note: str, names: tuple[str, str]
) -> tuple[Figure, list[Axes]]:
    """Lay out four titled axes, two names in their colours and a line of text."""
    fig, axes = plt.subplots(2, 2, figsize=(4.6, 5.4))
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, loc="center", fontsize=10, pad=4)
    fig.subplots_adjust(0.02, 0.14, 0.98, 0.94, wspace=0.1, hspace=0.16)
    text = {"ha": "center", "fontsize": 10, "va": "center"}
    fig.text(0.27, 0.09, names[0], color=COLORS["vermillion"], **text)
    fig.text(0.73, 0.09, names[1], color=COLORS["blue"], **text)
    fig.text(0.5, 0.035, note, **text)
    return fig, list(axes.flat)


def _draw_face(ax: Axes) -> None:
    ax.add_patch(Circle((0, 0), 1, fill=False, edgecolor=GREY, linewidth=1))
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    ax.axis("off")


def draw_layouts(ax: Axes, order: Sequence[int]) -> None:
    """Draw the interleaved layout above the half layout, and what moves where.

    Features of one pair share a colour and are joined by an arc.

    Args:
        ax: axes to draw in; they keep no frame.
        order: the interleaved feature that stands at each place of the half layout.

    Raises:
        ValueError: order is not a permutation of an even number of features, at most 8.

    Example:
        >>> fig, ax = plt.subplots()
        >>> draw_layouts(ax, [0, 2, 1, 3])
        >>> [text.get_text() for text in ax.texts[:4]]
        ['$a_0$', '$b_0$', '$a_1$', '$b_1$']
        >>> plt.close(fig)
    """
    features = list(range(len(order)))
    if sorted(order) != features or len(features) % 2 or len(features) > 8:
        raise ValueError(
            f"order must permute an even number of features, at most 8: got {order}"
        )
    for place, feature in enumerate(features):
        _draw_feature(ax, place, 2.2, feature)
    for place, feature in enumerate(order):
        _draw_feature(ax, place, 0.0, feature)
        ends = [2.2 - CELL, CELL]
        ax.plot([feature, place], ends, color=PAIR_COLORS[feature // 2], lw=1.5)
    for pair in range(len(order) // 2):
        color = PAIR_COLORS[pair]
        _draw_arc(ax, 2 * pair, 2 * pair + 1, 2.2 + CELL, 0.45, color)
        a, b = order.index(2 * pair), order.index(2 * pair + 1)
        _draw_arc(ax, a, b, -CELL, -0.9, color)
    ax.set(xlim=(-0.6, len(order) - 0.4), ylim=(-1.5, 3.2), aspect="equal")
    ax.axis("off")


def _draw_feature(ax: Axes, x: float, y: float, feature: int) -> None:
    side = 2 * CELL
    color = PAIR_COLORS[feature // 2]
    ax.add_patch(Rectangle((x - CELL, y - CELL), side, side, color=color))
    name = f"${'ab'[feature % 2]}_{feature // 2}$"
    ax.text(x, y, name, ha="center", va="center", color="white", fontsize=13)


def _draw_arc(ax: Axes, a: float, b: float, y: float, height: float, color: str):
    t = np.linspace(0, math.pi, 60)
    x = (a + b) / 2 + (b - a) / 2 * np.cos(t)
    ax.plot(x, y + height * np.sin(t), color=color, lw=2)
