"""What directions mean: neighbours, analogies, and scores that say what they cover.

Vectors are float `[V, d]`, one row a word; words are row numbers. A row of zeros has
no direction: its cosine with anything is 0.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

CELLS_AT_ONCE = 2**22  # numbers in the largest block of scores held at once
Word = str
Question = tuple[Word, Word, Word, Word]


class Score(NamedTuple):
    """A score and how much of its test the vocabulary covers.

    Args:
        value: the score on the items covered, NaN if there is nothing to score.
        covered: items whose words all have a row.
        total: items in the test.

    Example:
        >>> print(Score(0.75, covered=3, total=4))
        0.750 on 3 of 4 (75.0 %)
    """

    value: float
    covered: int
    total: int

    @property
    def coverage(self) -> float:
        """The covered share, from 0 to 1; 0 for an empty test."""
        return self.covered / max(self.total, 1)

    def __str__(self) -> str:
        share = f"{self.covered:,} of {self.total:,} ({100 * self.coverage:.1f} %)"
        return f"{self.value:.3f} on {share}"


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
    _check_table(vectors)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if not isinstance(query, Tensor) or query.dim() == 0:
        query = vectors[_row(query, len(vectors))]
    if query.shape != vectors.shape[1:]:
        width = vectors.shape[1]
        raise ValueError(f"a query must be ({width},), got {tuple(query.shape)}")
    left_out = sorted({_row(row, len(vectors)) for row in exclude})
    scores = unit_rows(vectors) @ unit_rows(query)  # [V]
    scores[left_out] = -math.inf
    return _best(scores, min(k, len(vectors) - len(left_out)))


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
        >>> man, king, woman, queen = range(4)
        >>> vectors = torch.tensor([[0.0, 1], [1, 1], [0, -1], [1, -1]])
        >>> analogy(vectors, man, king, woman, k=1)[0][0] == queen
        True
    """
    _check_table(vectors)
    rows = [_row(row, len(vectors)) for row in (a, b, c)]
    start, end, other = unit_rows(vectors[rows])
    exclude = rows if exclude_inputs else ()
    return most_similar(vectors, end - start + other, k, exclude)


