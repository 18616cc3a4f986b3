"""What the counts know without training: PMI, PPMI and their SVD.

A word's row in a table of co-occurrences says what company it keeps. Tables may be
dense or sparse; a zero means "never seen together".
"""

import math

import torch
from torch import Tensor

from lib.checks import check_finite, check_integer, check_size, number
from lib.glove.counts import as_floating, nonzero_counts, sparse_table


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
    shift = math.log(number("negatives", negatives, at_least=1))
    table = pmi(counts)
    if not table.is_sparse:
        return (table - shift).clamp(min=0)
    rows, columns = table.indices()
    values = table.values() - shift
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
            the King James text by 1e-4, and those of 200 by 1e-3.

    Returns:
        `[V, dim]`, the strongest direction first.

    Raises:
        TypeError: `dim` or `seed` is no integer.
        ValueError: `dim` is below 1 or above min(V, C), or a row is not finite.

    Source:
        Musco and Musco 2015 (block Krylov iteration); power: Levy, Goldberg and Dagan
        2015, section 3.3.

    Example:
        >>> svd_vectors(torch.tensor([[1.0, 0.0], [0.0, -9.0]]), dim=1, power=1.0)
        tensor([[0.],
                [9.]])
    """
    limit = min(matrix.shape)
    dim, seed = check_size("dim", dim, 1, limit), check_integer("seed", seed)
    _check_matrix(matrix)
    width, rounds = (20, max(8, dim // 4)) if dim <= 100 else (40, max(16, dim // 10))
    if width * (rounds + 1) < limit:
        left, strength = _krylov_svd(matrix, width, rounds, seed)
    else:
        left, strength, _ = torch.linalg.svd(matrix.to_dense(), full_matrices=False)
    left, strength = left[:, :dim], strength[:dim]
    peak = left.gather(0, left.abs().argmax(0, keepdim=True))  # [1, dim]
    return left * peak.sign() * strength**power


def _krylov_svd(
    matrix: Tensor, width: int, rounds: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Decompose a matrix within the span of its powers times random vectors.

    Returns left directions and strengths, `width * (rounds + 1)` of them.
    """
    transposed = matrix.T.coalesce() if matrix.is_sparse else matrix.T
    generator = torch.Generator().manual_seed(seed)
    shape = matrix.shape[1], width
    start = torch.randn(shape, generator=generator, dtype=torch.float32)
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
    sparse = sparse_table(rows, columns, values, tuple(table.shape))
    return sparse.to_dense() if table.layout == torch.strided else sparse


def _check_matrix(matrix: Tensor) -> None:
    """Name the first row of a dense or sparse matrix that is not finite."""
    if matrix.layout == torch.strided:
        check_finite("matrix", matrix)
        return
    table = matrix.to_sparse_coo().coalesce()
    wrong = ~table.values().isfinite()
    if wrong.any():
        row, bad = table.indices()[0][wrong][0].item(), table.values()[wrong][0].item()
        raise ValueError(f"matrix must be finite, row {row} holds {bad}")
