"""ALiBi in one fused call, without the whole bias."""

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.alibi.bias import check_slopes
from lib.alibi.coordinates import COORDINATES, with_coordinates
from lib.attention import causal_attention
from lib.checks import check_heads, check_mask, check_positions, is_watched

FEW = 64  # of queries or keys: up to here the bias is small, and holds any distance
LONG, GROUPS = 1024, 2  # keys from which heads go in groups, and how many at most
BLOCK = 256  # queries at a time where positions, not indices, say who sees whom


def alibi_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slopes: Tensor,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
    mask: Tensor | None = None,
    in_order: bool = False,
) -> Tensor:
    """Attend causally with ALiBi in one fused call, without a Tq × Tk bias.

    A softmax does not notice a constant in its row, so -slope · (i - j) may be written
    slope · j, and that is a product of something of the query and something of the key:
    more coordinates of the same dot product (`with_coordinates`). They hold any two
    tokens up to 2²⁴ positions apart. Up to 64 queries or keys the bias is small, and is
    added as it is.

    Args:
        q: queries `[B, H, Tq, D]`.
        k: keys `[B, Hk, Tk, D]`; each is shared by H / Hk query heads in a row.
        v: values `[B, Hk, Tk, Dv]`.
        slopes: `[H]`.
        q_positions: integers `[Tq]` or `[B, Tq]`; those of the last Tq keys if None.
        k_positions: integers `[Tk]` or `[B, Tk]`; 0 … Tk - 1 if None. Left padding
            needs no positions, since it does not change a distance.
        mask: bool or integers `[B, Tk]`, 1 for real keys, whose values must be finite
            even where they are not real. A query that sees no real key gets zeros.
        in_order: who sees whom goes by indices, those of the last Tq keys, and given
            positions set the distances alone. So it is without positions. Say it where
            positions ascend, or do so over the real keys: a look would cost a wait.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of q. In order, with as many queries as keys,
        memory grows with T, not T². Otherwise a mask of Tq × Tk, one for all heads, is
        made a block of queries at a time; training keeps it, compiled code makes it
        whole.

    Raises:
        ValueError: shapes that do not fit, a mask of other numbers than 0 and 1.
        TypeError: positions that are not integers, a mask of floats (an additive one).

    Source: Press et al. 2022, section 3; the constant in the row as in transformers
        5.24.0, `build_alibi_tensor` of BLOOM. The digits are this book's.

    Example:
        >>> q = k = torch.zeros(1, 1, 2, 4)
        >>> v = torch.tensor([[[[0.0], [1.0]]]])
        >>> out = alibi_attention(q, k, v, torch.tensor([math.log(3)]))
        >>> [round(share, 6) for share in out.flatten().tolist()]
        [0.0, 0.75]
    """
    mask = _check(q, k, v, slopes, mask)
    places = _places(q, k, q_positions, k_positions)
    in_order = in_order or (q_positions is None and k_positions is None)
    order = _places(q, k, None, None) if in_order else places
    if q.shape[2] == 0 or k.shape[2] == 0:
        return q.new_zeros(*q.shape[:3], v.shape[3])
    if min(q.shape[2], k.shape[2]) <= FEW and not is_watched(q, k, v, slopes):
        return causal_attention(q, k, v, mask, _bias(q, slopes, *places), *order)
    seen = _seen(*order, mask)  # [1 or B, Tq]
    causal = in_order and q.shape[2] == k.shape[2]
    given = places, mask, None if causal else order, seen
    groups = _groups_of_heads(q, k, v, slopes)
    parts = [_attend_priced(*heads, *given) for heads in groups]
    values = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
    if in_order and mask is None:
        return values  # each query sees itself
    return values.masked_fill(~seen[:, None, :, None], 0)


def _check(
    q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, mask: Tensor | None
) -> Tensor | None:
    """Check all but the positions; returns the mask as bool."""
    check_heads(q, k, v)
    check_slopes(slopes)
    if len(slopes) != q.shape[1]:
        raise ValueError(f"{len(slopes)} slopes for {q.shape[1]} query heads")
    return None if mask is None else check_mask(mask, (k.shape[0], k.shape[2]))


