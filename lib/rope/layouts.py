"""The two layouts of RoPE's pairs, and the permutation that joins them.

interleaved   [a0 b0 a1 b1 a2 b2]   neighbours: RoFormer, Meta's Llama, GPT-J, GGUF
half          [a0 a1 a2 b0 b1 b2]   i and i + d/2: GPT-NeoX, Llama in transformers

Both give the same scores once the features are permuted, and different ones on the same
weights.
"""

import torch
from torch import Tensor

from lib.checks import check_size, even_width


def half_to_interleaved(x: Tensor) -> Tensor:
    """Reorder the last dimension from [a0 a1 … b0 b1 …] to [a0 b0 a1 b1 …].

    Args:
        x: `[..., r]` with an even width r.

    Example:
        >>> half_to_interleaved(torch.tensor([0, 2, 4, 1, 3, 5])).tolist()
        [0, 1, 2, 3, 4, 5]
    """
    even_width("the last dimension", x.shape[-1])
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


def interleaved_to_half(x: Tensor) -> Tensor:
    """Reorder the last dimension from [a0 b0 a1 b1 …] to [a0 a1 … b0 b1 …].

    Args:
        x: `[..., r]` with an even width r.

    Example:
        >>> interleaved_to_half(torch.arange(6)).tolist()
        [0, 2, 4, 1, 3, 5]
    """
    even_width("the last dimension", x.shape[-1])
    return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


def permute_qk_weight(
    weight: Tensor, num_heads: int, rotary_dim: int | None = None
) -> Tensor:
    """Move a projection from the interleaved to the half layout, head by head.

    Queries and keys from moved projections have the same scores in the half layout as
    the original ones in the interleaved layout.

    Args:
        weight: `[num_heads · head_dim, ...]`, the weight of q or of k, or its bias.
        num_heads: the heads in this weight: with grouped queries k has fewer than q.
        rotary_dim: how many features of each head are rotated; all if None.

    Raises:
        ValueError: rows that do not divide by the heads, an odd width, a rotary width
            above the head's.

    Source: transformers 5.24.0, `convert_llama_weights_to_hf.py`, `permute`.

    Example:
        >>> permute_qk_weight(torch.arange(8), num_heads=2).tolist()
        [0, 2, 1, 3, 4, 6, 5, 7]
    """
    rows, num_heads = weight.shape[0], check_size("num_heads", num_heads)
    if rows % num_heads:
        raise ValueError(f"{rows} rows do not divide into {num_heads} heads")
    head_dim = rows // num_heads
    rotary_dim = even_width(
        "rotary_dim", head_dim if rotary_dim is None else rotary_dim
    )
    if rotary_dim > head_dim:
        raise ValueError(f"rotary_dim {rotary_dim} is more than the head's {head_dim}")
    order = torch.arange(head_dim, device=weight.device)
    order[:rotary_dim] = interleaved_to_half(order[:rotary_dim])
    return weight.unflatten(0, (num_heads, head_dim))[:, order].flatten(0, 1)
