"""ALiBi in one fused call, without the whole bias."""

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.alibi.bias import check_positions, check_slopes
from lib.alibi.coordinates import COORDINATES, with_coordinates

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
) -> Tensor:
    """Attend causally with ALiBi in one fused call, without a Tq × Tk bias.

    A softmax does not notice a constant in its row, so -slope · (i - j) may be written
    slope · j, and that is a product of something of the query and something of the key:
    more coordinates of the same dot product (`with_coordinates`).

    Args:
        q: queries `[B, H, Tq, D]`.
        k: keys `[B, Hk, Tk, D]`; each is shared by H / Hk query heads in a row.
        v: values `[B, Hk, Tk, Dv]`.
        slopes: `[H]`.
        q_positions: integers `[Tq]` or `[B, Tq]`; those of the last Tq keys if None.
        k_positions: integers `[Tk]` or `[B, Tk]`; 0 … Tk - 1 if None. Left padding
            needs no positions, since it does not change a distance.
        mask: bool or integers `[B, Tk]`, 1 for real keys. A query that sees no real key
            gets zeros.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of q. Memory grows with T, not T². One exception:
        where indices do not tell the order (positions that do not ascend, or fewer
        queries than keys), training keeps a mask of Tq × Tk, one for all heads.

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
    _check_heads(q, k, v, slopes)
    queries, keys = q.shape[2], k.shape[2]
    in_order = q_positions is None and k_positions is None and queries == keys
    q_places, k_places = _places(q, k, q_positions, k_positions)
    real = _real_keys(mask, k)
    if queries == 0:
        return v.new_empty(*q.shape[:3], v.shape[3])
    scale = q.shape[3] ** -0.5
    seen = _seen(q_places, k_places, real)  # [1 or B, Tq]
    ascending = in_order or _ascend_together(q_places, k_places)
    parts = []
    for some in _groups_of_heads(q, k, v, slopes):
        wide = with_coordinates(*some, scale, q_places, k_places, real)
        if ascending:
            out = _attend(*wide, scale, is_causal=True)
        else:
            out = _attend_by_position(*wide, scale, q_places, k_places, seen)
        parts.append(out[..., COORDINATES : COORDINATES + v.shape[3]])
    values = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
    if ascending and mask is None:
        return values  # each query sees itself
    return values.masked_fill(~seen[:, None, :, None], 0)


def _places(
    q: Tensor, k: Tensor, q_positions: Tensor | None, k_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Fill in the positions that are not given: int64 `[1 or B, T]` of q and of k."""
    queries, keys = q.shape[2], k.shape[2]
    if queries > keys and (q_positions is None or keys == 0):
        raise ValueError(f"{queries} queries without positions for {keys} keys")
    if k_positions is None:
        k_positions = torch.arange(keys, device=k.device)
    k_places = check_positions("k_positions", k_positions, (q.shape[0], keys))
    if q_positions is None:
        return k_places[:, keys - queries :], k_places  # the last ones
    q_places = check_positions("q_positions", q_positions, (q.shape[0], queries))
    return q_places, k_places


def _seen(q_places: Tensor, k_places: Tensor, real: Tensor | None) -> Tensor:
    """Say of each query whether it sees any key: bool `[1 or B, Tq]`."""
    if real is not None:
        never = torch.iinfo(k_places.dtype).max
        k_places = k_places.masked_fill(~real, never)  # [B, Tk]
    return q_places >= k_places.amin(dim=-1, keepdim=True)


def _ascend_together(q_places: Tensor, k_places: Tensor) -> bool:
    """Say whether the order of indices is the order of positions."""
    if q_places.shape != k_places.shape or torch.compiler.is_compiling():
        return False  # a compiled graph may not ask for values
    same = torch.equal(q_places, k_places)
    return same and bool((k_places.diff(dim=-1) > 0).all())


def _groups_of_heads(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor):
    """Part the heads of a long text, so that fewer wide copies are held at once."""
    parts = math.gcd(k.shape[1], GROUPS) if k.shape[2] >= LONG else 1
    tensors = (x.chunk(parts, dim=1) for x in (q, k, v, slopes[None]))
    for *heads, row in zip(*tensors, strict=True):
        yield *heads, row[0]


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, **options) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    return scaled_dot_product_attention(
        q, k, v, scale=scale, enable_gqa=grouped, **options
    )


def _attend_by_position(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    q_places: Tensor,
    k_places: Tensor,
    seen: Tensor,
) -> Tensor:
    """Attend a block of queries at a time, so that no mask is longer than that."""
    parts = []
    for start in range(0, q.shape[2], BLOCK):
        rows = slice(start, start + BLOCK)
        visible = k_places[:, None, :] <= q_places[:, rows, None]  # [1 or B, R, Tk]
        visible = visible | ~seen[:, rows, None]  # a row without keys must not be empty
        part = _attend(q[:, :, rows], k, v, scale, attn_mask=visible[:, None])
        parts.append(part)
    return torch.cat(parts, dim=2)


def _check_heads(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> None:
    shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ValueError(f"q, k and v must be [B, H, T, D], got {shapes}")
    if k.shape[:3] != v.shape[:3] or q.shape[::3] != k.shape[::3]:
        raise ValueError(f"q, k and v do not belong together: {shapes}")
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads evenly"
        )
    check_slopes(slopes)
    if len(slopes) != q.shape[1]:
        raise ValueError(f"{len(slopes)} slopes for {q.shape[1]} query heads")


def _real_keys(mask: Tensor | None, k: Tensor) -> Tensor | None:
    """Check a mask `[B, Tk]` of 0 and 1; returns it as bool."""
    if mask is None:
        return None
    batch, keys = k.shape[0], k.shape[2]
    if mask.shape != (batch, keys):
        raise ValueError(f"mask must be [{batch}, {keys}], got {list(mask.shape)}")
    if mask.is_floating_point():
        raise TypeError(f"mask must be bool or integers, 1 = real, got {mask.dtype}")
    real = mask.bool()
    readable = not (mask.is_meta or torch.compiler.is_compiling())
    if readable and not torch.equal(mask, real.to(mask.dtype)):
        wrong = mask[mask != real.to(mask.dtype)][0].item()
        raise ValueError(f"mask must hold 0 and 1, got {wrong}")
    return real
