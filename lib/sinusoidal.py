"""Sinusoidal positions: a fixed clock for each pair of features, from fast to slow."""

import torch
from torch import Tensor, nn

from lib.checks import (
    check_floating,
    check_integers,
    check_layout,
    check_size,
    may_read,
    number,
    read_bounds,
)


def sinusoidal_table(
    num_positions: int, d_model: int, base: float = 1e4, layout: str = "interleaved"
) -> Tensor:
    """Write the positions 0 … num_positions - 1 as sines and cosines.

    Pair i turns by base^(-2i/d) radians a position. tensor2tensor and its descendants
    (fairseq, M2M-100, Whisper) divide by d - 2 instead of d, so that the slowest clock
    is 1/base exactly; that is another table, not another layout of this one.

    Args:
        num_positions: rows.
        d_model: width; an odd one has one sine more than cosines.
        base: how much slower than the first the last clock nearly is.
        layout: "interleaved" (sine 2i, cosine 2i + 1) or "half" (all sines, then all
            cosines).

    Returns:
        fp32 `[num_positions, d_model]`, formed in float64 and rounded once.

    Raises:
        ValueError: a size below 1, a base that is not positive, an unknown layout.
        TypeError: a size that is not an int.

    Source: Vaswani et al. 2017, section 3.5; the half layout as in transformers 5.24.0,
        `MarianSinusoidalPositionalEmbedding`.

    Example:
        >>> sinusoidal_table(2, 2)  # sin 0, cos 0; sin 1, cos 1
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """
    rows = check_size("num_positions", num_positions)
    width, base = _check_options(d_model, base, layout)
    return _rows(torch.arange(rows), width, base, layout)


def _rows(positions: Tensor, d_model: int, base: float, layout: str) -> Tensor:
    """Compute the rows of any integers `[...]`: fp32 `[..., d_model]`."""
    # MPS has no float64: there the rows come from the CPU.
    home = "cpu" if positions.device.type == "mps" else positions.device
    pairs = torch.arange(0, d_model, 2, device=home, dtype=torch.float64)
    inv_freq = base ** -(pairs / d_model)  # [ceil(d_model / 2)]
    angles = positions.to(home).double()[..., None] * inv_freq
    sines, cosines = angles.sin().float(), angles.cos().float()
    if layout == "half":
        rows = torch.cat([sines, cosines[..., : d_model // 2]], dim=-1)
    else:
        rows = torch.stack([sines, cosines], dim=-1).flatten(-2)[..., :d_model]
    return rows.to(positions.device)  # [..., d_model]


class SinusoidalPositionalEncoding(nn.Module):
    """Add to each token the row of its position; learns nothing and keeps no state.

    The table holds the rows 0 … max_len - 1. Any other position is computed when it is
    asked for, to the same bits, and forgotten again: max_len saves time and limits
    nothing. On a GPU all given positions are computed, for to look where they lie would
    wait for it. The table is a buffer that no checkpoint holds and no cast touches.

    Args:
        d_model: width of a token.
        max_len: rows to keep at hand.
        base, layout: as for `sinusoidal_table`.

    Raises:
        ValueError: as for `sinusoidal_table`, and for shapes that do not fit.
        TypeError: sizes that are not ints, tokens that are not floating, positions that
            are not integers.

    Source: Vaswani et al. 2017, section 3.5.

    Example:
        >>> encoding = SinusoidalPositionalEncoding(2, max_len=16)
        >>> encoding(torch.zeros(1, 2, 2))
        tensor([[[0.0000, 1.0000],
                 [0.8415, 0.5403]]])
        >>> encoding(torch.zeros(1, 1, 2), torch.tensor([1000]))
        tensor([[[0.8269, 0.5624]]])
    """

    table: Tensor

    def __init__(
        self,
        d_model: int,
        max_len: int,
        base: float = 1e4,
        layout: str = "interleaved",
    ):
        super().__init__()
        self.max_len = check_size("max_len", max_len)
        self.d_model, self.base = _check_options(d_model, base, layout)
        self.layout = layout
        table = self._rows(torch.arange(self.max_len))  # [max_len, d_model]
        self.register_buffer("table", table, persistent=False)

    def _rows(self, positions: Tensor) -> Tensor:
        return _rows(positions, self.d_model, self.base, self.layout)

    def reset_parameters(self) -> None:
        """Rebuild the table on its device."""
        self.table = self._rows(torch.arange(self.max_len, device=self.table.device))

    def _apply(self, fn, recurse=True):
        """Follow a move to another device, but not a cast to another dtype."""
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Add positions to x.

        Args:
            x: `[B, T, d_model]` or `[T, d_model]`, floating.
            positions: integers `[T]`, `[1, T]` or `[B, T]`; 0 … T - 1 if None.

        Returns:
            x + rows, in the shape and dtype of x, rounded once.
        """
        self._check(x, positions)
        rows = self._look_up(x, positions)  # [T, d_model] or [1 or B, T, d_model]
        wide = torch.promote_types(x.dtype, torch.float32)
        return (x.to(wide) + rows).to(x.dtype)

    def _look_up(self, x: Tensor, positions: Tensor | None) -> Tensor:
        if positions is not None:
            known = self._holds(positions)
            return self.table[positions.long()] if known else self._rows(positions)
        tokens = x.shape[-2]
        if tokens <= self.max_len:
            return self.table[:tokens]
        return self._rows(torch.arange(tokens, device=x.device))

    def _holds(self, positions: Tensor) -> bool:
        """Tell whether the table has these rows, where a look costs no wait."""
        if not (positions.is_cpu and positions.numel() and may_read(positions)):
            return False
        return all(
            low >= 0 and high < self.max_len for low, high in read_bounds(positions)
        )

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        check_floating("x", x)
        if x.dim() < 2 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be [..., T, {self.d_model}], got {list(x.shape)}")
        if positions is None:
            return
        check_integers("positions", positions)
        batch, tokens = x.shape[:-2], x.shape[-2]
        rows = positions.shape[:-1]
        fits = rows in ((), batch) or (len(batch) == 1 and rows == (1,))
        if positions.dim() == 0 or positions.shape[-1] != tokens or not fits:
            raise ValueError(
                f"positions must be [{tokens}] or {[*batch, tokens]}, got "
                f"{list(positions.shape)}"
            )

    def extra_repr(self) -> str:
        """Show the sizes and the options."""
        return f"{self.d_model}, {self.max_len}, base={self.base}, {self.layout}"


def _check_options(d_model: int, base: float, layout: str) -> tuple[int, float]:
    """Check what all tables take; returns the width and the base."""
    check_layout(layout)
    return check_size("d_model", d_model), number("base", base, above=0)
