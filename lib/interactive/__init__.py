"""Sliders and menus over frames, their frames, a live tokenizer and live dials."""

from lib.interactive.controls import (
    choice,
    frame_slider,
    live,
    live_slider,
    progress_bar,
    switched_slider,
)
from lib.interactive.dials import live_dials
from lib.interactive.dots import dots_frame
from lib.interactive.frames import figure_frame, table_frame
from lib.interactive.tokens import live_tokens, token_boxes

__all__ = [
    "choice",
    "dots_frame",
    "figure_frame",
    "frame_slider",
    "live",
    "live_dials",
    "live_slider",
    "live_tokens",
    "progress_bar",
    "switched_slider",
    "table_frame",
    "token_boxes",
]
