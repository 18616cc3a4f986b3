"""The way back to tokens: one table for both ends, and a loss in little memory."""

from lib.tied_head.chunks import normalise, softmax_gradient, token_losses
from lib.tied_head.cross_entropy import (
    check_loss_options,
    reduce_losses,
    tied_cross_entropy,
)
from lib.tied_head.gradients import cast_like, chunk_gradients
from lib.tied_head.head import TiedLMHead, count_parameters, is_tied, tie_weights, untie
from lib.tied_head.resize import resize_token_embeddings

__all__ = [
    "TiedLMHead",
    "cast_like",
    "check_loss_options",
    "chunk_gradients",
    "count_parameters",
    "is_tied",
    "normalise",
    "reduce_losses",
    "resize_token_embeddings",
    "softmax_gradient",
    "tie_weights",
    "tied_cross_entropy",
    "token_losses",
    "untie",
]
