"""ALiBi's bias and slopes, sound and broken.

`bias(slopes, queries, keys)` takes `[H]`, `[T]` and `[S]` positions and gives
`[H, T, S]`; `slopes(heads)` gives `[H]`.
"""

import torch
from torch import Tensor


def bias(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Give minus slope times distance: the sound form."""
    return slopes[:, None, None] * (keys - queries[:, None])  # [H, T, S]


def first_query(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Count distances from the shapes: a lone query has row 0, and no distance."""
    rows = torch.arange(len(queries))[:, None]
    return slopes[:, None, None] * (keys - keys[0] - rows).clamp(max=0)


def bfloat16_bias(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Build the bias in bfloat16, which merges far distances."""
    return bias(slopes, queries, keys).bfloat16().float()


def slopes(heads: int) -> Tensor:
    """Give the paper's slopes, from two lists where heads are no power of two."""
    whole = 2 ** (heads.bit_length() - 1)
    first = 2.0 ** (-8 * torch.arange(1, whole + 1) / whole)
    more = 2.0 ** (-8 * torch.arange(1, 2 * whole, 2) / (2 * whole))
    return torch.cat((first, more[: heads - whole]))


def one_list(heads: int) -> Tensor:
    """Use one geometric list for any number of heads."""
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
