"""The way back to tokens: one table for both ends, and a loss in little memory."""

from lib.tied_head.chunks import normalise, softmax_gradient
from lib.tied_head.cross_entropy import tied_cross_entropy
from lib.tied_head.head import TiedLMHead, count_parameters, is_tied, tie_weights, untie
from lib.tied_head.resize import resize_token_embeddings

__all__ = [
    "TiedLMHead",
    "count_parameters",
    "is_tied",
    "normalise",
    "resize_token_embeddings",
    "softmax_gradient",
    "tie_weights",
    "tied_cross_entropy",
    "untie",
]
