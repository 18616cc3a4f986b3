"""Checks of plain arguments: sizes, numbers, widths and names."""

import contextlib
import math
import numbers
import operator

import torch

from lib.checks.reading import ids_range

LAYOUTS = ("interleaved", "half")  # pairs of features 2i, 2i + 1, or i, i + d/2


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

    Args:
        name: how the message calls it.
        value: what should be a whole number.

    Example:
        >>> check_integer("start", True)
        Traceback (most recent call last):
        TypeError: start must be an int, got bool True
    """
    if type(value) is int or isinstance(value, torch.SymInt):
        return value  # operator.index would make a constant of a compiler's symbol
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool
    with contextlib.suppress(TypeError):
        if not is_bool:
            return int(operator.index(value))
    raise TypeError(f"{name} must be an int, got {type(value).__name__} {value!r}")


def check_index(name: str, value, size: int) -> int:
    """Check the number of one row of a table, from 0 to size − 1; returns it as an int.

    Args:
        name: how the message calls it.
        value: the number of a row.
        size: rows of the table.

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

    Args:
        name: how the message calls it.
        width: a number of features.

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

    Args:
        name: how the message calls it.
        value: what should be a finite number.
        at_least: the smallest that is allowed.
        above: what it must be larger than.

    Example:
        >>> number("factor", 0.5, at_least=1)
        Traceback (most recent call last):
        ValueError: factor must be finite and at least 1, got 0.5
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} {value}")
    if not (at_least <= value and above < value and _is_finite(value)):
        bounds = {"at least": at_least, "above": above}
        bound = [f" and {word} {n}" for word, n in bounds.items() if n > -math.inf]
        raise ValueError(f"{name} must be finite{''.join(bound)}, got {value}")
    return float(value)


def _is_finite(value) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def share(name: str, value) -> float:
    """Check a share, from 0 to 1.

    Args:
        name: how the message calls it.
        value: what should lie from 0 to 1.

    Example:
        >>> share("partial_rotary_factor", 1)
        1.0
    """
    if number(name, value, at_least=0) > 1:
        raise ValueError(f"{name} must be at most 1, got {value}")
    return float(value)


def check_layout(layout) -> None:
    """Check the name of a layout of pairs.

    Args:
        layout: "interleaved" or "half".

    Example:
        >>> check_layout("halves")
        Traceback (most recent call last):
        ValueError: layout 'halves' must be one of interleaved, half
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} must be one of {', '.join(LAYOUTS)}")
