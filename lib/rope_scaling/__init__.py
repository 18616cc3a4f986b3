"""The spectra of RoPE: the plain one, and every published way to bend it.

All change one curve, the inverse frequency of each pair of features, and some also
multiply cos and sin by an attention factor. A number out of its range is a ValueError
that names it; a string or a bool in its place is a TypeError.
"""

from lib.rope_scaling.by_length import dynamic_ntk_inv_freq, longrope_inv_freq
from lib.rope_scaling.config import depends_on_length, rope_type
from lib.rope_scaling.frequencies import rope_inv_freq, unseen_angles, wavelengths
from lib.rope_scaling.published import scaled_inv_freq
from lib.rope_scaling.scalings import (
    linear_inv_freq,
    llama3_inv_freq,
    ntk_inv_freq,
    proportional_inv_freq,
)
from lib.rope_scaling.yarn import yarn_inv_freq, yarn_softmax_scale

__all__ = [
    "depends_on_length",
    "dynamic_ntk_inv_freq",
    "linear_inv_freq",
    "llama3_inv_freq",
    "longrope_inv_freq",
    "ntk_inv_freq",
    "proportional_inv_freq",
    "rope_inv_freq",
    "rope_type",
    "scaled_inv_freq",
    "unseen_angles",
    "wavelengths",
    "yarn_inv_freq",
    "yarn_softmax_scale",
]
