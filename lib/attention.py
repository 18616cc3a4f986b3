"""Attention over several heads: who may see whom, and a weighted mean of what is seen.

Everything here stands on torch's `scaled_dot_product_attention`. What it adds is care
with masks: they are booleans until the last moment, they are combined before a bias is
added, and a query that may see nothing gets zeros instead of NaN.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from lib.checks import check_heads, check_mask, check_positions, check_size
from lib.device import without_autocast


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Average the values, each query with its own weights: softmax(q·kᵀ·scale + bias).

    Args:
        q: queries `[B, H, Tq, D]`.
        k: keys `[B, Hk, Tk, D]`; each is shared by H / Hk query heads in a row.
        v: values `[B, Hk, Tk, Dv]`.
        visible: bool `[1 or B, 1 or H, 1 or Tq, Tk]`, True where a query may see a
            key; all may see all if None. A query that sees no key gets zeros, and none
            of its gradient comes back.
        bias: `[1 or B, H, 1 or Tq, Tk]`, added to the scaled scores as it is; −inf
            hides a key. With a bias the scores are formed in fp32 at least, since half
            precision merges neighbouring distances.
        scale: factor on q·kᵀ; D^-½ if None.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of q.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: `visible` is not bool.

    Source: Vaswani et al. 2017, equation 1; Ainslie et al. 2023 for grouped heads.

    Example:
        >>> q = k = torch.zeros(1, 1, 2, 4)  # equal scores: a plain mean
        >>> v = torch.tensor([[[[0.0], [1.0]]]])
        >>> attention(q, k, v).flatten().tolist()
        [0.5, 0.5]
    """
    check_heads(q, k, v)
    shape = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    if visible is not None:
        _check_visible(visible, shape)
    if bias is not None:
        _check_grid("bias", bias, shape, heads=(q.shape[1],))
        finite = bias.detach() != -math.inf  # a NaN is to be seen
        visible = finite if visible is None else visible & finite
    if visible is None:
        return _attend(q, k, v, scale)
    empty = ~visible.any(dim=-1, keepdim=True)  # [.., Tq, 1]
    if bias is None:
        out = _attend(q, k, v, scale, attn_mask=visible | empty)
    else:
        hidden = bias.masked_fill(~visible, -math.inf).masked_fill(empty, 0)
        out = _attend_in_fp32(q, k, v, hidden, scale)
    return out.masked_fill(empty, 0)


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None, **options) -> Tensor:
    grouped = bool(q.shape[1] != k.shape[1])  # a tensor while torch.jit traces
    return scaled_dot_product_attention(
        q, k, v, scale=scale, enable_gqa=grouped, **options
    )


def _attend_in_fp32(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float | None
) -> Tensor:
    """Add the bias at its own precision, which autocast would take away."""
    wide = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q.device.type):
        out = _attend(
            q.to(wide), k.to(wide), v.to(wide), scale, attn_mask=bias.to(wide)
        )
    return out.to(q.dtype)


