"""The one place where arguments are checked: sizes, numbers, ids, positions, masks.

A wrong id raises far from its cause on a GPU, so values are read before a device uses
them. A read costs a wait for the device; `check_ranges` makes one of many. Where values
cannot be read (`may_read`), shapes and dtypes are checked and values are not.
"""

from lib.checks.numbers import (
    LAYOUTS,
    check_index,
    check_integer,
    check_layout,
    check_size,
    even_width,
    number,
    share,
)
from lib.checks.reading import (
    LARGEST,
    Range,
    check_ranges,
    ids_range,
    is_watched,
    least_range,
    mask_range,
    may_read,
    read_bounds,
    unchecked,
)
from lib.checks.tensors import (
    INTEGER_DTYPES,
    check_finite,
    check_floating,
    check_heads,
    check_ids,
    check_integers,
    check_mask,
    check_mask_kind,
    check_positions,
    check_table,
    check_vectors,
)

__all__ = [
    "INTEGER_DTYPES",
    "LARGEST",
    "LAYOUTS",
    "Range",
    "check_finite",
    "check_floating",
    "check_heads",
    "check_ids",
    "check_index",
    "check_integer",
    "check_integers",
    "check_layout",
    "check_mask",
    "check_mask_kind",
    "check_positions",
    "check_ranges",
    "check_size",
    "check_table",
    "check_vectors",
    "even_width",
    "ids_range",
    "is_watched",
    "least_range",
    "mask_range",
    "may_read",
    "number",
    "read_bounds",
    "share",
    "unchecked",
]
