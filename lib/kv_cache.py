"""Keys and values of the tokens seen so far, and the positions of the next ones.

A model that writes token by token keeps what attention needs of the earlier ones. Where
a token stands is counted in tokens ever seen, padding left out, so it does not change
when old tokens are dropped.
"""

import torch
from torch import Tensor

from lib.checks import (
    LARGEST,
    Range,
    check_integer,
    check_integers,
    check_mask_kind,
    check_ranges,
    check_size,
    least_range,
    mask_range,
)


class KVCache:
    """Keep the keys and values of every layer over the steps of decoding.

    A step is one `update` of each layer, in any order, by the same number of tokens.
    Keys are kept as they are given. An encoding whose angles change with the length
    (dynamic NTK, LongRoPE) needs them un-rotated, and rotates what `update` returns.

    Args:
        num_layers: layers of the model.

    Raises:
        ValueError: num_layers is below 1.
        TypeError: num_layers is not an int.

    Example:
        >>> cache = KVCache(num_layers=1)
        >>> k = v = torch.randn(1, 2, 5, 8)  # [B, H, T, D]
        >>> keys, values = cache.update(0, k, v)
        >>> cache.evict(4)
        >>> keys, values = cache.update(0, k[:, :, :1], v[:, :, :1])
        >>> keys.shape, cache.seq_len
        (torch.Size([1, 2, 2, 8]), 6)
    """

    def __init__(self, num_layers: int) -> None:
        num_layers = check_size("num_layers", num_layers)
        self._held: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self._seen = [0] * num_layers  # tokens that each layer was ever given

    @property
    def seq_len(self) -> int:
        """Tokens ever seen; it stays while a step is under way in some layer."""
        return min(self._seen)

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the new tokens of one layer.

        Args:
            layer: 0 … num_layers - 1.
            k: new keys `[B, H, n, D]`.
            v: new values `[B, H, n, D of the values]`.

        Returns:
            All keys and values that the layer holds, `[B, H, T, D]`, oldest first.
            They are the cache's own: do not write into them.

        Raises:
            IndexError: there is no such layer.
            ValueError: shapes that do not match each other, what the layer holds or
                the other layers' step, or a layer that has had its tokens already.
            TypeError: another dtype than the layer holds, a layer that is not an int.
        """
        layer = check_integer("layer", layer)
        if not 0 <= layer < len(self._held):
            raise IndexError(f"layer {layer} of a cache of {len(self._held)} layers")
        if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
            raise ValueError(
                f"k and v must be [B, H, n, D] and agree in B, H and n, got "
                f"{list(k.shape)} and {list(v.shape)}"
            )
        tokens = k.shape[2]
        self._check_step(layer, tokens)
        if self._held[layer] is not None:
            held_k, held_v = self._held[layer]
            k, v = _append("k", held_k, k), _append("v", held_v, v)
        self._held[layer] = k, v
        self._seen[layer] += tokens
        return k, v

    def evict(self, n: int) -> None:
        """Drop the n oldest tokens of every layer; `seq_len` stays.

        Args:
            n: how many tokens.

        Raises:
            ValueError: n is negative, or a layer holds fewer tokens.
            TypeError: n is not an int.
        """
        n = check_integer("n", n)
        held = [0 if pair is None else pair[0].shape[2] for pair in self._held]
        if not 0 <= n <= min(held):
            raise ValueError(f"cannot evict {n} tokens, the cache holds {min(held)}")
        if n:
            self._held = [(k[:, :, n:], v[:, :, n:]) for k, v in self._held]

    def _check_step(self, layer: int, tokens: int) -> None:
        start = self.seq_len
        if self._seen[layer] > start:
            waiting = [i for i, seen in enumerate(self._seen) if seen == start]
            raise ValueError(
                f"layer {layer} has had the tokens of this step, layers {waiting} wait"
            )
        step = max(self._seen) - start  # 0 if this layer is the first
        if step not in (0, tokens):
            raise ValueError(
                f"layer {layer} gets {tokens} tokens, other layers got {step}"
            )


def _append(name: str, held: Tensor, new: Tensor) -> Tensor:
    if new.dtype != held.dtype:
        raise TypeError(f"{name} is {new.dtype}, the cache holds {held.dtype}")
    if (*new.shape[:2], new.shape[3]) != (*held.shape[:2], held.shape[3]):
        raise ValueError(
            f"{name} is {list(new.shape)}, the cache holds {list(held.shape)}: B, H "
            "and D must agree"
        )
    return torch.cat([held, new], dim=2)  # [B, H, T, D]


def decode_positions(
    cache_len: int | Tensor,
    n: int,
    mask: Tensor | None = None,
    delta: Tensor | None = None,
) -> Tensor:
    """Number the next n tokens of each row, after those the cache has ever seen.

    Args:
        cache_len: tokens before them, evicted ones included, such as
            `KVCache.seq_len`; or int64 `[B]`, one number a row.
        n: new tokens.
        mask: `[B, cache_len + n]`, 1 for real tokens: padding is not counted. Where
            rows have their own lengths, it is as wide as the longest row + n. All
            tokens are real if None.
        delta: int64 `[B, 1]`, what `lib.mrope.mrope_position_ids` returns.

    Returns:
        int64 `[B, n]`, `[1, n]` if nothing says how many rows there are; with delta
        `[3, B, n]`. New tokens that are padding get 0.

    Raises:
        ValueError: a negative length, n below 1, shapes that do not match, a mask of
            other values than 0 and 1, or of more tokens than a row's length.
        TypeError: n, lengths, mask or delta that are not integers.

    Source: transformers 5.24.0, `Qwen2VLModel.compute_3d_position_ids`, which adds the
        delta to padding too.

    Example:
        >>> decode_positions(6, 3)
        tensor([[6, 7, 8]])
        >>> decode_positions(4, 1, mask=torch.tensor([[0, 0, 1, 1, 1]]))
        tensor([[2]])
    """
    n = check_size("n", n)
    cache_len, batch = _check_lengths(cache_len)
    if mask is not None:
        mask = _check_mask(mask, cache_len, n, batch)
        batch = len(mask)
        positions = mask.cumsum(1)[:, -n:] - 1  # [B, n]
    elif batch is None:
        positions = torch.arange(cache_len, cache_len + n)[None]  # [1, n]
    else:
        check_ranges(least_range("cache_len", cache_len))
        new = torch.arange(n, device=cache_len.device)
        positions = cache_len.long()[:, None] + new  # [B, n]
    if delta is not None:
        _check_delta(delta, batch)
        home = delta if mask is None else mask
        shifted = positions.to(home.device) + delta.to(home.device)  # [B, n]
        positions = shifted.repeat(3, 1, 1)  # [3, B, n]
    return positions if mask is None else positions.masked_fill(~mask[:, -n:], 0)


def _check_lengths(cache_len: int | Tensor) -> tuple[int | Tensor, int | None]:
    """Check an int, or the dtype and shape of lengths `[B]`; adds B, or None."""
    if not isinstance(cache_len, Tensor):
        return check_size("cache_len", cache_len, at_least=0), None
    check_integers("cache_len", cache_len)
    if cache_len.ndim != 1:
        raise ValueError(f"cache_len must be [B], got {list(cache_len.shape)}")
    return cache_len, len(cache_len)


def _check_mask(
    mask: Tensor, cache_len: int | Tensor, n: int, batch: int | None
) -> Tensor:
    """Check a mask `[B, longest row + n]` with one read at most; makes it bool."""
    check_mask_kind(mask)

    def misfit(longest: int) -> ValueError:
        rows = "B" if batch is None else batch
        return ValueError(
            f"mask must be [{rows}, {longest + n}] for {longest} tokens and {n} new "
            f"ones, got {list(mask.shape)}"
        )

    past = mask.shape[1] - n if mask.ndim == 2 else -1
    if batch is None and past != cache_len:
        raise misfit(cache_len)
    if batch is not None and (past < 0 or len(mask) != batch):
        raise misfit(int(cache_len.max()))
    ranges = [mask_range(mask)]
    if batch:  # the lengths are a tensor, and there are rows
        counted = mask[:, :past].bool().sum(1).to(cache_len.device)  # [B]
        ranges.insert(0, least_range("cache_len", cache_len))
        ranges.insert(1, Range(cache_len.amax(), past, past, misfit))
        ranges.append(_countable(cache_len, counted))
    check_ranges(*ranges)
    return mask.bool()


def _countable(lengths: Tensor, counted: Tensor) -> Range:
    """Make the range of lengths that hold the real tokens which a mask counts."""

    def error(_: int) -> ValueError:
        return ValueError(
            f"the rows have {lengths.tolist()} tokens, of which the mask counts "
            f"{counted.tolist()}"
        )

    return Range(lengths.long() - counted, 0, LARGEST, error)


def _check_delta(delta: Tensor, batch: int | None) -> None:
    check_integers("delta", delta)
    rows = len(delta) if batch is None and delta.ndim else batch
    if list(delta.shape) != [rows, 1]:
        raise ValueError(
            f"delta must be [{'B' if batch is None else batch}, 1], got "
            f"{list(delta.shape)}"
        )
