"""Counting who stands beside whom, and what the counts know: PMI, PPMI, their SVD.

A word's row in a table of co-occurrences says what company it keeps. Tables may be
dense or sparse; a zero means "never seen together".
"""

import math
from numbers import Integral

import torch
from torch import Tensor


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
    _check_text(ids, vocab_size, window)
    text = ids.cpu().long()
    sentence = _sentence_of(text, lengths)
    codes, weights = [], []
    for distance in range(1, min(window, len(text)) + 1):
        inside = sentence[:-distance] == sentence[distance:]  # [N - distance]
        pair = text[:-distance] * vocab_size + text[distance:]  # [N - distance]
        codes.append(pair[inside])
        weights.append(torch.full_like(codes[-1], 1 / distance, dtype=torch.float64))
    seen, slot = torch.cat(codes).unique(return_inverse=True)  # [n], [pairs]
    sums = torch.zeros(len(seen), dtype=torch.float64)
    sums.index_add_(0, slot, torch.cat(weights))
    rows, columns = seen // vocab_size, seen % vocab_size
    if symmetric:
        rows, columns = torch.cat([rows, columns]), torch.cat([columns, rows])
        sums = torch.cat([sums, sums])
    table = _coo(rows, columns, sums, (vocab_size, vocab_size)).float().to(ids.device)
    return table if sparse else table.to_dense()


def pmi(counts: Tensor) -> Tensor:
    """Pointwise mutual information: how much more often than by chance, as a log.

    `log(X_ij · X / (X_i · X_j))`, with the sums of row i, of column j and of the whole
    table. For a pair never seen the limit is −∞; as is usual it gets 0, so that the
    table can be stored sparse and factored.

    Args:
        counts: `[V, C]`, dense or sparse, not negative.

    Returns:
        `[V, C]` in nats, dense or sparse as `counts` is.

    Raises:
        ValueError: a count is negative or not finite.

    Source:
        Levy and Goldberg 2014, section 3.2 (PMI, and its matrix with 0 for −∞).

    Example:
        >>> pmi(torch.tensor([[0.0, 3.0], [3.0, 0.0]])).exp().tolist()
        [[1.0, 2.0], [2.0, 1.0]]
    """
    rows, columns, x = nonzero_counts(counts)
    x = as_floating(x)
    row_sums = x.new_zeros(counts.shape[0]).index_add_(0, rows, x)
    column_sums = x.new_zeros(counts.shape[1]).index_add_(0, columns, x)
    chance = row_sums[rows].log() + column_sums[columns].log() - x.sum().log()
    return _like(counts, rows, columns, x.log() - chance)


def ppmi(counts: Tensor, negatives: float = 1) -> Tensor:
    """Keep the positive part of `pmi(counts) - log(negatives)`.

    `pmi(counts) - log(k)` is the table that skip-gram with k negative samples factors.

    Args:
        counts: `[V, C]`, dense or sparse, not negative.
        negatives: k, at least 1; 1 gives plain PPMI.

    Returns:
        `[V, C]` in nats, dense or sparse as `counts` is.

    Raises:
        ValueError: a count is negative or not finite, or `negatives` is below 1.

    Source:
        Levy and Goldberg 2014, "Neural Word Embedding as Implicit Matrix
        Factorization", sections 3.1 and 4.1 (shifted PPMI).

    Example:
        >>> ppmi(torch.tensor([[9.0, 1.0], [1.0, 9.0]])).exp()
        tensor([[1.8000, 1.0000],
                [1.0000, 1.8000]])
    """
    if not negatives >= 1:
        raise ValueError(f"negatives must be at least 1, got {negatives}")
    table = pmi(counts)
    if not table.is_sparse:
        return (table - math.log(negatives)).clamp(min=0)
    rows, columns = table.indices()
    values = table.values() - math.log(negatives)
    kept = values > 0
    return _like(table, rows[kept], columns[kept], values[kept])


