"""Rotary position embedding (RoPE): turn each pair of features by position · inv_freq.

Positions are always an argument, and nothing is remembered between calls. How the
frequencies are chosen, and bent past the trained length, is `lib.rope_scaling`.
"""

from lib.rope.embedding import RotaryEmbedding, apply_rope, rope_cos_sin
from lib.rope.layouts import (
    half_to_interleaved,
    interleaved_to_half,
    permute_qk_weight,
)
from lib.rope.rotation import turn_half, turn_interleaved
from lib.rope_scaling import rope_inv_freq

__all__ = [
    "RotaryEmbedding",
    "apply_rope",
    "half_to_interleaved",
    "interleaved_to_half",
    "permute_qk_weight",
    "rope_cos_sin",
    "rope_inv_freq",
    "turn_half",
    "turn_interleaved",
]
