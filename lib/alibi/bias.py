"""ALiBi as it is defined: a slope for each head, and the whole bias."""

import math

import torch
from torch import Tensor

from lib.checks import check_floating, check_positions, check_size


def alibi_slopes(num_heads: int) -> Tensor:
    """Give each head its own price of distance.

    With a power of two heads, head i pays 2^(-8·i/H) a token, i from 1. Otherwise the
    largest power of two below comes first, and the heads that are left take every
    second slope of twice that power.

    Args:
        num_heads: any number of heads from 1.

    Returns:
        fp32 `[H]`, in score units a token.

    Raises:
        ValueError: num_heads is below 1.
        TypeError: num_heads is not an int.

    Source: Press et al. 2022, section 3, and the authors' `get_slopes`.

    Example:
        >>> alibi_slopes(4).tolist()
        [0.25, 0.0625, 0.015625, 0.00390625]
        >>> alibi_slopes(3).tolist()
        [0.0625, 0.00390625, 0.25]
    """
    num_heads = check_size("num_heads", num_heads)
    whole = 2 ** (num_heads.bit_length() - 1)  # the largest power of two
    powers = [8 * i / whole for i in range(1, whole + 1)]
    powers += [4 * i / whole for i in range(1, 2 * (num_heads - whole), 2)]
    return torch.tensor([2**-power for power in powers], dtype=torch.float32)


def alibi_bias(
    slopes: Tensor, q_positions: Tensor, k_positions: Tensor, causal: bool = True
) -> Tensor:
    """Build the whole bias, -slope · distance: for short inputs, and to look at.

    Add it to q·kᵀ/√D, unscaled. In half precision it would merge distances, so it is
    fp32 whatever the model is.

    Args:
        slopes: `[H]`.
        q_positions: integers `[Tq]` or `[B, Tq]`, where the queries stand.
        k_positions: integers `[Tk]` or `[B, Tk]`, where the keys stand.
        causal: −inf at keys after the query; otherwise distance counts both ways.

    Returns:
        fp32 `[1 or B, H, Tq, Tk]`, on the device of the positions.

    Raises:
        TypeError: positions that are not integers.
        ValueError: shapes that do not fit.

    Source: Press et al. 2022, section 3.

    Example:
        >>> alibi_bias(torch.tensor([0.5]), torch.tensor([3]), torch.arange(4)).tolist()
        [[[[-1.5, -1.0, -0.5, 0.0]]]]
    """
    check_slopes(slopes)
    q_places = check_positions("q_positions", q_positions)  # [1 or B, Tq]
    k_places = check_positions("k_positions", k_positions)  # [1 or B, Tk]
    if len(q_places) != len(k_places) and 1 not in (len(q_places), len(k_places)):
        raise ValueError(
            f"q_positions have {len(q_places)} rows, k_positions {len(k_places)}"
        )
    ahead = (k_places[:, None, :] - q_places[:, :, None])[:, None]  # [B, 1, Tq, Tk]
    steepness = slopes.to(ahead.device, torch.float32)[:, None, None]  # [H, 1, 1]
    if not causal:
        return steepness * -ahead.abs().float()
    bias = steepness * ahead.float()  # [B, H, Tq, Tk]
    return bias.masked_fill(ahead > 0, -math.inf)


def check_slopes(slopes: Tensor) -> None:
    """Check that slopes are floating, `[H]`."""
    check_floating("slopes", slopes)
    if slopes.dim() != 1:
        raise ValueError(f"slopes must be [H], got {list(slopes.shape)}")
