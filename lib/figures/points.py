"""Names beside the points of a map, each where it covers least."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text

from lib.checks import check_finite

# Where a name may stand about its point: right, left, above, below, then the corners.
SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])
GAPS = (4, 10, 18, 28, 40)  # from the point to the name, in points


def label_points(
    ax: Axes,
    points: Sequence | np.ndarray,
    texts: Iterable[str],
    colors: Iterable[str],
    fontsize: float = 8,
) -> list[Annotation]:
    """Write a name beside each point, where it covers other points and names least.

    A name that stands away from its point is joined to it by a thin line. Call it last,
    when the axes have their final size and limits.

    Args:
        ax: axes in which the points are drawn.
        points: `[n, 2]`, in the coordinates of the data.
        texts: n names.
        colors: n colours.
        fontsize: of the names, in points.

    Returns:
        The n names.

    Raises:
        ValueError: other numbers of points, names and colours, or a point that is not
            finite.

    Example:
        >>> import matplotlib.pyplot as plt
        >>> fig, ax = plt.subplots()
        >>> names = label_points(ax, [[0.5, 0.5]], ["king"], ["black"])
        >>> names[0].get_text()
        'king'
        >>> plt.close(fig)
    """
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    texts, colors = list(texts), list(colors)
    if not len(points) == len(texts) == len(colors):
        found = f"{len(points)} points, {len(texts)} names, {len(colors)} colours"
        raise ValueError(f"one of each is needed, got {found}")
    check_finite("points", torch.from_numpy(points))
    ax.figure.canvas.draw()  # from here on the axes have their size
    dots = ax.transData.transform(points)  # [n, 2], pixels
    taken = [np.concatenate([dot - 6, dot + 6]) for dot in dots]
    labels = []
    for point, dot, text, color in zip(points, dots, texts, colors, strict=True):
        line = {"arrowstyle": "-", "color": color, "lw": 0.4, "shrinkA": 0}
        style = {"textcoords": "offset points", "ha": "center", "va": "center"}
        style["parse_math"] = False  # a dollar in a word is a dollar
        label = ax.annotate(
            text, point, (0, 0), color=color, size=fontsize, arrowprops=line, **style
        )
        labels.append(label)
        box = _freest(dot, Text.get_window_extent(label), taken, ax.figure.dpi / 72)
        taken.append(box)
        middle = (box[:2] + box[2:]) / 2
        label.set_position((middle - dot) * 72 / ax.figure.dpi)
    return labels


def _freest(dot: np.ndarray, extent, taken: list, scale: float) -> np.ndarray:
    """The box about a point that covers least; of equals the nearest. Pixels `[4]`."""
    half = np.array([extent.width, extent.height]) / 2
    sides = np.tile(SIDES, (len(GAPS), 1))  # [candidates, 2]
    gaps = np.repeat(GAPS, len(SIDES))[:, None] * scale
    middles = dot + sides * (half + gaps)
    boxes = np.hstack([middles - half, middles + half])  # [candidates, 4]
    return boxes[_shared(boxes, np.array(taken)).sum(1).argmin()]


def _shared(boxes: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The area that each box shares with each of those taken. `[boxes, taken]`"""
    one, other = boxes[:, None], taken[None]  # [boxes, 1, 4], [1, taken, 4]
    sides = np.minimum(one[..., 2:], other[..., 2:])
    sides = sides - np.maximum(one[..., :2], other[..., :2])
    return sides.clip(0).prod(-1)
