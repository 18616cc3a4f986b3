"""Counting who stands beside whom. A zero in a table means "never seen together"."""

import torch
from torch import Tensor

from lib.checks import Range, check_ids, check_integers, check_ranges, check_size


def cooccurrence(
    ids: Tensor,
    vocab_size: int,
    window: int,
    symmetric: bool = True,
    *,
    lengths: Tensor | None = None,
    sparse: bool = False,
) -> Tensor:
    """Count pairs of words at most `window` tokens apart, each with weight 1/distance.

    A pair a, b in reading order adds to entry `[a, b]`, and if `symmetric` also to
    `[b, a]`. Drop unknown words from `ids` first: what is left moves closer together,
    as in the released program.

    Args:
        ids: int64 `[N]`, the text.
        vocab_size: V, the number of words.
        window: the largest distance counted, in tokens.
        symmetric: count the words on both sides, not those that follow alone.
        lengths: int64 `[S]`, the tokens of each sentence, with sum N; no pair crosses
            from one sentence to the next. Without it the text is one sentence.
        sparse: return a sparse table, for a vocabulary whose square is large.

    Returns:
        fp32 `[V, V]` on the device of `ids`, summed in float64 on the CPU.

    Raises:
        TypeError: `ids` or `lengths` hold no integers, or a size is no integer.
        ValueError: no token, a size below 1, or `lengths` that do not fit.
        IndexError: an id outside the vocabulary.

    Source:
        Pennington et al. 2014, section 4.2; stanfordnlp/GloVe, `src/cooccur.c`.

    Example:
        >>> cooccurrence(torch.tensor([0, 1, 2]), vocab_size=3, window=2).tolist()
        [[0.0, 1.0, 0.5], [1.0, 0.0, 1.0], [0.5, 1.0, 0.0]]
    """
    size, window = check_size("vocab_size", vocab_size), check_size("window", window)
    text = _check_text(ids, size).cpu()
    codes, weights = _pairs(text, _sentence_of(text, lengths), size, window)
    if not sparse and size * size <= 8 * len(codes):  # no larger than the list of pairs
        sums = torch.zeros(size * size, dtype=torch.float64)
        table = sums.index_add_(0, codes, weights).view(size, size)
        return (table + table.T if symmetric else table).float().to(ids.device)
    seen, slot = codes.unique(return_inverse=True)  # [n], [pairs]
    sums = torch.zeros(len(seen), dtype=torch.float64).index_add_(0, slot, weights)
    rows, columns = seen // size, seen % size
    if symmetric:
        rows, columns = torch.cat([rows, columns]), torch.cat([columns, rows])
        sums = torch.cat([sums, sums])
    table = sparse_table(rows, columns, sums, (size, size)).float().to(ids.device)
    return table if sparse else table.to_dense()


def _pairs(
    text: Tensor, sentence: Tensor, size: int, window: int
) -> tuple[Tensor, Tensor]:
    """List all pairs of a text as codes, first · size + second, and their weights."""
    codes, weights = [], []
    for distance in range(1, min(window, len(text)) + 1):
        inside = sentence[:-distance] == sentence[distance:]  # [N - distance]
        pair = text[:-distance] * size + text[distance:]  # [N - distance]
        codes.append(pair[inside])
        weights.append(torch.full_like(codes[-1], 1 / distance, dtype=torch.float64))
    return torch.cat(codes), torch.cat(weights)


def nonzero_counts(counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return row, column and value of every count that is not 0.

    Args:
        counts: `[V, C]`, dense or sparse.

    Returns:
        Three tensors `[n]`.

    Raises:
        ValueError: a count is negative or not finite.

    Example:
        >>> nonzero_counts(torch.tensor([[0, 7], [0, 0]]))
        (tensor([0]), tensor([1]), tensor([7]))
    """
    if counts.layout == torch.strided:
        rows, columns = counts.nonzero(as_tuple=True)
        x = counts[rows, columns]
    else:
        table = counts.to_sparse_coo().coalesce()
        kept = table.values() != 0
        rows, columns = table.indices()[:, kept]
        x = table.values()[kept]
    wrong = ~((x > 0) & x.isfinite())
    if wrong.any():
        bad, row, column = (part[wrong][0].item() for part in (x, rows, columns))
        raise ValueError(
            f"a count must be finite and not negative, got {bad} in row {row}, "
            f"column {column}"
        )
    return rows, columns, x


def as_floating(x: Tensor) -> Tensor:
    """Return x in fp32, or as it is if its type is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def sparse_table(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple) -> Tensor:
    """Build a sparse table, adding up values that share a cell."""
    places = torch.stack([rows, columns])
    table = torch.sparse_coo_tensor(places, values, shape, check_invariants=False)
    return table.coalesce()


def _sentence_of(text: Tensor, lengths: Tensor | None) -> Tensor:
    """Number the sentence that each token belongs to."""
    if lengths is None:
        return torch.zeros_like(text)
    lengths = _check_row("lengths", lengths).cpu().long()
    check_ranges(Range(lengths, 0, torch.iinfo(torch.int64).max, _negative_length))
    if lengths.sum() != len(text):
        total = lengths.sum().item()
        raise ValueError(f"lengths sum to {total}, but the text has {len(text)} tokens")
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


def _negative_length(wrong: int) -> ValueError:
    return ValueError(f"a length must not be negative, got {wrong}")


def _check_text(ids: Tensor, size: int) -> Tensor:
    if len(_check_row("ids", ids)) == 0:
        raise ValueError("ids hold 0 tokens, at least 1 is needed")
    return check_ids(ids, size)


def _check_row(name: str, values: Tensor) -> Tensor:
    if check_integers(name, values).dim() != 1:
        raise ValueError(f"{name} must have one axis, got {tuple(values.shape)}")
    return values
