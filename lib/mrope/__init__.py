"""Rotary positions with three axes: time, height and width share one spectrum.

A text token has one place in a line. An image or a video is a grid, and a token of it
has a frame, a row and a column. A frame is one step in time of a grid: an image has
one, and of a video two sampled pictures are joined into one. M-RoPE numbers every token
three times, and each pair of channels turns by one of the three numbers. Where they
agree, as they do for text, it is 1-D RoPE.
"""

from lib.mrope.positions import mrope_position_ids, vision_position_ids
from lib.mrope.rotation import axial_rope_cos_sin, mrope_cos_sin

__all__ = [
    "axial_rope_cos_sin",
    "mrope_cos_sin",
    "mrope_position_ids",
    "vision_position_ids",
]
