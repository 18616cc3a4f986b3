"""Pairs of features as pictures: the two layouts, one above the other."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lib.figures.style import COLORS

PAIR_COLORS = [COLORS[name] for name in ("blue", "vermillion", "green", "purple")]
CELL = 0.42  # half the side of a drawn feature


def draw_layouts(ax: Axes, order: Sequence[int]) -> None:
    """Draw the interleaved layout above the half layout, and what moves where.

    Features of one pair share a colour and are joined by an arc.

    Args:
        ax: axes to draw in; they keep no frame.
        order: the interleaved feature that stands at each place of the half layout.

    Raises:
        ValueError: order is not a permutation of an even number of features, at most 8.

    Example:
        >>> import matplotlib.pyplot as plt
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
    t = np.linspace(0, np.pi, 60)
    x = (a + b) / 2 + (b - a) / 2 * np.cos(t)
    ax.plot(x, y + height * np.sin(t), color=color, lw=2)