def svd_vectors(
    matrix: Tensor, dim: int, power: float = 0.5, *, seed: int = 0
) -> Tensor:
    """Factor a matrix and return its `dim` strongest left directions, U · Σ^power.

    The table is multiplied by a few random vectors, again and again; its strongest
    directions stand out in what comes back. That takes a fraction of the time of the
    full decomposition. The largest entry of each column is made positive.

    Args:
        matrix: float `[V, C]`, dense or sparse, for instance PPMI.
        dim: number of directions, at most min(V, C).
        power: 0.5 shares Σ between words and contexts, 1 keeps the distances between
            rows, 0 makes all directions equally strong.
        seed: of the random vectors; another one moves the cosines of 100 directions of
            the King James text by 1e-4.

    Returns:
        `[V, dim]`, the strongest direction first.

    Raises:
        ValueError: `dim` is below 1 or above min(V, C).

    Source:
        Musco and Musco 2015 (block Krylov iteration); power: Levy, Goldberg and Dagan
        2015, section 3.3.

    Example:
        >>> svd_vectors(torch.tensor([[1.0, 0.0], [0.0, -9.0]]), dim=1, power=1.0)
        tensor([[0.],
                [9.]])
    """
    limit = min(matrix.shape)
    if not 1 <= dim <= limit:
        raise ValueError(f"dim must be from 1 to {limit}, got {dim}")
    width, rounds = 20, max(8, dim // 4)
    if width * (rounds + 1) < limit:
        left, strength = _krylov_svd(matrix, width, rounds, seed)
    else:
        left, strength, _ = torch.linalg.svd(matrix.to_dense(), full_matrices=False)
    left, strength = left[:, :dim], strength[:dim]
    peak = left.gather(0, left.abs().argmax(0, keepdim=True))  # [1, dim]
    return left * peak.sign() * strength**power


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
        first = x[wrong][0].item()
        raise ValueError(f"a count must be finite and not negative, got {first}")
    return rows, columns, x


def as_floating(x: Tensor) -> Tensor:
    """Return x in fp32, or as it is if its type is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_at_least(smallest: int, **numbers: int) -> None:
    """Raise TypeError for a number that is no integer, ValueError for one too small."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} must be an int, got {value!r}")
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")


def _krylov_svd(
    matrix: Tensor, width: int, rounds: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Decompose a matrix within the span of its powers times random vectors.

    Returns left directions and strengths, `width * (rounds + 1)` of them.
    """
    transposed = matrix.T.coalesce() if matrix.is_sparse else matrix.T
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(matrix.shape[1], width, generator=generator)
    block = matrix @ start.to(matrix.device, matrix.dtype)  # [V, width]
    basis = torch.linalg.qr(block).Q
    for _ in range(rounds):
        block = matrix @ (transposed @ basis[:, -width:])
        block = block - basis @ (basis.T @ block)
        basis = torch.cat([basis, torch.linalg.qr(block).Q], 1)
    basis = torch.linalg.qr(basis).Q  # rounding has bent the blocks
    within = (transposed @ basis).T  # [width * (rounds + 1), C]
    left, strength, _ = torch.linalg.svd(within, full_matrices=False)
    return basis @ left, strength


def _like(table: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Lay values out as `table` is laid out, dense or sparse, with 0 elsewhere."""
    sparse = _coo(rows, columns, values, tuple(table.shape))
    return sparse.to_dense() if table.layout == torch.strided else sparse


def _coo(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple) -> Tensor:
    """Build a sparse table, adding up values that share a cell."""
    places = torch.stack([rows, columns])
    table = torch.sparse_coo_tensor(places, values, shape, check_invariants=False)
    return table.coalesce()


def _sentence_of(text: Tensor, lengths: Tensor | None) -> Tensor:
    """Number the sentence that each token belongs to."""
    if lengths is None:
        return torch.zeros_like(text)
    _check_integers("lengths", lengths)
    lengths = lengths.cpu().long()
    if (lengths < 0).any():
        raise ValueError(f"a length must not be negative, got {lengths.min().item()}")
    if lengths.sum() != len(text):
        total = lengths.sum().item()
        raise ValueError(f"lengths sum to {total}, but the text has {len(text)} tokens")
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


def _check_text(ids: Tensor, vocab_size: int, window: int) -> None:
    check_at_least(1, vocab_size=vocab_size, window=window)
    _check_integers("ids", ids)
    if len(ids) == 0:
        raise ValueError("ids hold 0 tokens, at least 1 is needed")
    for bad in (ids.min().item(), ids.max().item()):
        if not 0 <= bad < vocab_size:
            raise IndexError(f"id {bad} is outside a vocabulary of {vocab_size} words")


def _check_integers(name: str, values: Tensor) -> None:
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be an int64 tensor, got {type(values).__name__}")
    if values.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8):
        raise TypeError(f"{name} must be an int64 tensor, got {values.dtype}")
    if values.dim() != 1:
        raise ValueError(f"{name} must have one axis, got {tuple(values.shape)}")
