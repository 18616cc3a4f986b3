"""Learned positions: one trained row for each place, and places counted from a mask."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import (
    Range,
    check_integer,
    check_integers,
    check_mask,
    check_ranges,
    check_size,
    number,
)


def positions_from_mask(mask: Tensor, start: int = 0, pad_value: int = 0) -> Tensor:
    """Number the real tokens of each row 0, 1, 2 …, wherever the padding stands.

    Args:
        mask: bool or integers `[..., T]`, 1 for real tokens.
        start: the number of the first real token.
        pad_value: what padding gets. Any place inside the table will do, since nothing
            attends to padding; OPT and RoBERTa give it -1, a row that their offset
            keeps in front of the table.

    Returns:
        int64 `[..., T]`.

    Raises:
        TypeError: a mask of floats, a start or pad value that is not an int.
        ValueError: a mask of other numbers than 0 and 1.

    Source: transformers 5.24.0, `OPTLearnedPositionalEmbedding.forward`.

    Example:
        >>> positions_from_mask(torch.tensor([[0, 0, 1, 1, 1]]))
        tensor([[0, 0, 0, 1, 2]])
    """
    start = check_integer("start", start)
    pad_value = check_integer("pad_value", pad_value)
    real = check_mask(mask)
    counted = real.cumsum(dim=-1) - 1 + start  # [..., T]
    return counted.masked_fill(~real, pad_value)


def packed_positions(lengths: Sequence[int] | Tensor, start: int = 0) -> Tensor:
    """Number the tokens of documents packed in one row; each begins anew.

    Args:
        lengths: tokens of each document, integers `[n]`; 0 is allowed.
        start: the number of a document's first token.

    Returns:
        int64 `[sum of lengths]`.

    Raises:
        TypeError: lengths or a start that are not integers.
        ValueError: a negative length, or lengths that are not one row.

    Example:
        >>> packed_positions([3, 2])
        tensor([0, 1, 2, 0, 1])
    """
    start = check_integer("start", start)
    device = lengths.device if isinstance(lengths, Tensor) else None
    numbers = _lengths(lengths)
    counts = torch.tensor(numbers, dtype=torch.int64, device=device)  # [n]
    first = counts.cumsum(0) - counts  # where each document begins in the row
    total = sum(numbers)
    began = first.repeat_interleave(counts, output_size=total)  # [sum of lengths]
    return torch.arange(total, device=counts.device) - began + start


class LearnedPositionalEmbedding(nn.Module):
    """Look up one trained row for each position.

    No row is special: a `padding_idx` would freeze the row of a real position.

    Args:
        max_positions: how many positions the table has rows for.
        d_model: width of a row.
        offset: rows in front of position 0: 2 in OPT, padding_idx + 1 in RoBERTa. The
            table has max_positions + offset rows; positions from -offset are legal.
        std: standard deviation of the start.
        device: where the table lies; "meta" counts without allocating.
        dtype: floating-point dtype of the table.

    Raises:
        ValueError: a size below 1, a negative offset or `std`.
        TypeError: sizes that are not ints, positions that are not integers.
        IndexError: a position outside the table.

    Source: Gehring et al. 2017, section 3.1; GPT-2's std; OPT's and RoBERTa's offsets
        as in transformers 5.24.0.

    Example:
        >>> table = LearnedPositionalEmbedding(100, 8)
        >>> table(torch.arange(3)).shape
        torch.Size([3, 8])
        >>> table(torch.tensor([100]))
        Traceback (most recent call last):
        IndexError: position 100 needs 101 rows, the table has 100
    """

    def __init__(
        self,
        max_positions: int,
        d_model: int,
        offset: int = 0,
        std: float = 0.02,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        rows = check_size("max_positions", max_positions)
        width = check_size("d_model", d_model)
        self.offset = check_size("offset", offset, at_least=0)
        self.std = number("std", std, at_least=0)
        table = torch.empty(rows + self.offset, width, device=device, dtype=dtype)
        self.weight = nn.Parameter(table)  # [max_positions + offset, d_model]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, positions: Tensor) -> Tensor:
        """Look positions up: integers `[..., T]` to `[..., T, d_model]`.

        Args:
            positions: integers `[..., T]`.
        """
        check_ranges(self.allowed(positions))
        return F.embedding(positions.long() + self.offset, self.weight)

    def allowed(self, positions: Tensor) -> Range:
        """Make the range of positions that have a row, for one read with others.

        Args:
            positions: integers `[..., T]`.
        """
        check_integers("positions", positions)
        rows, shift = len(self.weight), self.offset
        extra = f" with its offset {shift}" if shift else ""

        def error(wrong: int) -> IndexError:
            if wrong < -shift:
                return IndexError(
                    f"position {wrong} is not in the table: from {-shift} on"
                )
            return IndexError(
                f"position {wrong} needs {wrong + shift + 1} rows{extra}, the table "
                f"has {rows}"
            )

        return Range(positions, -shift, rows - shift - 1, error)

    def extra_repr(self) -> str:
        """Show the sizes."""
        rows, width = self.weight.shape
        return f"{rows - self.offset}, {width}, offset={self.offset}"


def _lengths(lengths: Sequence[int] | Tensor) -> list[int]:
    """Check lengths `[n]`; those of a tensor are read, since they size the result."""
    if isinstance(lengths, Tensor):
        check_integers("lengths", lengths)
        if lengths.dim() != 1:
            raise ValueError(f"lengths must be [n], got {list(lengths.shape)}")
        lengths = lengths.tolist()
    elif isinstance(lengths, str) or not isinstance(lengths, Sequence):
        raise TypeError(f"lengths must be integers [n], got {lengths!r}")
    return [check_size(f"lengths[{i}]", n, 0) for i, n in enumerate(lengths)]
