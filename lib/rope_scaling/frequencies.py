"""The plain spectrum of RoPE, which every scaling bends.

Pair i of d rotated features turns by inv_freq[i] radians a token, so its wavelength is
2π / inv_freq[i] tokens.
"""

import math

import torch
from torch import Tensor

from lib.checks import check_size, even_width, number
from lib.device import exact_device


def rope_inv_freq(rotary_dim: int, base: float = 1e4, device=None) -> Tensor:
    """Compute the plain frequencies base^(−2i/d), in radians a token.

    Args:
        rotary_dim: how many features of a head are rotated, an even number d.
        base: the number whose powers are the frequencies, above 1.
        device: where the result lives (the default device if None); the CPU in place of
            a device without float64.

    Returns:
        float64 `[d/2]`, from 1 (57.3° a token) down to almost 1 / base.

    Raises:
        ValueError: an odd or non-positive width, or a base of 1 or less.
        TypeError: the width is not an int, or the base not a number.

    Source: Su et al. 2021, RoFormer, section 3.2.2.

    Example:
        >>> rope_inv_freq(4, base=100.0).tolist()
        [1.0, 0.1]
    """
    width = even_width("rotary_dim", rotary_dim)
    base = number("base", base, above=1)
    twice_i = torch.arange(
        0, width, 2, dtype=torch.float64, device=exact_device(device)
    )
    return base ** -(twice_i / width)


def wavelengths(inv_freq: Tensor) -> Tensor:
    """Compute each pair's tokens for one full turn; infinite if it stands still.

    Args:
        inv_freq: radians a token, `[r/2]`.

    Example:
        >>> wavelengths(torch.tensor([1.0, 0.0])).tolist()
        [6.2831854820251465, inf]
    """
    return 2 * math.pi / inv_freq


def unseen_angles(
    inv_freq: Tensor, trained_inv_freq: Tensor, length: int, trained_length: int
) -> Tensor:
    """Compute which share of its angles at a length each pair never met in training.

    A pair meets the arc from 0 to inv_freq · length, and all angles once it has turned
    around. Whether it met an angle often is not counted.

    Args:
        inv_freq: the speeds at hand, `[d/2]`, radians a token, none negative.
        trained_inv_freq: those that the model was trained with, `[d/2]`.
        length: tokens that are read, at least 1.
        trained_length: tokens of the longest text in training, at least 1.

    Returns:
        `[d/2]`, from 0 (all angles are known) to 1.

    Raises:
        ValueError: a length below 1, or different numbers of pairs.

    Source: the argument for interpolation in Chen et al. 2023, pair by pair.

    Example:
        >>> speeds = rope_inv_freq(4, base=1e4)  # 6.3 and 628 tokens a turn
        >>> unseen_angles(speeds, speeds, length=400, trained_length=100).tolist()
        [0.0, 0.75]
    """
    length = check_size("length", length)
    trained_length = check_size("trained_length", trained_length)
    if inv_freq.shape != trained_inv_freq.shape:
        raise ValueError(
            f"inv_freq {list(inv_freq.shape)} and trained_inv_freq "
            f"{list(trained_inv_freq.shape)} must have the same pairs"
        )
    arc = (inv_freq * length / (2 * math.pi)).clamp(max=1)  # [d/2] turns
    known = (trained_inv_freq * trained_length / (2 * math.pi)).clamp(max=1)
    new = (arc - known).clamp(min=0)
    return torch.where(new > 0, new / arc, new)


def blend(inv_freq: Tensor, factor: float, kept: Tensor) -> Tensor:
    """Keep each frequency by its share `kept`, and divide the rest by the factor."""
    return inv_freq * kept + inv_freq / factor * (1 - kept)


def slow_down(inv_freq: Tensor, alpha: float | Tensor) -> Tensor:
    """Write NTK scaling as a product, so that alpha = 1 changes no bit."""
    pairs = inv_freq.shape[-1]
    if pairs == 1:
        raise ValueError("NTK scaling needs a rotary_dim above 2, got 2")
    i = torch.arange(pairs, dtype=torch.float64, device=inv_freq.device)
    return inv_freq * alpha ** -(i / (pairs - 1))
