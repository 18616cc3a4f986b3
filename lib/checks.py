"""The one place where arguments are checked: sizes, numbers, ids, positions, masks.

A wrong id raises far from its cause on a GPU, so values are read before a device uses
them. A read costs a wait for the device; `check_ranges` makes one of many. Where values
cannot be read (`may_read`), shapes and dtypes are checked and values are not. Sizes are
Python's or NumPy's integers, never tensors, which would cost a read each.
"""

import contextlib
import math
import numbers
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import debug_unwrap

INTEGER_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LARGEST = torch.iinfo(torch.int64).max
LAYOUTS = ("interleaved", "half")  # pairs of features 2i, 2i + 1, or i, i + d/2
_thread = threading.local()


def check_size(name: str, value, at_least: int = 1, at_most: int | None = None) -> int:
    """Check a whole number: anything with `__index__`, such as NumPy's; not a bool.

    Args:
        name: what the error calls it.
        value: the number.
        at_least: the smallest that is allowed.
        at_most: the largest that is allowed, if there is one.

    Returns:
        The number as an int.

    Raises:
        TypeError: not an integer; a bool.
        ValueError: too small, or too large.

    Example:
        >>> check_size("dim", 0)
        Traceback (most recent call last):
        ValueError: dim must be at least 1, got 0
    """
    size = check_integer(name, value)
    if size < at_least or (at_most is not None and size > at_most):
        allowed = f"from {at_least} to {at_most}"
        if at_most is None:
            allowed = f"at least {at_least}"
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return size


def check_integer(name: str, value) -> int:
    """Check a whole number of any sign; returns it as an int.

    Example:
        >>> check_integer("start", True)
        Traceback (most recent call last):
        TypeError: start must be an int, got bool True
    """
    if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
        return value  # operator.index would make a constant of a compiler's symbol
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool
    with contextlib.suppress(TypeError):
        if not is_bool:
            return operator.index(value)
    raise TypeError(f"{name} must be an int, got {type(value).__name__} {value!r}")


def check_index(name: str, value, size: int) -> int:
    """Check the number of one row of a table, from 0 to size − 1; returns it as an int.

    Example:
        >>> check_index("row", 5, 5)
        Traceback (most recent call last):
        IndexError: row 5 is outside the table: 5 rows, rows 0 to 4
    """
    index = check_integer(name, value)
    if not 0 <= index < size:
        raise ids_range(None, size, name).error(index)
    return index


def even_width(name: str, width) -> int:
    """Check a width that is to be split into pairs.

    Example:
        >>> even_width("rotary_dim", 7)
        Traceback (most recent call last):
        ValueError: rotary_dim must be even and at least 2, got 7
    """
    size = check_integer(name, width)
    if size < 2 or size % 2:
        raise ValueError(f"{name} must be even and at least 2, got {width}")
    return size


def number(
    name: str, value, at_least: float = -math.inf, above: float = -math.inf
) -> float:
    """Check a finite number against its lower bound and return it as a float.

    Example:
        >>> number("factor", 0.5, at_least=1)
        Traceback (most recent call last):
        ValueError: factor must be finite and at least 1, got 0.5
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} {value}")
    if not (at_least <= value and above < value and math.isfinite(value)):
        bounds = {"at least": at_least, "above": above}
        bound = [f" and {word} {n}" for word, n in bounds.items() if n > -math.inf]
        raise ValueError(f"{name} must be finite{''.join(bound)}, got {value}")
    return float(value)


def share(name: str, value) -> float:
    """Check a share, from 0 to 1.

    Example:
        >>> share("partial_rotary_factor", 1)
        1.0
    """
    if number(name, value, at_least=0) > 1:
        raise ValueError(f"{name} must be at most 1, got {value}")
    return float(value)


def check_integers(name: str, values) -> Tensor:
    """Check that a tensor holds integers, and not bools; returns it as it is.

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

    Example:
        >>> check_table("vectors", torch.zeros(3))
        Traceback (most recent call last):
        ValueError: vectors must be [V, d], got [3]
    """
    check_floating(name, table)
    if table.dim() != 2:
        raise ValueError(f"{name} must be [V, d], got {list(table.shape)}")
    return table


def check_layout(layout) -> None:
    """Check the name of a layout of pairs.

    Example:
        >>> check_layout("halves")
        Traceback (most recent call last):
        ValueError: layout 'halves' must be one of interleaved, half
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} must be one of {', '.join(LAYOUTS)}")


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Check that q `[B, H, Tq, D]`, k `[B, Hk, Tk, D]` and v `[B, Hk, Tk, Dv]` fit.

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
    if q.shape[1] % k.shape[1]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads evenly"
        )


