"""One look for every figure: colours, type, direct labels and small matrices.

The figures are drawn in dark ink on no background. On a dark page the book's style
sheet inverts them and turns the hues back, so each colour is chosen to read on white
and, turned, on near-black, and to differ from the others for a colour-blind reader.
"""

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text

COLORS = {
    "blue": "#0b62b0",
    "vermillion": "#c65102",
    "green": "#008766",
    "purple": "#b0588a",
    "ink": "#1f2933",
}
GREY = "#6b7280"  # for what stands back: baselines, grids, asides
SEQUENTIAL = LinearSegmentedColormap.from_list("book", ["#ffffff", COLORS["blue"]])
DIVERGING = LinearSegmentedColormap.from_list(
    "book_diverging", [COLORS["blue"], "#ffffff", COLORS["vermillion"]]
)
WIDTH = 6.4  # inches: the width of the page's text

_STYLE = {
    "figure.figsize": (WIDTH, 3.4),
    "figure.dpi": 200,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.bbox": "tight",
    "axes.facecolor": "none",
    "axes.edgecolor": GREY,
    "axes.labelcolor": COLORS["ink"],
    "axes.prop_cycle": plt.cycler(color=COLORS.values()),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titlepad": 10,
    "axes.labelsize": 10,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": "#d5d9e0",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "text.color": COLORS["ink"],
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": COLORS["ink"],
    "ytick.labelcolor": COLORS["ink"],
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}


def use_book_style() -> None:
    """Draw every later figure in the book's style, whatever settings a reader keeps.

    In a notebook, pictures are stored as PNG without the version of the software that
    drew them, so that a second run stores the same bytes.

    Example:
        >>> use_book_style()
        >>> plt.rcParams["axes.spines.top"]
        False
    """
    plt.rcdefaults()
    plt.rcParams.update(_STYLE)
    try:
        from IPython import get_ipython
    except ImportError:
        return
    if get_ipython() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("png", metadata={"Software": None})


def label_ends(ax: Axes, gap: float = 0.055) -> list[Text]:
    """Write each line's label beside its right end, in place of a legend.

    Labels that would overlap are moved apart vertically. Call it last, when the axes
    have their final limits and scales.

    Args:
        ax: axes with labelled lines; lines without a label are left alone.
        gap: smallest distance between two labels, as a share of the axes' height.

    Returns:
        The texts, from the lowest to the highest.

    Raises:
        ValueError: no line has a label.

    Example:
        >>> fig, ax = plt.subplots()
        >>> _ = ax.plot([0, 1], [0, 1], label="RoPE")
        >>> [text.get_text() for text in label_ends(ax)]
        ['RoPE']
        >>> plt.close(fig)
    """
    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    if not lines:
        raise ValueError("no line of these axes has a label")
    ax.autoscale_view()  # limits are otherwise set only when the figure is drawn
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [(to_axes.transform(line.get_xydata()[-1]), line) for line in lines]
    texts, height = [], -np.inf
    for (x, y), line in sorted(ends, key=lambda end: end[0][1]):
        height = max(y, height + gap)
        text = ax.annotate(
            line.get_label(),
            (x, height),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            color=line.get_color(),
            va="center",
        )
        texts.append(text)
    return texts


def draw_matrix(
    ax: Axes,
    values: Sequence | np.ndarray,
    fmt: str | None = None,
    diverging: bool = False,
    limit: float | None = None,
    outline_rows: Iterable[int] = (),
) -> AxesImage:
    """Draw a matrix as coloured cells, with its numbers where `fmt` is given.

    Args:
        ax: axes to draw in; row 0 is at the top.
        values: numbers `[rows, columns]`.
        fmt: format of the number in a cell, such as `".1f"`; None leaves it out.
        diverging: colour by sign about zero, instead of from low to high.
        limit: the value of the strongest colour; None takes the largest magnitude.
        outline_rows: rows to frame.

    Returns:
        The image, for a colour bar.

    Raises:
        ValueError: values that are not a matrix.
        IndexError: a row to frame that the matrix does not have.

    Example:
        >>> fig, ax = plt.subplots()
        >>> draw_matrix(ax, [[1, 0], [0, 1]], fmt="d").get_array().shape
        (2, 2)
        >>> plt.close(fig)
    """
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(
            f"values must be [rows, columns], got {values.ndim} dimensions"
        )
    top = np.abs(values).max() if limit is None else limit
    low, cmap = (-top, DIVERGING) if diverging else (values.min(), SEQUENTIAL)
    image = ax.imshow(values, cmap=cmap, vmin=low, vmax=top, aspect="auto")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if fmt is not None:
        _write_numbers(ax, image, values, fmt)
    for row in outline_rows:
        _outline_row(ax, row, values.shape)
    return image


def _write_numbers(ax: Axes, image: AxesImage, values: np.ndarray, fmt: str) -> None:
    """Write each value in its cell, dark on a light cell and light on a dark one."""
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        color = "white" if dark else COLORS["ink"]
        text = format(value if float(format(value, fmt)) else abs(value), fmt)
        text = text.replace("-", "−")  # no minus sign before a rounded zero
        ax.text(column, row, text, ha="center", va="center", color=color, fontsize=9)


def _outline_row(ax: Axes, row: int, shape: tuple[int, int]) -> None:
    """Frame one row of a drawn matrix."""
    rows, columns = shape
    if not 0 <= row < rows:
        raise IndexError(f"row {row} is outside the matrix: rows 0 to {rows - 1}")
    frame = Rectangle((-0.5, row - 0.5), columns, 1, fill=False, clip_on=False)
    frame.set(edgecolor=COLORS["vermillion"], linewidth=2.5)
    ax.add_patch(frame)
