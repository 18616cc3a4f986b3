"""`lib.geometry`: the association test against loops, and on published vectors."""

from itertools import combinations

import numpy as np
import pytest
import torch

from lib.geometry import association, weat
from lib.glove import load_glove_6b


def cosine(p, q):
    return float(p @ q / np.sqrt((p @ p) * (q @ q)))


def slow_association(word, a, b):
    near_a = [cosine(word, other) for other in a]
    near_b = [cosine(word, other) for other in b]
    return sum(near_a) / len(near_a) - sum(near_b) / len(near_b)


def slow_weat(x, y, a, b):
    """Effect size and exact p-value, over every halving, in plain Python."""
    scores = [slow_association(word, a, b) for word in [*x, *y]]
    n = len(x)
    mean = sum(scores) / (2 * n)
    deviation = (sum((s - mean) ** 2 for s in scores) / (2 * n - 1)) ** 0.5
    effect = (sum(scores[:n]) / n - sum(scores[n:]) / n) / deviation
    larger, halvings = 0, 0
    observed = sum(scores[:n]) - sum(scores[n:])
    for half in combinations(range(2 * n), n):
        inside = sum(scores[i] for i in half)
        outside = sum(scores[i] for i in range(2 * n) if i not in half)
        larger += inside - outside >= observed - 1e-9
        halvings += 1
    return effect, larger / halvings


def random_sets(n, shift, seed=0, width=6):
    generator = torch.Generator().manual_seed(seed)
    x, y, a, b = torch.randn(4, n, width, generator=generator).double()
    direction = torch.zeros(width).double()
    direction[0] = shift
    return x + direction, y - direction, a + direction, b[:-1] - direction


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.4, 2.0])
def test_effect_and_exact_p_equal_plain_loops(device, shift):
    sets = random_sets(4, shift)
    effect, p_value = slow_weat(*(words.numpy() for words in sets))
    found = weat(*(words.float().to(device) for words in sets))
    assert found.exact
    assert found.effect_size == pytest.approx(effect, abs=1e-5)
    assert found.p_value == pytest.approx(p_value)


def test_association_equals_plain_loops():
    words, _, a, b = random_sets(5, 0.3)
    expected = [slow_association(w, a.numpy(), b.numpy()) for w in words.numpy()]
    assert association(words, a, b).tolist() == pytest.approx(expected)


def test_a_sample_agrees_with_the_exact_p():
    sets = random_sets(5, 0.15)
    exact = weat(*sets)
    sampled = weat(*sets, partitions=251)
    again = weat(*sets, partitions=251)
    other = weat(*sets, partitions=251, seed=1)
    assert exact.exact
    assert not sampled.exact
    assert 0.02 < exact.p_value < 0.98
    assert sampled == again
    error = (exact.p_value * (1 - exact.p_value) / 251) ** 0.5
    for result in (sampled, other):
        assert abs(result.p_value - exact.p_value) < 4 * error + 1 / 251
    assert sampled.effect_size == exact.effect_size


def test_a_sampled_p_is_never_zero():
    sets = random_sets(12, 9.0)
    result = weat(*sets, partitions=99)
    assert result.p_value == pytest.approx(1 / 100)
    assert not result.exact


def test_swapping_the_sets_turns_the_sign():
    x, y, a, b = random_sets(4, 0.4)
    effect = weat(x, y, a, b).effect_size
    assert weat(y, x, a, b).effect_size == pytest.approx(-effect)
    assert weat(x, y, b, a).effect_size == pytest.approx(-effect)
    assert -2 <= effect <= 2


def test_words_that_do_not_differ_show_no_effect():
    same = torch.ones(3, 4)
    assert weat(same, same, same, -same) == (0.0, 1.0, True)


def test_words_without_a_direction_do_not_matter():
    zero = torch.zeros(2, 3)
    assert association(zero, torch.eye(3), -torch.eye(3)).tolist() == [0, 0]


def test_flowers_are_pleasanter_than_insects():
    # Words of the first test of Caliskan et al. 2017, eight of each set.
    words, vectors = load_glove_6b()
    row = {word: i for i, word in enumerate(words)}
    sets = (
        "clover poppy marigold iris orchid rose daisy lilac",
        "ant caterpillar flea locust spider wasp cockroach moth",
        "caress freedom health love peace cheer friend heaven",
        "abuse crash filth murder sickness accident death grief",
    )
    x, y, a, b = (vectors[[row[word] for word in s.split()]] for s in sets)
    result = weat(x, y, a, b)
    effect, p_value = slow_weat(*(s.numpy().astype(np.float64) for s in (x, y, a, b)))
    assert result.exact
    assert result.effect_size == pytest.approx(effect, abs=1e-5)
    assert result.p_value == pytest.approx(p_value)
    assert result.effect_size > 1
    assert result.p_value < 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.ones(2, 4)}, "2 words.* 3"),
        ({"x": torch.ones(0, 4), "y": torch.ones(0, 4)}, "at least 1, got 0"),
        ({"a": torch.ones(0, 4)}, "rows of a .* got 0"),
        ({"b": torch.ones(2, 5)}, "5"),
        ({"b": torch.ones(4)}, r"b .*\[4\]"),
        ({"partitions": 0}, "partitions.* 0"),
    ],
)
def test_sets_that_cannot_be_compared(change, message):
    plain = {name: torch.ones(3, 4) for name in "xyab"}
    with pytest.raises(ValueError, match=message):
        weat(**{**plain, **change})
