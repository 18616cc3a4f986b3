"""Which vectors lie near: unit rows, cosines and the nearest of them.

Vectors are float `[V, d]`, one row a word; words are row numbers. A row of zeros has
no direction: its cosine with anything is 0.
"""

import math
import operator
from collections.abc import Iterable

import torch
from torch import Tensor

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
        ValueError: the shapes differ.

    Example:
        >>> cosine_similarity(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0]))
        tensor(0.7071)
        >>> cosine_similarity(torch.zeros(2), torch.tensor([2.0, 0.0]))
        tensor(0.)
    """
    if x.shape != y.shape:
        raise ValueError(f"x is {tuple(x.shape)}, but y is {tuple(y.shape)}")
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
        TypeError: a row is no integer.
        IndexError: a row is out of range.
        ValueError: `k` below 1, a query of another width, or a cosine that is NaN.

    Source:
        gensim 4.4.0, `KeyedVectors.most_similar`, which always excludes its inputs.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
        >>> [(row, round(cosine, 3)) for row, cosine in most_similar(vectors, 0, k=3)]
        [(0, 1.0), (1, 0.707), (2, 0.0)]
    """
    check_table(vectors)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if not isinstance(query, Tensor) or query.dim() == 0:
        query = vectors[row_number(query, len(vectors))]
    if query.shape != vectors.shape[1:]:
        width = vectors.shape[1]
        raise ValueError(f"a query must be ({width},), got {tuple(query.shape)}")
    left_out = sorted({row_number(row, len(vectors)) for row in exclude})
    scores = unit_rows(vectors) @ unit_rows(query)  # [V]
    scores[left_out] = -math.inf
    return best(scores, min(k, len(vectors) - len(left_out)))


def best(scores: Tensor, k: int) -> list[tuple[int, float]]:
    """List the k largest scores, the lower row first where two are equal."""
    if scores.isnan().any():
        row = scores.isnan().nonzero()[0].item()
        raise ValueError(f"the cosine of row {row} is not a number")
    if k == 0:
        return []
    worst = scores.topk(k).values[-1]
    rows = (scores >= worst).nonzero().flatten()  # k rows, or more if some are equal
    order = scores[rows].argsort(descending=True, stable=True)[:k]
    rows = rows[order]
    return list(zip(rows.tolist(), scores[rows].tolist(), strict=True))


def row_number(row: int, size: int) -> int:
    """Return a row number as an int, or say what is wrong with it."""
    try:
        number = operator.index(row)
    except TypeError:
        number = None
    if number is None or isinstance(row, bool):
        raise TypeError(f"a row must be an int, got {row!r}")
    if not 0 <= number < size:
        raise IndexError(f"row {number} is outside a table of {size} rows")
    return number


def check_table(vectors: Tensor) -> None:
    if vectors.dim() != 2 or not vectors.is_floating_point():
        found = f"{vectors.dtype} {tuple(vectors.shape)}"
        raise ValueError(f"vectors must be floating-point [V, d], got {found}")
