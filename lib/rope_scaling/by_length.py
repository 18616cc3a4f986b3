"""Scalings that change with the length of the sequence: dynamic NTK and LongRoPE.

Nothing is kept between calls: the length is an argument, one for all or one a sequence.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks import check_integer, check_integers, number
from lib.device import exact_device
from lib.rope_scaling.config import TRAINED
from lib.rope_scaling.frequencies import rope_inv_freq, slow_down


def dynamic_ntk_inv_freq(
    rotary_dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    seq_len: int | Tensor | None,
    device=None,
):
    """Apply NTK scaling that grows with the length: none up to the trained length.

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        factor: how fast alpha = 1 + factor · (L − L₀) / L₀ grows, at least 1.
        original_max_position_embeddings: the trained length L₀.
        seq_len: the length L, one for all or int64 `[B]`; None means L₀.

    Returns:
        inv_freq, float64 `[d/2]`, or `[B, d/2]` for lengths `[B]`, and the attention
        factor 1.0.

    Raises:
        ValueError: a number out of its range, or one pair alone.
        TypeError: lengths that are not integers.

    Source: emozilla 2023, Dynamically Scaled RoPE; jquesnelle/yarn,
    `LlamaDynamicScaledRotaryEmbedding`; transformers 5.24.0.

    Example:
        >>> dynamic_ntk_inv_freq(4, 100.0, 2.0, 2048, seq_len=4096)[0].tolist()
        [1.0, 0.03333333333333333]
    """
    factor = number("factor", factor, at_least=1)
    trained = number(TRAINED, original_max_position_embeddings, at_least=1)
    lengths = _lengths(seq_len, trained, device)  # [1] or [B, 1]
    alpha = 1 + factor * (lengths - trained).clamp(min=0) / trained
    return slow_down(rope_inv_freq(rotary_dim, base, lengths.device), alpha), 1.0


def longrope_inv_freq(
    rotary_dim: int,
    base: float,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    max_position_embeddings: float,
    seq_len: int | Tensor | None,
    attention_factor: float | None = None,
    device=None,
):
    """Divide each pair by its own searched factor, from one of two lists (LongRoPE).

    Args:
        rotary_dim, base, device: as for `rope_inv_freq`.
        short_factor: d/2 numbers, for lengths up to the trained one.
        long_factor: d/2 numbers, for longer ones.
        original_max_position_embeddings: the trained length L₀, at least 2.
        max_position_embeddings: the extended length L₁.
        seq_len: the length, one for all or int64 `[B]`; None means L₀.
        attention_factor: √(1 + ln(L₁/L₀) / ln L₀) if None, the same for both lists.

    Returns:
        inv_freq, float64 `[d/2]`, or `[B, d/2]` for lengths `[B]`, and the factor.

    Raises:
        ValueError: a list that has not d/2 numbers, a number out of its range.
        TypeError: lengths that are not integers.

    Source: Ding et al. 2024, LongRoPE; microsoft/LongRoPE; transformers 5.24.0.

    Example:
        >>> longrope_inv_freq(4, 100.0, [1, 1], [2, 4], 8, 64, seq_len=9)[0].tolist()
        [0.5, 0.025]
    """
    trained = number(TRAINED, original_max_position_embeddings, at_least=2)
    lengths = _lengths(seq_len, trained, device)  # [1] or [B, 1]
    inv_freq = rope_inv_freq(rotary_dim, base, lengths.device)
    short = _pair_factors("short_factor", short_factor, inv_freq)
    long = _pair_factors("long_factor", long_factor, inv_freq)
    if attention_factor is None:
        extended = number("max_position_embeddings", max_position_embeddings, 1)
        growth = math.log(max(1.0, extended / trained))
        attention_factor = math.sqrt(1 + growth / math.log(trained))
    attention = number("attention_factor", attention_factor, above=0)
    return inv_freq / torch.where(lengths > trained, long, short), attention


def _lengths(seq_len: int | Tensor | None, trained: float, device) -> Tensor:
    """Bring lengths to float64 `[1]` or `[B, 1]`; None means the trained one."""
    if isinstance(seq_len, Tensor):
        lengths = check_integers("seq_len", seq_len)
        if lengths.dim() > 1:
            raise ValueError(f"seq_len must be [B], got {list(lengths.shape)}")
        device = lengths.device if device is None else device
    else:
        length = int(trained) if seq_len is None else check_integer("seq_len", seq_len)
        lengths = torch.tensor(length, dtype=torch.int64)
    return lengths.to(exact_device(device)).double().unsqueeze(-1)


def _pair_factors(name: str, factors: Sequence[float], like: Tensor) -> Tensor:
    if len(factors) != len(like):
        raise ValueError(
            f"{name} needs one number for each of the {len(like)} rotated pairs, "
            f"got {len(factors)}"
        )
    checked = [number(name, factor, above=0) for factor in factors]
    return torch.tensor(checked, dtype=torch.float64, device=like.device)
