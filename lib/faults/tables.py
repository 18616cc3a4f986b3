"""Tables, tied heads and ranks, sound and broken.

`table(size, width)` gives a table of places; `load(model, state)` fills a model of
`pair`; `rank(scores, answer)` takes `[V]` and an id, 1 being the best.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def table(size: int, width: int) -> nn.Embedding:
    """Make a table in which each place learns: the sound form."""
    return nn.Embedding(size, width)


def frozen_place(size: int, width: int) -> nn.Embedding:
    """Name place 0 as padding, as if it were token 0: it stays zero."""
    return nn.Embedding(size, width, padding_idx=0)


def pair(size: int, width: int) -> nn.ModuleDict:
    """Make a table and a head that share one weight.

    Args:
        size: rows of the table.
        width: features of a row.

    Returns:
        Modules `table` and `head`, with one parameter `[size, width]`.

    Example:
        >>> len(list(pair(5, 3).parameters()))
        1
    """
    both = {"table": nn.Embedding(size, width), "head": nn.Linear(width, size, False)}
    both["head"].weight = both["table"].weight
    return nn.ModuleDict(both)


def load(model: nn.ModuleDict, state: Mapping[str, Tensor]) -> None:
    """Assign, and tie again: the sound form."""
    model.load_state_dict(state, assign=True)
    model["head"].weight = model["table"].weight


def assigned(model: nn.ModuleDict, state: Mapping[str, Tensor]) -> None:
    """Assign each name its own tensor, which unties the two."""
    model.load_state_dict(state, assign=True)


def rank(scores: Tensor, answer: int) -> int:
    """Refuse what has no order: the sound form."""
    if not torch.isfinite(scores).all():
        raise ValueError("scores must be finite")
    return 1 + int((scores > scores[answer]).sum())


def unchecked_rank(scores: Tensor, answer: int) -> int:
    """Count what is better, where nothing is better than NaN."""
    return 1 + int((scores > scores[answer]).sum())
