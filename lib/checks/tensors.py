"""Checks of tensors: dtypes, shapes, ids, positions, masks and tables."""

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks.reading import check_ranges, ids_range, mask_range, may_read

INTEGER_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_integers(name: str, values) -> Tensor:
    """Check that a tensor holds integers, and not bools; returns it as it is.

    Args:
        name: how the message calls it.
        values: what should be a tensor of integers.

    Example:
        >>> check_integers("positions", torch.tensor([0.5]))
        Traceback (most recent call last):
        TypeError: positions must be an integer tensor, got torch.float32
    """
    kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
    if kind not in INTEGER_DTYPES:
        raise TypeError(f"{name} must be an integer tensor, got {kind}")
    return values


def check_floating(name: str, values) -> Tensor:
    """Check that a tensor is floating point; returns it as it is.

    Args:
        name: how the message calls it.
        values: what should be a floating-point tensor.

    Example:
        >>> check_floating("x", torch.tensor([1]))
        Traceback (most recent call last):
        TypeError: x must be floating point, got torch.int64
    """
    kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
    if not (isinstance(values, Tensor) and values.is_floating_point()):
        raise TypeError(f"{name} must be floating point, got {kind}")
    return values


def check_table(name: str, table) -> Tensor:
    """Check a floating table, `[V, d]` with one row a token or word; returns it.

    Args:
        name: how the message calls it.
        table: what should be floating point `[V, d]`.

    Example:
        >>> check_table("vectors", torch.zeros(3))
        Traceback (most recent call last):
        ValueError: vectors must be [V, d], got [3]
    """
    check_floating(name, table)
    if table.dim() != 2:
        raise ValueError(f"{name} must be [V, d], got {list(table.shape)}")
    return table


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Check that q `[B, H, Tq, D]`, k `[B, Hk, Tk, D]` and v `[B, Hk, Tk, Dv]` fit.

    Args:
        q: queries `[B, H, Tq, D]`.
        k: keys `[B, Hk, Tk, D]`.
        v: values `[B, Hk, Tk, Dv]`.

    Example:
        >>> check_heads(torch.zeros(1, 3, 4, 8), *torch.zeros(2, 1, 2, 4, 8))
        Traceback (most recent call last):
        ValueError: 3 query heads cannot share 2 key heads evenly
    """
    shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ValueError(f"q, k and v must be [B, H, T, D], got {shapes}")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0]:
        raise ValueError(f"q, k and v do not belong together: {shapes}")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q and k must have the same width D: {shapes}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads evenly"
        )


def check_finite(name: str, values: Tensor) -> Tensor:
    """Check that numbers `[n]` or rows `[..., d]` are finite, and name the first.

    One NaN makes every comparison false, and with that a score that looks perfect.

    Args:
        name: what the error calls them.
        values: numbers, one axis at least.

    Returns:
        The values as they are.

    Raises:
        ValueError: NaN or an infinity.

    Example:
        >>> check_finite("vectors", torch.tensor([[1.0, 2.0], [0.0, torch.inf]]))
        Traceback (most recent call last):
        ValueError: vectors must be finite, row 1 holds inf
    """
    if not values.numel() or not may_read(values):
        return values
    ends = torch.stack(values.aminmax(dim=-1)) if values.dim() > 1 else values[None]
    wrong = ~ends.isfinite()  # [2 or 1, ...], where a NaN is both ends of its row
    if not wrong.any():
        return values
    first = wrong.any(0).nonzero()[0]
    place = first.tolist() if len(first) > 1 else first.item()
    bad = ends[:, *first][wrong[:, *first]][0].item()
    raise ValueError(
        f"{name} must be finite, {'row' if values.dim() > 1 else 'place'} {place} "
        f"holds {bad}"
    )


def check_vectors(name: str, vectors: Tensor) -> Tensor:
    """Check a floating table whose rows are all finite, `[V, d]`; returns it.

    Args:
        name: how the message calls it.
        vectors: what should be finite and `[V, d]`.

    Example:
        >>> check_vectors("vectors", torch.full((1, 2), torch.nan))
        Traceback (most recent call last):
        ValueError: vectors must be finite, row 0 holds nan
    """
    return check_finite(name, check_table(name, vectors))


def check_ids(ids: Tensor, size: int, what: str = "id") -> Tensor:
    """Check that ids are integers from 0 to size − 1.

    Args:
        ids: integer tensor of any shape.
        size: how many ids there are.
        what: what the error calls an id.

    Returns:
        The ids as int64, of the same shape.

    Raises:
        TypeError: ids are not a tensor of integers.
        IndexError: an id is negative, or `size` or more.

    Example:
        >>> check_ids(torch.tensor([0, 4]), 5)
        tensor([0, 4])
        >>> check_ids(torch.tensor([0, 5]), 5)
        Traceback (most recent call last):
        IndexError: id 5 is outside the table: 5 rows, ids 0 to 4
    """
    check_integers(f"{what}s", ids)
    check_ranges(ids_range(ids, size, what))
    return ids.long()


def check_positions(
    name: str, positions, batch: int | None = None, tokens: int | None = None
) -> Tensor:
    """Check the dtype and the shape of positions, `[T]` or `[B, T]`.

    Args:
        name: what the error calls them.
        positions: integers of any sign.
        batch, tokens: B and T where they are known.

    Returns:
        int64 `[1, T]` or `[B, T]`.

    Raises:
        TypeError: not an integer tensor.
        ValueError: another shape.

    Example:
        >>> check_positions("positions", torch.arange(3), tokens=3)
        tensor([[0, 1, 2]])
    """
    check_integers(name, positions)
    rows = positions[None] if positions.dim() == 1 else positions
    fits = rows.dim() == 2 and (tokens is None or rows.shape[1] == tokens)
    if fits and batch is not None:
        fits = rows.shape[0] == 1 or rows.shape[0] == batch
    if not fits:
        b, t = ("B" if batch is None else batch), ("T" if tokens is None else tokens)
        raise ValueError(
            f"{name} must be [{t}] or [{b}, {t}], got {list(positions.shape)}"
        )
    return rows.long()


def check_mask(mask, *shapes: tuple[int, ...]) -> Tensor:
    """Check a mask of 0 and 1; one of bools needs no read.

    Args:
        mask: bool or integers, 1 for what is real or may be seen.
        shapes: the shapes that are allowed; any if there are none.

    Returns:
        The mask as bool.

    Raises:
        TypeError: floats (an additive mask), or not a tensor.
        ValueError: another shape, or other numbers than 0 and 1.

    Example:
        >>> check_mask(torch.tensor([[0, 1]]), (1, 2))
        tensor([[False,  True]])
    """
    check_mask_kind(mask, *shapes)
    check_ranges(mask_range(mask))
    return mask.bool()


def check_mask_kind(mask, *shapes: tuple[int, ...]) -> None:
    """Check the dtype and the shape of a mask, as `check_mask`, but not its values.

    Args:
        mask: what should be bools or integers.
        shapes: those that it may have; any, if none is named.
    """
    kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    if kind not in (torch.bool, *INTEGER_DTYPES):
        raise TypeError(f"mask must be bool or integers, 1 = real, got {kind}")
    if shapes and not any(_same(mask.shape, shape) for shape in shapes):
        allowed = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"mask must be {allowed}, got {list(mask.shape)}")


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    """Compare two shapes size by size: `in` would not compare a compiler's symbols."""
    return len(one) == len(other) and all(map(operator.eq, one, other))
