"""ALiBi as more coordinates of the same dot product, exact in any dtype.

q·k becomes [terms of the query, q] · [terms of the key, k], and the terms add up to
slope · (j - i) · √D for a query at i and a key at j, up to a constant for each query,
which a softmax does not notice. The 1/√D of attention takes the √D away.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

COORDINATES = 8  # a multiple of 8, which the fused kernels like


def with_coordinates(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slopes: Tensor,
    scale: float,
    q_places: Tensor,
    k_places: Tensor,
    real: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Put eight terms before q and k that bring slope · (j - i) / scale into q·k.

    One term, slope · j, would do in exact arithmetic. But half precision cannot hold j,
    and even fp32 rounds the sum of a large term and a score. So positions, counted from
    the last key, are split into digits and the slope into a short part and a rest, to
    make each number exact in any dtype; and a constant of the query, third in the sum,
    takes the large terms away again before small ones and the scores are added.

    Args:
        q, k, v: `[B, H, Tq, D]`, `[B, Hk, Tk, D]` and `[B, Hk, Tk, Dv]`.
        slopes: `[H]`.
        scale: what attention multiplies q·k by.
        q_places, k_places: int64 `[1 or B, Tq]` and `[1 or B, Tk]`.
        real: bool `[B, Tk]`; a key that is not real falls below all real ones.

    Returns:
        q, k and v, each with eight more features in front (zeros for v) and as many
        zeros behind as make them one width, which the fused kernels want.

    Example:
        >>> q, k = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 4, 2)
        >>> last, all_four = torch.tensor([[3]]), torch.arange(4)[None]
        >>> of_q, of_k, _ = with_coordinates(
        ...     q, k, k, torch.tensor([0.5]), 1.0, last, all_four, real=None
        ... )
        >>> (of_q @ of_k.mT).tolist()
        [[[[-1.5, -1.0, -0.5, 0.0]]]]
    """
    exact = torch.promote_types(q.dtype, torch.float32)
    last = k_places[:, -1:]
    steep = slopes.to(q.device, exact)[:, None] / scale  # [H, 1]
    short = steep.bfloat16().to(exact)  # eight bits: its products with digits are exact
    rest = steep - short
    own = -steep * (q_places - last)[:, None, :].to(exact) / 256  # [1 or B, H, Tq]
    of_q = (256 * short, 256 * short, own, short, 256 * rest, 256 * rest, rest, 2**15)
    high, middle, low = (d[:, None].to(exact) for d in _digits(k_places - last))
    whole, hidden = torch.full_like(low, 256), _below_all(low, real)
    of_k = (high, middle, whole, low, high, middle, low, hidden)
    one, none = torch.ones_like(own), [torch.zeros_like(low)] * COORDINATES
    terms = [one * term for term in of_q], torch.broadcast_tensors(*of_k), none
    width = max(q.shape[3], v.shape[3])
    wide = (_before(x, t, width) for x, t in zip((q, k, v), terms, strict=True))
    return tuple(wide)


def _below_all(low: Tensor, real: Tensor | None) -> Tensor:
    """Make the term of keys that are not real: `[1 or B, 1, Tk]`, like low."""
    hidden = torch.zeros_like(low)
    return hidden if real is None else hidden.masked_fill(~real[:, None], -(2**15))


def _before(x: Tensor, terms: Sequence[Tensor], width: int) -> Tensor:
    if x.shape[3] < width:
        x = pad(x, (0, width - x.shape[3]))
    extra = torch.stack(terms, dim=-1).to(x.dtype)  # [1 or B, 1 or H, T, 8]
    return torch.cat([extra.expand(*x.shape[:3], -1), x], dim=-1)  # [B, H, T, 8 + D]


def _digits(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Write n as 256·(high + middle) + low, the two last from -128 to 127.

    `high` is a multiple of 256, so all three have at most eight significant bits as
    long as |n| is below 2^24.
    """
    low = (numbers + 128) % 256 - 128
    tens = (numbers - low) // 256
    middle = (tens + 128) % 256 - 128
    return tens - middle, middle, low
