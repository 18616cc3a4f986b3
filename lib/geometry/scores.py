"""Scores of public test sets, each with the share of the set that it covers."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_finite, check_size, check_vectors
from lib.geometry.analogies import analogy_ranks
from lib.geometry.neighbours import cosine_similarity

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
        ValueError: a question that does not have four words, a row that is not finite,
            or `k` below 1.

    Source:
        The test set is that of Mikolov et al. 2013, questions-words; compare gensim
        4.4.0, `KeyedVectors.evaluate_word_analogies`.

    Example:
        >>> vectors = torch.tensor([[0.0, 1], [0, -1], [1, 1], [1, -1]])
        >>> index = {"man": 0, "woman": 1, "king": 2, "queen": 3}
        >>> royal = [("man", "woman", "king", "queen"), ("man", "woman", "duke", "?")]
        >>> total, _ = evaluate_analogies(vectors, index, {"royal": royal})
        >>> print(total)
        1.000 on 1 of 2 (50.0 %)
    """
    k = check_size("k", k)
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
        ValueError: the lists are not of one length, or one holds NaN, which has no rank
            (an infinity has).

    Source:
        Spearman 1904; compare `scipy.stats.spearmanr`.

    Example:
        >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 100.0, 10.0]))
        0.5
    """
    if x.dim() != 1 or x.shape != y.shape:
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        raise ValueError(f"x and y must be two lists of one length, got {shapes}")
    for name, values in (("x", x), ("y", y)):
        check_finite(name, values.where(values.isnan(), 0))
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

    Raises:
        ValueError: a row that is not finite, or a score that is NaN.

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
    check_vectors("vectors", vectors)
    pairs = list(pairs)
    people = torch.tensor([score for *_, score in pairs], dtype=torch.float64)
    check_finite("scores", people.where(people.isnan(), 0))
    known = [pair for pair in pairs if _is_known(pair[:2], index, len(vectors))]
    first = vectors[[index[word] for word, _, _ in known]]  # [n, d]
    second = vectors[[index[word] for _, word, _ in known]]  # [n, d]
    people = torch.tensor([score for *_, score in known], dtype=torch.float64)
    value = spearman(cosine_similarity(first, second), people)
    return Score(value, len(known), len(pairs))


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
