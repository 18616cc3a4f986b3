"""The book's figures: one style, attention, pairs of features, frames in SVG."""

from lib.figures.attention import draw_attention
from lib.figures.bars import bars_frame
from lib.figures.clocks import clocks_frame, shift_frame
from lib.figures.ids import ids_frame
from lib.figures.pairs import draw_layouts
from lib.figures.pictures import picture, svg_source
from lib.figures.points import label_points
from lib.figures.style import (
    COLORS,
    DIVERGING,
    GREY,
    SEQUENTIAL,
    draw_matrix,
    label_ends,
    use_book_style,
)
from lib.figures.window import window_frame

__all__ = [
    "COLORS",
    "DIVERGING",
    "GREY",
    "SEQUENTIAL",
    "bars_frame",
    "clocks_frame",
    "draw_attention",
    "draw_layouts",
    "draw_matrix",
    "ids_frame",
    "label_ends",
    "label_points",
    "picture",
    "shift_frame",
    "svg_source",
    "use_book_style",
    "window_frame",
]
