"""Which vectors lie near: unit rows, cosines and the nearest of them.

Vectors are float `[V, d]`, one row a word; words are row numbers. A row of zeros has
no direction: its cosine with anything is 0.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from lib.checks import check_finite, check_index, check_size, check_vectors

CELLS_AT_ONCE = 2**22  # numbers in the largest block of scores held at once


def unit_rows(vectors: Tensor) -> Tensor:
    """Scale each vector to length 1, and leave a vector of zeros as it is.

    The largest entry is divided out first, so that no square over- or underflows.

    Args:
        vectors: `[..., d]`.

    Returns:
        `[..., d]`, fp32 at least.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0], [3e-30, 4e-30]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000],
                [0.6000, 0.8000]])
    """
    x = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    peak = x.abs().amax(-1, keepdim=True)  # [..., 1]
    x = x / peak.where(peak > 0, 1)
    length = x.norm(dim=-1, keepdim=True)  # [..., 1]
    return x / length.where(length > 0, 1)


def cosine_similarity(x: Tensor, y: Tensor) -> Tensor:
    """Return the cosine of each pair of vectors; a vector of zeros gives 0.

    For all pairs of two sets write `unit_rows(x) @ unit_rows(y).T`.

    Args:
        x: `[..., d]`.
        y: `[..., d]`, of the same shape.

    Returns:
        `[...]`, from -1 to 1, fp32 at least.

    Raises:
        ValueError: the shapes differ, or a number is not finite.

    Example:
        >>> cosine_similarity(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0]))
        tensor(0.7071)
        >>> cosine_similarity(torch.zeros(2), torch.tensor([2.0, 0.0]))
        tensor(0.)
    """
    if x.shape != y.shape:
        raise ValueError(f"x is {tuple(x.shape)}, but y is {tuple(y.shape)}")
    check_finite("x", x)
    check_finite("y", y)
    return (unit_rows(x) * unit_rows(y)).sum(-1).clamp(-1, 1)


def most_similar(
    vectors: Tensor, query: int | Tensor, k: int, exclude: Iterable[int] = ()
) -> list[tuple[int, float]]:
    """List the k rows with the largest cosine to a query, best first.

    Nothing is excluded unless named: the first neighbour of a row is the row itself.
    Of equal cosines the lower row comes first.

    Args:
        vectors: `[V, d]`.
        query: a row number, or a vector `[d]`.
        k: number of rows wanted, at least 1; fewer come back if fewer are left.
        exclude: row numbers that must not come back.

    Returns:
        Pairs of row and cosine.

    Raises:
        TypeError: a row or `k` is no integer, or vectors are not floating point.
        IndexError: a row is out of range.
        ValueError: `k` below 1, a query of another width, or a row or a query that is
            not finite.

    Source:
        gensim 4.4.0, `KeyedVectors.most_similar`, which always excludes its inputs.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
        >>> [(row, round(cosine, 3)) for row, cosine in most_similar(vectors, 0, k=3)]
        [(0, 1.0), (1, 0.707), (2, 0.0)]
    """
    check_vectors("vectors", vectors)
    k = check_size("k", k)
    if not isinstance(query, Tensor) or query.dim() == 0:
        query = vectors[check_index("row", query, len(vectors))]
    if query.shape != vectors.shape[1:]:
        width = vectors.shape[1]
        raise ValueError(f"a query must be ({width},), got {tuple(query.shape)}")
    left_out = sorted({check_index("row", row, len(vectors)) for row in exclude})
    scores = unit_rows(vectors) @ unit_rows(check_finite("query", query))  # [V]
    scores[left_out] = -math.inf
    return best(scores, min(k, len(vectors) - len(left_out)))


def best(scores: Tensor, k: int) -> list[tuple[int, float]]:
    """List the k largest scores, the lower row first where two are equal."""
    if k == 0:
        return []
    worst = scores.topk(k).values[-1]
    rows = (scores >= worst).nonzero().flatten()  # k rows, or more if some are equal
    order = scores[rows].argsort(descending=True, stable=True)[:k]
    rows = rows[order]
    return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))
