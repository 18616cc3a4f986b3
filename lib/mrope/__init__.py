"""Rotary positions with three axes: time, height and width share one spectrum.

A text token has one place in a line; a token of an image has a frame, a row and a
column. M-RoPE numbers every token three times, and each pair of channels turns by one
of the three numbers. Where they agree, as they do for text, it is 1-D RoPE.
"""

from lib.mrope.positions import mrope_position_ids, vision_position_ids
from lib.mrope.rotation import axial_rope_cos_sin, mrope_cos_sin

__all__ = [
    "axial_rope_cos_sin",
    "mrope_cos_sin",
    "mrope_position_ids",
    "vision_position_ids",
]