def is_watched(*tensors: Tensor) -> bool:
    """Tell whether torch records or transforms what is computed from tensors.

    It does while a graph is compiled, exported or traced, and where a transform of
    `torch.func` has wrapped one of them. Then a plain formula is wanted, without reads,
    and without loops over a length, which may be a symbol.

    Example:
        >>> torch.func.vmap(lambda x: x * is_watched(x))(torch.ones(2)).tolist()
        [1.0, 1.0]
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    return any(debug_unwrap(x) is not x for x in tensors)


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

    Example:
        >>> check_vectors("vectors", torch.full((1, 2), torch.nan))
        Traceback (most recent call last):
        ValueError: vectors must be finite, row 0 holds nan
    """
    return check_finite(name, check_table(name, vectors))


def may_read(values: Tensor) -> bool:
    """Tell whether the values of a tensor may be read on the host.

    Not where a graph or a transform is at work (`is_watched`), nor while a CUDA stream
    is captured, nor of a tensor without memory (meta, fake) or of another class, nor
    under `unchecked`.

    Example:
        >>> may_read(torch.arange(3)), may_read(torch.arange(3, device="meta"))
        (True, False)
    """
    if is_watched(values) or getattr(_thread, "unchecked", False):
        return False
    if type(values) not in (Tensor, nn.Parameter) or values.is_meta:
        return False
    return not (values.is_cuda and torch.cuda.is_current_stream_capturing())


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Leave values unread in this thread, where the caller has checked them already.

    Example:
        >>> with unchecked():
        ...     _ = check_ids(torch.tensor([5]), 5)
    """
    before = getattr(_thread, "unchecked", False)
    _thread.unchecked = True
    try:
        yield
    finally:
        _thread.unchecked = before


class Range(NamedTuple):
    """Integers, the bounds that they must keep, and what to say if they do not.

    Args:
        values: integers of any shape.
        low, high: the smallest and the largest that are allowed.
        error: makes the exception from the number that is outside.
    """

    values: Tensor
    low: int
    high: int
    error: Callable[[int], Exception]


def check_ranges(*ranges: Range) -> None:
    """Check any number of ranges with one read; raises the first that is broken.

    Bools keep any bounds, so they are not read.

    Example:
        >>> check_ranges(Range(torch.tensor([0, 7]), 0, 4, lambda n: IndexError(n)))
        Traceback (most recent call last):
        IndexError: 7
    """
    some = [
        r
        for r in ranges
        if r.values.numel() and r.values.dtype != torch.bool and may_read(r.values)
    ]
    if not some:
        return
    home = some[0].values.device
    bounds = [bound.to(home, torch.int64) for r in some for bound in r.values.aminmax()]
    both = torch.stack(bounds)
    if type(both) is not Tensor:
        return  # a mode makes everything fake, also of real values
    found = iter(_read(both))
    for (_, low, high, error), least, most in zip(some, found, found, strict=True):
        if least < low or most > high:
            raise error(least if least < low else most)


def _read(numbers: Tensor) -> list[int]:
    """Wait for the device: the one place where checks do."""
    return numbers.tolist()


def least_range(name: str, values: Tensor, least: int = 0) -> Range:
    """Make the range of integers that have no upper bound, such as lengths."""
    return Range(
        values,
        least,
        LARGEST,
        lambda wrong: ValueError(f"{name} must be at least {least}, got {wrong}"),
    )


def ids_range(ids: Tensor, size: int, what: str = "id") -> Range:
    """Make the range of ids that number the rows of a table, 0 to size − 1."""
    return Range(
        ids,
        0,
        size - 1,
        lambda wrong: IndexError(
            f"{what} {wrong} is outside the table: {size} rows, {what}s 0 to {size - 1}"
        ),
    )


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


def mask_range(mask: Tensor) -> Range:
    """Make the range of a mask of integers, 0 and 1."""
    return Range(
        mask, 0, 1, lambda wrong: ValueError(f"mask must hold 0 and 1, got {wrong}")
    )


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
    """Check the dtype and the shape of a mask, as `check_mask`, but not its values."""
    kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    if kind not in (torch.bool, *INTEGER_DTYPES):
        raise TypeError(f"mask must be bool or integers, 1 = real, got {kind}")
    if shapes and not any(_same(mask.shape, shape) for shape in shapes):
        allowed = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"mask must be {allowed}, got {list(mask.shape)}")


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    """Compare two shapes size by size: `in` would not compare a compiler's symbols."""
    return len(one) == len(other) and all(map(operator.eq, one, other))
