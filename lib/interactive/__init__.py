"""Sliders and menus over frames, and the frames that they show."""

from lib.interactive.controls import (
    choice,
    frame_slider,
    live,
    live_slider,
    progress_bar,
)
from lib.interactive.dots import dots_frame
from lib.interactive.frames import figure_frame, table_frame

__all__ = [
    "choice",
    "dots_frame",
    "figure_frame",
    "frame_slider",
    "live",
    "live_slider",
    "progress_bar",
    "table_frame",
]
