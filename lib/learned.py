"""Learned positions: one trained row for each place, and places counted from a mask."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


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
    if not isinstance(mask, Tensor) or mask.is_floating_point():
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a tensor of bool or integers, got {kind}")
    _check_int("start", start)
    _check_int("pad_value", pad_value)
    real = mask.bool()
    readable = not (mask.is_meta or torch.compiler.is_compiling())
    if readable and not torch.equal(mask, real.to(mask.dtype)):
        wrong = mask[mask != real.to(mask.dtype)][0].item()
        raise ValueError(f"mask must hold 0 and 1, got {wrong}")
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
    _check_int("start", start)
    counts = _lengths(lengths)  # [n]
    first = counts.cumsum(0) - counts  # where each document begins in the row
    tokens = torch.arange(int(counts.sum()), device=counts.device)
    return tokens - first.repeat_interleave(counts) + start


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
        ValueError: a size below 1, or a negative offset.
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
        _check_int("max_positions", max_positions, least=1)
        _check_int("d_model", d_model, least=1)
        _check_int("offset", offset, least=0)
        self.offset, self.std = offset, std
        table = torch.empty(max_positions + offset, d_model, device=device, dtype=dtype)
        self.weight = nn.Parameter(table)  # [max_positions + offset, d_model]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, positions: Tensor) -> Tensor:
        """Look positions up: integers `[..., T]` to `[..., T, d_model]`."""
        self._check(positions)
        return F.embedding(positions.long() + self.offset, self.weight)

    def _check(self, positions: Tensor) -> None:
        """Name a position outside the table before the device stumbles over it."""
        kind = getattr(positions, "dtype", type(positions).__name__)
        if kind not in INTEGERS:
            raise TypeError(f"positions must be an integer tensor, got {kind}")
        unreadable = positions.is_meta or torch.compiler.is_compiling()
        if unreadable or positions.numel() == 0:
            return
        low, high = (int(bound) for bound in positions.aminmax())
        rows, shift = len(self.weight), self.offset
        if low < -shift:
            raise IndexError(f"position {low} is not in the table: from {-shift} on")
        if high + shift >= rows:
            extra = f" with its offset {shift}" if shift else ""
            raise IndexError(
                f"position {high} needs {high + shift + 1} rows{extra}, the table has "
                f"{rows}"
            )

    def extra_repr(self) -> str:
        """Show the sizes."""
        rows, width = self.weight.shape
        return f"{rows - self.offset}, {width}, offset={self.offset}"


def _lengths(lengths: Sequence[int] | Tensor) -> Tensor:
    if isinstance(lengths, str) or not isinstance(lengths, Sequence | Tensor):
        raise TypeError(f"lengths must be integers [n], got {lengths!r}")
    counts = torch.as_tensor(lengths) if len(lengths) else torch.zeros(0).long()
    if counts.dtype not in INTEGERS:
        raise TypeError(f"lengths must be integers [n], got {counts.dtype}")
    if counts.dim() != 1:
        raise ValueError(f"lengths must be [n], got {list(counts.shape)}")
    if (counts < 0).any():
        raise ValueError(f"lengths must be at least 0, got {int(counts.min())}")
    return counts.long()


def _check_int(name: str, value: int, least: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
