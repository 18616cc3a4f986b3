"""Attention weights under a mask, sound and broken.

`weights(scores, tokens)` takes `[T, T]` and `[T]`, 1 where a token is; a query sees the
tokens up to itself.
"""

import torch
from torch import Tensor


def visible(tokens: Tensor) -> Tensor:
    """Say which keys each query sees, `[T, T]`."""
    square = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    return square.tril() & tokens.bool()


def weights(scores: Tensor, tokens: Tensor) -> Tensor:
    """Give a query that sees no key no weights: the sound form."""
    seen = visible(tokens)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~seen, lowest).softmax(dim=-1) * seen


def minus_infinity(scores: Tensor, tokens: Tensor) -> Tensor:
    """Fill with minus infinity: a query that sees no key divides 0 by 0."""
    return scores.masked_fill(~visible(tokens), -torch.inf).softmax(dim=-1)


def two_lowest(scores: Tensor, tokens: Tensor) -> Tensor:
    """Add two planes of lowest numbers: hidden once beats hidden twice."""
    lowest = torch.finfo(scores.dtype).min
    causal = torch.full_like(scores, lowest).triu(diagonal=1)
    padding = (1 - tokens).to(scores) * lowest
    return (scores + causal + padding).softmax(dim=-1)