def visible_keys(
    q_positions: Tensor, k_positions: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Say which keys a query may see: real ones that do not stand after it.

    Args:
        q_positions: integers `[Tq]` or `[B, Tq]`.
        k_positions: integers `[Tk]` or `[B, Tk]`.
        mask: `[B, Tk]` with 1 for real keys, or `[B, Tq, Tk]` with 1 where the query
            may see the key, for documents packed in one row.

    Returns:
        bool `[1 or B, 1, Tq, Tk]`.

    Raises:
        ValueError: shapes that do not fit, a mask of other numbers than 0 and 1.
        TypeError: positions that are not integers, a mask of floats (an additive one).

    Example:
        >>> visible_keys(torch.tensor([1]), torch.arange(3)).tolist()
        [[[[True, True, False]]]]
    """
    batch = None if mask is None else len(mask)
    q_places = check_positions("q_positions", q_positions, batch)
    k_places = check_positions("k_positions", k_positions, batch)
    seen = k_places[:, None, None, :] <= q_places[:, None, :, None]  # [.., 1, Tq, Tk]
    mask = _check_mask(mask, batch, *seen.shape[2:])
    return seen if mask is None else seen & _grid(mask)


def causal_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend to keys at positions up to the query's own.

    Args:
        q, k, v, bias, scale: as for `attention`.
        mask: bool or integers, `[B, Tk]` with 1 for real keys, or `[B, Tq, Tk]`. The
            values of hidden keys are multiplied by 0, so they must be finite.
        q_positions: integers `[Tq]` or `[B, Tq]`; those of the last Tq keys if None, so
            that a cached step needs no positions.
        k_positions: integers `[Tk]` or `[B, Tk]`; 0 … Tk - 1 if None.

    Returns:
        `[B, H, Tq, Dv]` in the dtype of q.

    Raises:
        ValueError: shapes that do not fit, a mask of other numbers than 0 and 1, or
            more queries than keys without positions.
        TypeError: positions that are not integers, a mask of floats (an additive one).

    Source: Vaswani et al. 2017, section 3.2.3.

    Example:
        >>> q = k = torch.zeros(1, 1, 2, 4)
        >>> v = torch.tensor([[[[0.0], [1.0]]]])
        >>> causal_attention(q, k, v).flatten().tolist()
        [0.0, 0.5]
    """
    check_heads(q, k, v)
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    if q_positions is None and queries > keys:
        raise ValueError(f"{queries} queries need positions: there are {keys} keys")
    mask = _check_mask(mask, batch, queries, keys)
    if all(given is None for given in (q_positions, k_positions, mask, bias)):
        if queries == 1:
            return _attend(q, k, v, scale)  # the last token sees all
        if queries == keys:
            return _attend(q, k, v, scale, is_causal=True)
    places = torch.arange(keys, device=k.device) if k_positions is None else k_positions
    k_places = check_positions("k_positions", places, batch, keys)
    own = k_places[:, keys - queries :] if q_positions is None else q_positions
    q_places = check_positions("q_positions", own, batch, queries)
    return attention(q, k, v, visible_keys(q_places, k_places, mask), bias, scale)


class MultiHeadAttention(nn.Module):
    """Project `[B, T, d_model]` to heads, attend, and project back; no positions.

    Args:
        d_model: width of a token.
        num_heads: query heads; each has d_model / num_heads features.
        num_kv_heads: heads of keys and values, a divisor of num_heads; as many if None.
        causal: whether a token sees only itself and those before it.

    Raises:
        ValueError: a count below 1, or counts that do not divide each other.

    Source: Vaswani et al. 2017, section 3.2.2.

    Example:
        >>> layer = MultiHeadAttention(16, num_heads=4, num_kv_heads=2)
        >>> layer(torch.randn(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        causal: bool = True,
    ):
        super().__init__()
        d_model = check_size("d_model", d_model)
        num_heads = check_size("num_heads", num_heads)
        if num_kv_heads is None:
            num_kv_heads = num_heads
        num_kv_heads = check_size("num_kv_heads", num_kv_heads)
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not divisible by {num_heads} heads")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} heads cannot share {num_kv_heads} kv heads")
        self.head_dim, self.causal = d_model // num_heads, causal
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of x.

        Args:
            x: `[B, T, d_model]`.
            mask: as for `causal_attention`, `[B, T]` or `[B, T, T]`.

        Returns:
            `[B, T, d_model]`; zeros at a token that sees no real one.
        """
        heads = [self._split(layer(x)) for layer in (self.q, self.k, self.v)]
        if self.causal:
            mixed = causal_attention(*heads, mask)
        else:
            tokens = x.shape[1]
            mask = _check_mask(mask, len(x), tokens, tokens)
            mixed = attention(*heads, None if mask is None else _grid(mask))
        return self.out(mixed.transpose(1, 2).flatten(2))  # [B, T, d_model]

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [B, H, T, D]


def _check_visible(visible: Tensor, shape: tuple) -> None:
    if visible.dtype != torch.bool:
        raise TypeError(f"visible must be bool, got {visible.dtype}")
    _check_grid("visible", visible, shape, heads=(1, shape[1]))


def _check_grid(name: str, grid: Tensor, shape: tuple, heads: tuple) -> None:
    batch, _, queries, keys = shape
    allowed = (1, batch), heads, (1, queries), (keys,)
    fits = grid.dim() == 4 and all(
        any(size == other for other in sizes)  # not `in`: sizes may be symbols
        for size, sizes in zip(grid.shape, allowed, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} must be [1 or {batch}, {' or '.join(map(str, heads))}, 1 or "
            f"{queries}, {keys}], got {list(grid.shape)}"
        )


def _check_mask(
    mask: Tensor | None, batch: int, queries: int, keys: int
) -> Tensor | None:
    """Check a mask `[B, Tk]` or `[B, Tq, Tk]`; returns it as bool."""
    if mask is None:
        return None
    return check_mask(mask, (batch, keys), (batch, queries, keys))


def _grid(mask: Tensor) -> Tensor:
    """Turn a mask `[B, Tk]` or `[B, Tq, Tk]` into bool `[B, 1, 1 or Tq, Tk]`."""
    return (mask[:, None] if mask.dim() == 3 else mask[:, None, None]).bool()
