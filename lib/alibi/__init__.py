"""ALiBi: subtract from each score what the distance costs, with no position vectors."""

from lib.alibi.attention import alibi_attention
from lib.alibi.bias import alibi_bias, alibi_slopes
from lib.alibi.coordinates import with_coordinates

__all__ = [
    "alibi_attention",
    "alibi_bias",
    "alibi_slopes",
    "with_coordinates",
]