def _places(
    q: Tensor, k: Tensor, q_positions: Tensor | None, k_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Fill in the positions that are not given: int64 `[1 or B, T]` of q and of k."""
    queries, keys = q.shape[2], k.shape[2]
    if queries > keys and q_positions is None:
        raise ValueError(f"{queries} queries without positions for {keys} keys")
    if k_positions is None:
        k_positions = torch.arange(keys, device=k.device)
    k_places = check_positions("k_positions", k_positions, q.shape[0], keys)
    if q_positions is None:
        return k_places[:, keys - queries :], k_places  # the last ones
    q_places = check_positions("q_positions", q_positions, q.shape[0], queries)
    return q_places, k_places


def _bias(q: Tensor, slopes: Tensor, q_places: Tensor, k_places: Tensor) -> Tensor:
    """Write slope · (j - i) out: `[1 or B, H, Tq, Tk]`, fp32 at least."""
    ahead = k_places[:, None, None, :] - q_places[:, None, :, None]
    exact = torch.promote_types(q.dtype, torch.float32)
    return slopes.to(q.device, exact)[:, None, None] * ahead


def _seen(q_places: Tensor, k_places: Tensor, real: Tensor | None) -> Tensor:
    """Say of each query whether it sees any key: bool `[1 or B, Tq]`."""
    if real is not None:
        never = torch.iinfo(k_places.dtype).max
        k_places = k_places.masked_fill(~real, never)  # [B, Tk]
    return q_places >= k_places.amin(dim=-1, keepdim=True)


def _groups_of_heads(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor):
    """Part the heads of a long text, so that fewer wide copies are held at once."""
    long = not is_watched(q) and k.shape[2] >= LONG  # a graph is to fit any length
    parts = math.gcd(k.shape[1], GROUPS) if long else 1
    tensors = (x.chunk(parts, dim=1) for x in (q, k, v, slopes[None]))
    for *heads, row in zip(*tensors, strict=True):
        yield *heads, row[0]


def _attend_priced(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slopes: Tensor,
    places: tuple[Tensor, Tensor],
    real: Tensor | None,
    order: tuple[Tensor, Tensor] | None,
    seen: Tensor,
) -> Tensor:
    """Attend with the coordinates that bring the price of distance, and drop them."""
    scale = q.shape[3] ** -0.5
    wide = with_coordinates(q, k, v, slopes, scale, *places, real)
    out = _attend(*wide, order, seen, scale)
    return out[..., COORDINATES : COORDINATES + v.shape[3]]


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: tuple[Tensor, Tensor] | None,
    seen: Tensor,
    scale: float,
) -> Tensor:
    """Attend to keys that stand up to the query in this order, of indices if None.

    A block of queries at a time, so that no mask is longer than that.
    """
    if order is None:
        return _fused(q, k, v, scale, is_causal=True)
    q_order, k_order = order

    def attend(q: Tensor, q_order: Tensor, seen: Tensor) -> Tensor:
        visible = k_order[:, None, :] <= q_order[:, :, None]  # [1 or B, R, Tk]
        visible = visible | ~seen[:, :, None]  # a row without keys must not be empty
        return _fused(q, k, v, scale, attn_mask=visible[:, None])

    if is_watched(q):
        return attend(q, q_order, seen)
    blocks = q.split(BLOCK, 2), q_order.split(BLOCK, 1), seen.split(BLOCK, 1)
    return torch.cat([attend(*block) for block in zip(*blocks, strict=True)], dim=2)


def _fused(q: Tensor, k: Tensor, v: Tensor, scale: float, **options) -> Tensor:
    grouped = bool(q.shape[1] != k.shape[1])  # a tensor while torch.jit traces
    return scaled_dot_product_attention(
        q, k, v, scale=scale, enable_gqa=grouped, **options
    )
