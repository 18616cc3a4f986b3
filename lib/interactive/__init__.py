"""Sliders and menus over frames, the frames that they show, and a live tokenizer."""

from lib.interactive.controls import (
    choice,
    frame_slider,
    live,
    live_slider,
    progress_bar,
)
from lib.interactive.dots import dots_frame
from lib.interactive.frames import figure_frame, table_frame
from lib.interactive.tokens import live_tokens, token_boxes

__all__ = [
    "choice",
    "dots_frame",
    "figure_frame",
    "frame_slider",
    "live",
    "live_slider",
    "live_tokens",
    "progress_bar",
    "table_frame",
    "token_boxes",
]
