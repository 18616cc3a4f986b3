"""The embedding table: one learned row per token id."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import check_ids, check_integer, check_size, number


def table_bytes(vocab: int, dim: int, dtype: torch.dtype) -> int:
    """Count the bytes of a `vocab` × `dim` table without allocating it.

    Args:
        vocab: number of rows.
        dim: width of a row.
        dtype: the type that a number is stored in.

    Returns:
        vocab · dim · the bytes of one number.

    Raises:
        ValueError: a size below 1.
        TypeError: a size that is not an int.

    Example:
        >>> table_bytes(128_256, 4_096, torch.bfloat16)
        1050673152
    """
    vocab, dim = check_size("vocab", vocab), check_size("dim", dim)
    return torch.empty(vocab, dim, dtype=dtype, device="meta").nbytes


class TokenEmbedding(nn.Module):
    """Map token ids `[...]` to their rows `[..., dim]` of a learned table.

    The one place of the library where a token table is initialised: normal with mean 0
    and standard deviation `std`. Where the table is the output head too, the untrained
    logit of the token just read is cos · dim · std behind a last norm, with the cosine
    of hidden state and row, and about dim · std² without one. Far above ln V, the model
    begins by predicting its own input. That alone is no harm: chapter 15 trains small
    models from starts on both sides, and those of 0.02 do best or as well as any at
    widths 64 and 576; at 64, harm shows from 0.25 on.

    Args:
        num_embeddings: rows, V.
        dim: width of a row.
        padding_idx: the row that stands for "no token". It starts at zero and the
            lookup gives it no gradient; a tied output head still does. A negative
            number counts from the end; None means that there is no such row.
        scale: factor on the looked-up rows alone, never on the table (Gemma multiplies
            by √dim). It is rounded to the table's dtype first, as a tensor would be.
        std: standard deviation of the start, in the units of the table.
        sparse: give `weight` a sparse gradient that holds only the looked-up rows.
        device: where the table lies; "meta" counts without allocating.
        dtype: floating-point dtype of the table.

    Raises:
        ValueError: a size below 1, a negative `std`, a factor that is not finite.
        TypeError: a size that is not an int, or ids that are not integers.
        IndexError: an id, or `padding_idx`, outside the table.

    Source:
        Bengio et al. 2003, section 2 (the shared table C); GPT-2's std of 0.02;
        the scale as in transformers 5.24, Gemma.

    Example:
        >>> table = TokenEmbedding(5, 3, padding_idx=0)
        >>> table(torch.tensor([[0, 4]])).shape
        torch.Size([1, 2, 3])
        >>> table.weight[0].tolist()
        [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        num_embeddings: int,
        dim: int,
        padding_idx: int | None = None,
        scale: float | None = None,
        std: float = 0.02,
        *,
        sparse: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        rows = check_size("num_embeddings", num_embeddings)
        width = check_size("dim", dim)
        self._padding_idx = _row_number(padding_idx, rows)
        self.scale = None if scale is None else number("scale", scale)
        self.std, self.sparse = number("std", std, at_least=0), sparse
        table = torch.empty(rows, width, device=device, dtype=dtype)
        self.weight = nn.Parameter(table)  # [V, dim]
        self.reset_parameters()

    @property
    def num_embeddings(self) -> int:
        """Rows that the table has, V."""
        return len(self.weight)

    @property
    def dim(self) -> int:
        """Width of a row."""
        return self.weight.shape[1]

    @property
    def padding_idx(self) -> int | None:
        """Number of the padding row, counted from 0, or None."""
        return _row_number(self._padding_idx, len(self.weight))

    def reset_parameters(self) -> None:
        """Draw the table anew; the padding row, if there is one, is zero again."""
        with torch.no_grad():
            self.weight.normal_(0, self.std)
            if self.padding_idx is not None:
                self.weight[self.padding_idx].zero_()

    def forward(self, ids: Tensor) -> Tensor:
        """Look the ids up: `[...]` integers to `[..., dim]` in the table's dtype.

        Args:
            ids: integers `[...]`.
        """
        ids = check_ids(ids, len(self.weight))
        rows = F.embedding(ids, self.weight, self.padding_idx, sparse=self.sparse)
        if self.scale is None:
            return rows  # [..., dim]
        return rows * torch.full((), self.scale, dtype=rows.dtype, device=rows.device)

    def extra_repr(self) -> str:
        """Show the sizes, and the options that are set."""
        options = {"padding_idx": self.padding_idx, "scale": self.scale}
        shown = [
            f"{name}={value}" for name, value in options.items() if value is not None
        ]
        return ", ".join([str(self.num_embeddings), str(self.dim), *shown])


def _row_number(padding_idx: int | None, rows: int) -> int | None:
    """Turn a padding row, which may be counted from the end, into its number."""
    if padding_idx is None:
        return None
    row = check_integer("padding_idx", padding_idx)
    if not -rows <= row < rows:
        raise IndexError(
            f"padding_idx {row} is outside the table: {rows} rows, "
            f"{-rows} to {rows - 1}"
        )
    return row % rows