def analogy_ranks(vectors: Tensor, rows: Tensor, exclude_inputs: bool = True) -> Tensor:
    """Say at which place the expected answer of each analogy comes, 1 for the first.

    An answer that shares its cosine with others comes after them; one that is excluded
    comes last.

    Args:
        vectors: `[V, d]`.
        rows: int64 `[Q, 4]`: a, b, c and the expected answer.
        exclude_inputs: see `analogy`.

    Returns:
        int64 `[Q]`.

    Raises:
        TypeError: `rows` hold no integers.
        ValueError: `rows` do not have four columns.
        IndexError: a row is out of range.

    Example:
        >>> vectors = torch.tensor([[0.0, 1], [1, 1], [0, -1], [1, -1]])
        >>> analogy_ranks(vectors, torch.tensor([[0, 1, 2, 3]]))
        tensor([1])
    """
    _check_table(vectors)
    _check_questions(rows, len(vectors))
    units = unit_rows(vectors).contiguous()
    ranks = []
    for part in rows.to(units.device).split(max(1, CELLS_AT_ONCE // len(units))):
        a, b, c, _ = units[part].unbind(1)  # four of [q, d]
        scores = (b - a + c) @ units.T  # [q, V]
        if exclude_inputs:
            scores.scatter_(1, part[:, :3], -math.inf)
        ranks.append((scores >= scores.gather(1, part[:, 3:])).sum(1))
    return torch.cat(ranks)


def evaluate_analogies(
    vectors: Tensor,
    index: Mapping[Word, int],
    sections: Mapping[str, Iterable[Question]],
    k: int = 1,
    exclude_inputs: bool = True,
) -> tuple[Score, dict[str, Score]]:
    """Score a set of analogy questions, with the share of them that can be asked.

    Args:
        vectors: `[V, d]`. Rows from V on count as unknown, so `vectors[:30_000]` asks
            about the 30,000 most frequent words.
        index: row of each word.
        sections: name → questions, each of four words.
        k: an answer among the first k is right.
        exclude_inputs: see `analogy`.

    Returns:
        The score of all questions, and the score of each section.

    Raises:
        ValueError: a question that does not have four words.

    Source:
        The test set is that of Mikolov et al. 2013, questions-words; compare gensim
        4.4.0, `KeyedVectors.evaluate_word_analogies`.

    Example:
        >>> vectors = torch.tensor([[0.0, 1], [1, 1], [0, -1], [1, -1]])
        >>> index = {"man": 0, "king": 1, "woman": 2, "queen": 3}
        >>> royal = [("man", "king", "woman", "queen"), ("man", "duke", "woman", "?")]
        >>> total, _ = evaluate_analogies(vectors, index, {"royal": royal})
        >>> print(total)
        1.000 on 1 of 2 (50.0 %)
    """
    sections = {name: list(questions) for name, questions in sections.items()}
    known = [_rows_of(part, index, len(vectors)) for part in sections.values()]
    rows = torch.tensor([row for part in known for row in part], dtype=torch.int64)
    rows = rows.view(-1, 4)  # [Q, 4]
    right = (analogy_ranks(vectors, rows, exclude_inputs) <= k).double().cpu()
    parts = right.split([len(part) for part in known])
    scores = {
        name: Score(part.mean().item(), len(part), len(questions))
        for (name, questions), part in zip(sections.items(), parts, strict=True)
    }
    asked = sum(map(len, sections.values()))
    return Score(right.mean().item(), len(right), asked), scores


def spearman(x: Tensor, y: Tensor) -> float:
    """Correlate the ranks of two lists of numbers; equal numbers share a mean rank.

    Args:
        x: `[n]`.
        y: `[n]`.

    Returns:
        From -1 to 1; NaN if either list is constant or n is below 2.

    Raises:
        ValueError: the lists are not of one length.

    Source:
        Spearman 1904; compare `scipy.stats.spearmanr`.

    Example:
        >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 100.0, 10.0]))
        0.5
    """
    if x.dim() != 1 or x.shape != y.shape:
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise ValueError(f"x and y must be two lists of one length, got {shapes}")
    p, q = (_mean_ranks(values.cpu()) for values in (x, y))
    p, q = p - p.mean(), q - q.mean()
    return (p @ q / (p @ p * (q @ q)).sqrt()).item()


def evaluate_similarity(
    vectors: Tensor,
    index: Mapping[Word, int],
    pairs: Iterable[tuple[Word, Word, float]],
) -> Score:
    """Correlate cosines with people's scores, with the share of pairs that have both.

    Args:
        vectors: `[V, d]`; rows from V on count as unknown.
        index: row of each word.
        pairs: two words and how similar people find them.

    Returns:
        Spearman's correlation on the pairs covered.

    Source:
        Finkelstein et al. 2002 (WordSim-353), Hill et al. 2015 (SimLex-999); compare
        gensim 4.4.0, `KeyedVectors.evaluate_word_pairs`.

    Example:
        >>> vectors = torch.tensor([[1.0, 0], [1, 1], [0, 1]])
        >>> index = {"cat": 0, "dog": 1, "car": 2}
        >>> people = [("cat", "dog", 8.0), ("cat", "car", 1.0), ("cat", "bus", 1.0)]
        >>> print(evaluate_similarity(vectors, index, people))
        1.000 on 2 of 3 (66.7 %)
    """
    _check_table(vectors)
    pairs = list(pairs)
    known = [pair for pair in pairs if _is_known(pair[:2], index, len(vectors))]
    first = vectors[[index[word] for word, _, _ in known]]  # [n, d]
    second = vectors[[index[word] for _, word, _ in known]]  # [n, d]
    people = torch.tensor([float(score) for _, _, score in known])
    value = spearman(cosine_similarity(first, second), people)
    return Score(value, len(known), len(pairs))


def _best(scores: Tensor, k: int) -> list[tuple[int, float]]:
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


def _mean_ranks(values: Tensor) -> Tensor:
    """Rank numbers from 1; equal ones share the mean of their places. float64 `[n]`."""
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)
    last = sizes.cumsum(0)  # the place of the last of each group
    return (last - (sizes - 1) / 2).double()[group]


def _is_known(words: Iterable[Word], index: Mapping[Word, int], size: int) -> bool:
    return all(word in index and index[word] < size for word in words)


def _rows_of(
    questions: list[Question], index: Mapping[Word, int], size: int
) -> list[list[int]]:
    """Return the four rows of each question whose words all have one."""
    for question in questions:
        if len(question) != 4:
            raise ValueError(f"a question has 4 words, got {question!r}")
    known = [words for words in questions if _is_known(words, index, size)]
    return [[index[word] for word in words] for words in known]


def _row(row: int, size: int) -> int:
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


def _check_table(vectors: Tensor) -> None:
    if vectors.dim() != 2 or not vectors.is_floating_point():
        found = f"{vectors.dtype} {tuple(vectors.shape)}"
        raise ValueError(f"vectors must be floating-point [V, d], got {found}")


def _check_questions(rows: Tensor, size: int) -> None:
    if rows.dtype != torch.int64:
        raise TypeError(f"rows must be int64, got {rows.dtype}")
    if rows.dim() != 2 or rows.shape[1] != 4:
        raise ValueError(f"rows must be [questions, 4], got {tuple(rows.shape)}")
    wrong = rows[(rows < 0) | (rows >= size)]
    if len(wrong):
        raise IndexError(f"row {wrong[0].item()} is outside a table of {size} rows")
