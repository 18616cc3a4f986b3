"""Analogies as sums of vectors: a is to b as c is to what?"""

import math

import torch
from torch import Tensor

from lib.checks import check_ids, check_index, check_vectors
from lib.geometry.neighbours import CELLS_AT_ONCE, most_similar, unit_rows


def analogy(
    vectors: Tensor, a: int, b: int, c: int, k: int, exclude_inputs: bool = True
) -> list[tuple[int, float]]:
    """Answer "a is to b as c is to what?": the rows nearest to b − a + c.

    The three vectors are scaled to length 1 first, as in gensim.

    Args:
        vectors: `[V, d]`.
        a: row of the word to take away.
        b: row of the word that a stands to.
        c: row of the word to start from.
        k: number of rows wanted.
        exclude_inputs: never answer a, b or c. Without it the answer is mostly b or c.

    Returns:
        Pairs of row and cosine, best first.

    Raises:
        TypeError, IndexError, ValueError: see `most_similar`.

    Source:
        Mikolov, Yih and Zweig 2013 (the vector offset); Levy and Goldberg 2014,
        "Linguistic Regularities in Sparse and Explicit Word Representations" (3CosAdd).

    Example:
        >>> man, woman, king, queen = range(4)
        >>> vectors = torch.tensor([[0.0, 1], [0, -1], [1, 1], [1, -1]])
        >>> analogy(vectors, man, woman, king, k=1)[0][0] == queen
        True
    """
    check_vectors("vectors", vectors)
    rows = [check_index("row", row, len(vectors)) for row in (a, b, c)]
    start, end, other = unit_rows(vectors[rows])
    exclude = rows if exclude_inputs else ()
    return most_similar(vectors, end - start + other, k, exclude)


def analogy_ranks(vectors: Tensor, rows: Tensor, exclude_inputs: bool = True) -> Tensor:
    """Say at which place the expected answer of each analogy comes, 1 for the first.

    An answer that shares its cosine with others comes after them; one that is excluded
    comes last.

    Args:
        vectors: `[V, d]`.
        rows: integers `[Q, 4]`: a, b, c and the expected answer.
        exclude_inputs: see `analogy`.

    Returns:
        int64 `[Q]`.

    Raises:
        TypeError: `rows` hold no integers, or `vectors` are not floating point.
        ValueError: `rows` do not have four columns, or a vector is not finite.
        IndexError: a row is out of range.

    Example:
        >>> vectors = torch.tensor([[0.0, 1], [1, 1], [0, -1], [1, -1]])
        >>> analogy_ranks(vectors, torch.tensor([[0, 1, 2, 3]]))
        tensor([1])
    """
    check_vectors("vectors", vectors)
    rows = _check_questions(rows, len(vectors))
    units = unit_rows(vectors).contiguous()
    ranks = []
    for part in rows.to(units.device).split(max(1, CELLS_AT_ONCE // len(units))):
        a, b, c, _ = units[part].unbind(1)  # four of [q, d]
        scores = (b - a + c) @ units.T  # [q, V]
        if exclude_inputs:
            scores.scatter_(1, part[:, :3], -math.inf)
        ranks.append((scores >= scores.gather(1, part[:, 3:])).sum(1))
    return torch.cat(ranks)


def _check_questions(rows: Tensor, size: int) -> Tensor:
    rows = check_ids(rows, size, "row")
    if rows.dim() != 2 or rows.shape[1] != 4:
        raise ValueError(f"rows must be [questions, 4], got {tuple(rows.shape)}")
    return rows
