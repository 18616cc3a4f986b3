"""Chance in word2vec: which words are thinned out, and which are drawn as noise."""

import numpy as np
import torch
from torch import Tensor

from lib.checks import check_ids, check_size, number

GRAIN = 2**40  # noise is drawn in whole grains, which makes the drawing exact


def keep_probability(
    counts: Tensor, t: float = 1e-3, rule: str = "word2vec.c"
) -> Tensor:
    """Say with which probability an occurrence of each word stays in the text.

    With f the word's share of the text, the paper keeps √(t / f), and the code that
    was published with it, like gensim, √(t / f) + t / f; both at most 1.

    Args:
        counts: occurrences `[V]`; a word with none is kept.
        t: the share from which words are thinned out: above t by the paper's rule,
            above 2.618 · t, which is ((1 + √5) / 2)² · t, by that of word2vec.c.
        rule: "word2vec.c" or "paper".

    Returns:
        float32 `[V]`.

    Raises:
        TypeError: counts that are not real numbers.
        ValueError: counts that are negative, not finite, all zero or not `[V]`; t not
            above 0; another rule.

    Source: Mikolov et al. 2013, arXiv:1310.4546, equation 5; word2vec.c, variable
        `ran`; gensim 4.4.0, `sample_int`.

    Example:
        >>> keep_probability(torch.tensor([1, 99]), t=1e-3)[0]
        tensor(0.4162)
        >>> keep_probability(torch.tensor([1, 99]), t=1e-3, rule="paper")[0]
        tensor(0.3162)
    """
    if rule not in ("word2vec.c", "paper"):
        raise ValueError(f"unknown rule {rule!r}, expected 'word2vec.c' or 'paper'")
    counts = _as_tensor(counts)
    exact = _check_weights(counts, "count")
    t = number("t", t, above=0)
    ratio = t * exact.sum() / exact  # t / f, infinite for a word that never occurs
    kept = ratio.sqrt() if rule == "paper" else ratio.sqrt() + ratio
    return kept.clamp(max=1).float().to(counts.device)


def noise_distribution(counts: Tensor, power: float = 0.75) -> Tensor:
    """Turn counts into the distribution that negatives are drawn from: count^power.

    Args:
        counts: occurrences `[V]`; a word with none is never drawn.
        power: 1 draws words as the text does, 0 all alike.

    Returns:
        float32 `[V]`, which sums to 1.

    Raises:
        TypeError: counts that are not real numbers.
        ValueError: counts that are negative, not finite, all zero or not `[V]`; power
            negative or not finite.

    Source: Mikolov et al. 2013, arXiv:1310.4546, section 2.2.

    Example:
        >>> noise_distribution(torch.tensor([16, 0, 1]))
        tensor([0.8889, 0.0000, 0.1111])
    """
    power = number("power", power, at_least=0)
    counts = _as_tensor(counts)
    exact = _check_weights(counts, "count")
    weight = exact.pow(power).where(exact > 0, 0)
    return (weight / weight.sum()).float().to(counts.device)


def sample_negatives(
    noise: Tensor, positives: Tensor, k: int, generator: torch.Generator | None = None
) -> Tensor:
    """Draw k noise words for each positive, never the positive itself.

    The positive's slice is cut out of the range that is drawn from, and what lies
    behind it moves up: one draw each, distributed as if all clashes were redrawn.

    Args:
        noise: weights `[V]`, such as `noise_distribution` gives.
        positives: integers `[...]`.
        k: negatives of each positive.
        generator: the source of chance; torch's own without one.

    Returns:
        int64 `[..., k]`, on the device of the positives.

    Raises:
        TypeError: positives that are not integers.
        IndexError: a positive outside the noise.
        ValueError: k below 1; weights as for `noise_distribution`; a positive that
            holds all the weight, which leaves nothing to draw.

    Source: Goldberg and Levy 2014, arXiv:1402.3722, equation 4, for what is drawn.

    Example:
        >>> noise = torch.tensor([0.5, 0.0, 0.5])
        >>> sample_negatives(noise, torch.tensor([0, 2]), k=3)
        tensor([[2, 2, 2],
                [0, 0, 0]])
    """
    k = check_size("k", k)
    ends = noise_ends(noise).to(positives.device)
    positives = check_ids(positives, len(ends), "positive")
    return draw_others(ends, positives, k, generator)


def noise_ends(noise: Tensor) -> Tensor:
    """Give each word a slice of whole grains by its weight, and return where it ends.

    Args:
        noise: weights `[V]`; a word with any weight has a grain at least.

    Returns:
        int64 `[V]` on the CPU, ascending; word i owns the numbers from the end of
        word i - 1 up to its own, which is excluded.
    """
    exact = _check_weights(_as_tensor(noise), "noise weight")
    grains = (exact / exact.sum() * GRAIN).round().long()
    return grains.where(exact == 0, grains.clamp(min=1)).cumsum(0)


def draw_others(
    ends: Tensor, positives: Tensor, k: int, generator: torch.Generator | None = None
) -> Tensor:
    """Do the work of `sample_negatives`, with the slices of `noise_ends`."""
    end = ends[positives]  # [...]
    own = torch.diff(ends, prepend=ends.new_zeros(1))[positives]
    rest = ends[-1] - own
    if not rest.all():
        word = int(positives[rest == 0][0])
        raise ValueError(f"word {word} has all the noise weight, no negative is left")
    device = positives.device if generator is None else generator.device
    draw = torch.randint(
        2**62, (*positives.shape, k), generator=generator, device=device
    )
    place = draw.to(positives.device) % rest[..., None]  # [..., k]
    behind = place >= (end - own)[..., None]
    return torch.searchsorted(ends, place + own[..., None] * behind, right=True)


def _as_tensor(weights: Tensor) -> Tensor:
    """Take lists as well, in NumPy's dtypes: torch would round them to its default."""
    return weights if isinstance(weights, Tensor) else torch.tensor(np.array(weights))


def _check_weights(weights: Tensor, what: str) -> Tensor:
    """Check weights `[V]` and return them in float64 on the CPU."""
    if weights.dtype is torch.bool or weights.is_complex():
        raise TypeError(f"{what}s must be real numbers, got {weights.dtype}")
    if weights.dim() != 1 or not len(weights):
        raise ValueError(f"{what}s must have shape (V,), got {tuple(weights.shape)}")
    exact = weights.cpu().double()
    strange = exact[~(exact.isfinite() & (exact >= 0))]
    if len(strange):
        raise ValueError(f"{what} {strange[0]:g} is negative or not finite")
    if not exact.any():
        raise ValueError(f"all {len(exact)} {what}s are zero")
    return exact
