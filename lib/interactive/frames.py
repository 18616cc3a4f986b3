"""Frames: pieces of HTML for a slider or a menu of `lib.interactive` to show."""

import base64
import io
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from lib.figures import picture

PIXELS_PER_INCH = 108  # of the page: figures.WIDTH is as wide as its text
TOLERANCE = 0.02  # inches that a line's own thickness may reach beyond the canvas


def figure_frame(fig: Figure, alt: str, dpi: int = 144) -> str:
    """Draw a figure as one frame, and close it.

    The frame is the figure's whole canvas, not cut to what is drawn, so that frames
    from figures of one size lie exactly over each other.

    Args:
        fig: a matplotlib figure; 6.4 inches of it fill the page's text.
        alt: what one sees in this frame, for readers who do not see it.
        dpi: dots per inch of the stored PNG.

    Returns:
        An `<img>` element that holds the picture and shrinks with a narrow page.

    Raises:
        ValueError: alt is empty, or something is drawn beyond the canvas and would
            be cut off.

    Example:
        >>> fig = plt.figure(figsize=(2, 1))
        >>> figure_frame(fig, "an empty canvas")[:55]
        '<img alt="an empty canvas" width="216" height="108" sty'
    """
    _check_canvas(fig)
    buffer = io.BytesIO()
    with plt.rc_context({"savefig.bbox": None}):
        fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    plt.close(fig)
    width, height = (
        round(PIXELS_PER_INCH * inches) for inches in fig.get_size_inches()
    )
    data = base64.b64encode(buffer.getvalue()).decode()
    return picture(f"data:image/png;base64,{data}", alt, width, height)


def _check_canvas(fig: Figure) -> None:
    fig.draw_without_rendering()  # a layout engine moves things only now
    drawn = fig.get_tightbbox()
    width, height = fig.get_size_inches()
    beyond = {
        "left": -drawn.x0,
        "right": drawn.x1 - width,
        "lower": -drawn.y0,
        "upper": drawn.y1 - height,
    }
    edge = max(beyond, key=beyond.get)
    if beyond[edge] > TOLERANCE:
        raise ValueError(
            f"the figure reaches {beyond[edge]:.2f} inches beyond its {edge} edge: "
            "leave more room beside its axes"
        )


def table_frame(caption: str, header: Sequence, rows: Sequence[Sequence]) -> str:
    """Write rows as a table; whatever characters they hold are shown as they are.

    Args:
        caption: what the table shows.
        header: a name for each column.
        rows: one sequence a row, as long as the header; `str` is applied to each entry.

    Returns:
        A `<table>` element.

    Raises:
        ValueError: a row is longer or shorter than the header.

    Example:
        >>> frame = table_frame("Near <s>", ["word", "cosine"], [["the", "0.93"]])
        >>> frame.endswith("<tr><td>the</td><td>0.93</td></tr></tbody></table>")
        True
    """
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(
                f"row {number} has {len(row)} entries, the header has {len(header)}"
            )
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(entry))}</td>" for entry in row) + "</tr>"
        for row in rows
    )
    return (
        '<table class="dataframe" style="min-width:16rem">'
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def check_frames(frames: Sequence[str], at_least: int = 1) -> None:
    """Refuse frames that a reader could not see, or could not hear.

    Args:
        frames: pieces of HTML.
        at_least: how many are needed.

    Raises:
        TypeError: frames is one string, or a frame is not a string.
        ValueError: too few frames, or an image without alt.

    Example:
        >>> check_frames(["<p>one</p>", "<img src='2.png'>"])
        Traceback (most recent call last):
        ValueError: frame 1 has an image without alt
    """
    if isinstance(frames, str):
        raise TypeError("frames must be a sequence of strings, got one string")
    if len(frames) < at_least:
        raise ValueError(f"{at_least} or more frames are needed, got {len(frames)}")
    for number, frame in enumerate(frames):
        if not isinstance(frame, str):
            raise TypeError(f"frame {number} is a {type(frame).__name__}, not HTML")
        if _images_without_alt(frame):
            raise ValueError(f"frame {number} has an image without alt")


def _images_without_alt(frame: str) -> int:
    parser = _Images()
    parser.feed(frame)
    return sum(not (alt or "").strip() for alt in parser.alts)


class _Images(HTMLParser):
    """Collects the alt of every image in a piece of HTML."""

    def __init__(self):
        super().__init__()
        self.alts = []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.alts.append(dict(attrs).get("alt"))
