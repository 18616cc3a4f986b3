"""A probe for human bias in word vectors, and how far to trust it.

The test asks whether one set of words lies nearer to a set of attributes than another
set does. It measures these words in this text: a small effect is no proof that there
is no bias, and another choice of words can change its sign.
"""

import math
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_integer, check_size, check_vectors
from lib.geometry.neighbours import unit_rows


class Association(NamedTuple):
    """The outcome of a `weat`.

    Args:
        effect_size: difference of the mean associations of X and Y, in standard
            deviations of all of them; from -2 to 2.
        p_value: share of the partitions of X ∪ Y that give X at least this much.
        exact: whether every partition was counted, not a sample.
    """

    effect_size: float
    p_value: float
    exact: bool


def association(words: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return how much nearer each word is to A than to B, by mean cosine.

    Args:
        words: `[n, d]`.
        a: `[n_a, d]`, the vectors of the attributes A.
        b: `[n_b, d]`, the vectors of the attributes B.

    Returns:
        `[n]`, from -2 to 2.

    Raises:
        ValueError: an empty set, widths that differ, or a row that is not finite.

    Source:
        Caliskan, Bryson and Narayanan 2017, s(w, A, B).

    Example:
        >>> association(torch.eye(2), torch.tensor([[2.0, 0.0]]), torch.ones(1, 2))
        tensor([ 0.2929, -0.7071])
    """
    for name, vectors in (("words", words), ("a", a), ("b", b)):
        check_size(f"rows of {name}", len(check_vectors(name, vectors)))
    if not words.shape[1] == a.shape[1] == b.shape[1]:
        widths = words.shape[1], a.shape[1], b.shape[1]
        raise ValueError(f"words, a and b must have one width, got {widths}")
    words, a, b = unit_rows(words), unit_rows(a), unit_rows(b)
    return (words @ a.T).mean(1) - (words @ b.T).mean(1)


def weat(
    x: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    partitions: int = 100_000,
    seed: int = 0,
) -> Association:
    """Test whether X goes with A, and Y with B, more than a random split would.

    If X ∪ Y has no more than `partitions` equal halvings, all are counted (8 words a
    side: 12,870). Otherwise that many are drawn, and the observed one counts as one of
    them, so that p is never 0.

    Args:
        x: `[n, d]`, the vectors of the first set of words.
        y: `[n, d]`, the second set, of equal size.
        a: `[n_a, d]`, the first attributes.
        b: `[n_b, d]`, the second attributes.
        partitions: the most halvings to look at.
        seed: of the draw.

    Returns:
        Effect size, one-sided p-value, and whether p is exact. The effect size is 0 if
        no word differs from another.

    Raises:
        ValueError: an empty set, X and Y of different sizes, widths that differ, a row
            that is not finite, or `partitions` below 1.

    Source:
        Caliskan, Bryson and Narayanan 2017. The standard deviation divides by 2n - 1,
        as in May et al. 2019 (`sentbias/weat.py`); p counts ties, as there, and a
        sample is corrected as in Phipson and Smyth 2010.

    Example:
        >>> toward_a = torch.tensor([[1.0, 0.1], [1.0, 0.2], [1.0, 0.3]])
        >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> result = weat(toward_a, toward_a.flip(1), a, b)
        >>> round(result.effect_size, 2), result.p_value
        (1.81, 0.05)
    """
    partitions = check_size("partitions", partitions)
    x, y = check_vectors("x", x), check_vectors("y", y)
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} words, but y has {len(y)}")
    scores = association(torch.cat([x, y]), a, b).cpu().double()  # [2n]
    spread = scores.std()
    difference = scores[: len(x)].mean() - scores[len(x) :].mean()
    effect = (difference / spread).item() if spread > 0 else 0.0
    exact = math.comb(2 * len(x), len(x)) <= partitions
    halves = _halves_of(2 * len(x), partitions, check_integer("seed", seed))
    sums = scores[halves].sum(1)  # X's sum decides: the sum over X ∪ Y is fixed
    observed = scores[: len(x)].sum() - 1e-12 * scores.abs().sum()
    as_large = int((sums >= observed).sum())
    extra = 0 if exact else 1
    p_value = (as_large + extra) / (len(halves) + extra)
    return Association(effect, p_value, exact)


def _halves_of(size: int, count: int, seed: int) -> Tensor:
    """List all halves of `size` numbers, or draw `count` if there are more.

    Returns:
        int64 `[halves, size // 2]`.
    """
    if math.comb(size, size // 2) <= count:
        return torch.tensor(list(combinations(range(size), size // 2)))
    generator = torch.Generator().manual_seed(seed)
    keys = torch.rand(count, size, generator=generator, dtype=torch.float32)
    return keys.argsort(1)[:, : size // 2]
