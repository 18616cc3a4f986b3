"""When the values of a tensor may be read, and one read for many bounds."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.func import debug_unwrap

LARGEST = torch.iinfo(torch.int64).max
_thread = threading.local()


def is_watched(*tensors: Tensor) -> bool:
    """Tell whether torch records or transforms what is computed from tensors.

    It does while a graph is compiled, exported or traced, and where a transform of
    `torch.func` has wrapped one of them or one carries a tangent of forward mode. Then
    a plain formula is wanted, without reads, without writing in place, and without
    loops over a length, which may be a symbol.

    Args:
        tensors: those that a computation starts from.

    Example:
        >>> torch.func.vmap(lambda x: x * is_watched(x))(torch.ones(2)).tolist()
        [1.0, 1.0]
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    return any(debug_unwrap(x) is not x or _has_tangent(x) for x in tensors)


def _has_tangent(x: Tensor) -> bool:
    return x.is_floating_point() and unpack_dual(x).tangent is not None


def may_read(values: Tensor) -> bool:
    """Tell whether the values of a tensor may be read on the host.

    Not where a graph or a transform is at work (`is_watched`), nor while a CUDA stream
    is captured, nor of a tensor without memory (meta, fake) or of another class, nor
    under `unchecked`.

    Args:
        values: any tensor.

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
        >>> from lib.checks import check_ids
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

    Args:
        ranges: values with their bounds, and the error of one outside.

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
    found = read_bounds(*[r.values for r in some])
    for (_, low, high, error), (least, most) in zip(some, found, strict=False):
        if least < low or most > high:
            raise error(least if least < low else most)


def read_bounds(*values: Tensor) -> list[tuple[int, int]]:
    """Read the smallest and the largest of each tensor of integers, with one wait.

    Args:
        values: tensors of integers, none empty.

    Example:
        >>> read_bounds(torch.tensor([3, 1]), torch.tensor([7]))
        [(1, 3), (7, 7)]
    """
    if not values:
        return []
    home = values[0].device
    bounds = [end.to(home, torch.int64) for some in values for end in some.aminmax()]
    both = torch.stack(bounds)
    if type(both) is not Tensor:
        return []  # a mode makes everything fake, also of real values
    found = _read(both)
    return list(zip(found[::2], found[1::2], strict=True))


def _read(numbers: Tensor) -> list[int]:
    """Wait for the device: the one place where checks do."""
    return numbers.tolist()


def least_range(name: str, values: Tensor, least: int = 0) -> Range:
    """Make the range of integers that have no upper bound, such as lengths.

    Args:
        name: how the message calls it.
        values: integers of any shape.
        least: the smallest that is allowed.
    """
    return Range(
        values,
        least,
        LARGEST,
        lambda wrong: ValueError(f"{name} must be at least {least}, got {wrong}"),
    )


def ids_range(ids: Tensor, size: int, what: str = "id") -> Range:
    """Make the range of ids that number the rows of a table, 0 to size − 1.

    Args:
        ids: integers of any shape.
        size: rows of the table.
        what: how the message calls a row.
    """
    return Range(
        ids,
        0,
        size - 1,
        lambda wrong: IndexError(
            f"{what} {wrong} is outside the table: {size} rows, {what}s 0 to {size - 1}"
        ),
    )


def mask_range(mask: Tensor) -> Range:
    """Make the range of a mask of integers, 0 and 1.

    Args:
        mask: integers of any shape.
    """
    return Range(
        mask, 0, 1, lambda wrong: ValueError(f"mask must hold 0 and 1, got {wrong}")
    )
