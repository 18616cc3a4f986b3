"""Positions and losses, sound and broken.

`places(mask)` takes `[B, T]`, 1 where a token is; `seconds(grids, step, rate)` takes a
number of grids, seconds from one to the next, and ids a second; `loss(v, u, negatives)`
takes vectors `[D]`, `[D]`, `[K, D]`; `logits(hidden, table)` takes `[T, D]`, `[V, D]`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def places(mask: Tensor) -> Tensor:
    """Count the tokens seen, pads aside: the sound form."""
    return (mask.cumsum(dim=-1) - 1).clamp(min=0)


def columns(mask: Tensor) -> Tensor:
    """Number the columns, pads too."""
    return torch.arange(mask.shape[-1]).expand_as(mask)


def seconds(grids: int, step: float, rate: int) -> Tensor:
    """Cut to an integer after the product: the sound form."""
    return (torch.arange(grids, dtype=torch.float64) * step * rate).long()


def cut_first(grids: int, step: float, rate: int) -> Tensor:
    """Cut the seconds to an integer before the product."""
    return torch.arange(grids) * int(step) * rate


def loss(v: Tensor, u: Tensor, negatives: Tensor) -> Tensor:
    """Sum the log-sigmoids of the negatives: the sound form."""
    return -F.logsigmoid(u @ v) - F.logsigmoid(-negatives @ v).sum()


def summed_inside(v: Tensor, u: Tensor, negatives: Tensor) -> Tensor:
    """Sum the scores of the negatives inside one log-sigmoid."""
    return -F.logsigmoid(u @ v) - F.logsigmoid(-(negatives @ v).sum())


def logits(hidden: Tensor, table: Tensor) -> Tensor:
    """Score by the shared table as it is: the sound form."""
    return hidden @ table.T


def scaled_table(hidden: Tensor, table: Tensor) -> Tensor:
    """Fold the lookup's factor, the root of D, into the shared table."""
    return hidden @ (table * table.shape[-1] ** 0.5).T
