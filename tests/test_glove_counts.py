"""`lib.glove`: co-occurrence, PMI and the SVD of it, against plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.glove import cooccurrence, pmi, ppmi, svd_vectors

FP32 = 2.0**-23  # one unit in the last place of a float32 near 1


def slow_counts(sentences, vocab_size, window, symmetric=True):
    """Two plain loops over tokens, in float64."""
    table = np.zeros((vocab_size, vocab_size))
    for words in sentences:
        for right, later in enumerate(words):
            for left in range(max(0, right - window), right):
                table[words[left], later] += 1 / (right - left)
                if symmetric:
                    table[later, words[left]] += 1 / (right - left)
    return table


texts = st.lists(
    st.lists(st.integers(0, 4), min_size=0, max_size=12), min_size=1, max_size=5
).filter(lambda sentences: any(sentences))

count_tables = st.integers(1, 5).flatmap(
    lambda n: st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e6)), min_size=n, max_size=n),
        min_size=n,
        max_size=n,
    )
)


# Counting ---------------------------------------------------------------------


def test_counts_by_hand():
    counts = cooccurrence(torch.tensor([0, 1, 0, 2]), vocab_size=4, window=2)
    # 0-1 at distance 1 twice; 0-0 at distance 2, seen from both ends;
    # 1-2 at distance 2; 0-2 at distance 1; word 3 never.
    expected = [[1, 2, 1, 0], [2, 0, 0.5, 0], [1, 0.5, 0, 0], [0, 0, 0, 0]]
    assert counts.tolist() == expected
    assert counts.dtype == torch.float32


@settings(max_examples=60)
@given(texts, st.integers(1, 14), st.booleans(), st.booleans())
def test_counts_equal_two_python_loops(sentences, window, symmetric, sparse):
    flat = torch.tensor([word for words in sentences for word in words])
    lengths = torch.tensor([len(words) for words in sentences])
    counts = cooccurrence(flat, 5, window, symmetric, lengths=lengths, sparse=sparse)
    assert counts.is_sparse == sparse
    expected = slow_counts(sentences, 5, window, symmetric)
    assert np.allclose(counts.to_dense().numpy(), expected, rtol=FP32, atol=0)


def test_without_lengths_the_text_is_one_sentence():
    ids = torch.tensor([0, 1, 2, 0, 1])
    joined = cooccurrence(ids, 3, 2)
    split = cooccurrence(ids, 3, 2, lengths=torch.tensor([3, 2]))
    assert torch.equal(joined, cooccurrence(ids, 3, 2, lengths=torch.tensor([5])))
    assert joined[2, 0] == 1.5
    assert split[2, 0] == 0.5


def test_one_sided_counts_sum_to_the_symmetric_ones():
    ids = torch.randint(9, (300,), generator=torch.Generator().manual_seed(0))
    one_sided = cooccurrence(ids, 9, 4, symmetric=False)
    assert not torch.equal(one_sided, one_sided.T)
    both = cooccurrence(ids, 9, 4)
    assert torch.allclose(both, one_sided + one_sided.T, rtol=4 * FP32, atol=0)
    # The row is the word on the left, as in the released program.
    assert cooccurrence(torch.tensor([0, 1]), 2, 1, symmetric=False)[0, 1] == 1


def test_frequent_pairs_are_not_rounded_away():
    # A float32 sum of thirds drifts by 1e-4 over this text.
    ids = torch.zeros(200_000, dtype=torch.int64)
    counts = cooccurrence(ids, 1, 3, symmetric=False)
    exact = 199_999 + 199_998 / 2 + 199_997 / 3
    assert counts.item() == pytest.approx(exact, rel=FP32)


def test_counts_come_back_on_the_device_of_the_ids(device):
    ids = torch.tensor([0, 1, 1], device=device)
    counts = cooccurrence(ids, 2, 1)
    assert counts.device.type == device.type
    assert counts.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("ids", "vocab_size", "window", "error", "message"),
    [
        (torch.tensor([0, 5]), 5, 1, IndexError, "5"),
        (torch.tensor([0, -1]), 5, 1, IndexError, "-1"),
        (torch.tensor([0.0, 1.0]), 5, 1, TypeError, "float32"),
        (torch.tensor([True, False]), 5, 1, TypeError, "bool"),
        ("a string", 5, 1, TypeError, "str"),
        (torch.tensor([[0, 1]]), 5, 1, ValueError, r"\(1, 2\)"),
        (torch.tensor([], dtype=torch.int64), 5, 1, ValueError, "0 tokens"),
        (torch.tensor([0, 1]), 0, 1, ValueError, "vocab_size.* 0"),
        (torch.tensor([0, 1]), 5, 0, ValueError, "window.* 0"),
        (torch.tensor([0, 1]), 5, -3, ValueError, "window.* -3"),
        (torch.tensor([0, 1]), 5, 1.5, TypeError, "window.* 1.5"),
        (torch.tensor([0, 1]), 5, True, TypeError, "window.* True"),
    ],
)
def test_bad_texts(ids, vocab_size, window, error, message):
    with pytest.raises(error, match=message):
        cooccurrence(ids, vocab_size, window)


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([2, 2], ValueError, "sum to 4.* 3"),
        ([4, -1], ValueError, "-1"),
        ([1.0, 2.0], TypeError, "float"),
        ([[1, 2]], ValueError, r"\(1, 2\)"),
    ],
)
def test_bad_lengths(lengths, error, message):
    with pytest.raises(error, match=message):
        cooccurrence(torch.tensor([0, 1, 0]), 2, 1, lengths=torch.tensor(lengths))


# Pointwise mutual information -------------------------------------------------


@settings(max_examples=60)
@given(count_tables, st.integers(1, 5), st.booleans())
def test_pmi_equals_its_definition(table, negatives, sparse):
    counts = torch.tensor(table, dtype=torch.float64)
    given_counts = counts.to_sparse() if sparse else counts
    total = sum(map(sum, table))
    expected = np.zeros((len(table), len(table)))
    for i, row in enumerate(table):
        for j, x in enumerate(row):
            if x > 0:
                column = sum(other[j] for other in table)
                expected[i, j] = math.log(x * total / (sum(row) * column))
    found = pmi(given_counts)
    positive = ppmi(given_counts, negatives)
    assert found.is_sparse == positive.is_sparse == sparse
    assert np.allclose(found.to_dense().numpy(), expected, atol=1e-9)
    shifted = np.maximum(expected - math.log(negatives), 0) * (counts.numpy() > 0)
    assert np.allclose(positive.to_dense().numpy(), shifted, atol=1e-9)


def test_independent_words_carry_no_information():
    counts = torch.outer(torch.tensor([1.0, 2.0, 7.0]), torch.tensor([3.0, 5.0, 2.0]))
    assert torch.allclose(pmi(counts), torch.zeros(3, 3), atol=4 * FP32)


def test_words_never_seen_stay_finite():
    counts = torch.tensor([[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    # Two words that only ever meet each other: P(0, 1) = 1/2, P(0) = P(1) = 1/2.
    expected = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) * math.log(2)
    for found in (pmi(counts), ppmi(counts)):
        assert torch.allclose(found, expected)
    assert torch.equal(pmi(torch.zeros(2, 2)), torch.zeros(2, 2))


def test_ppmi_of_a_sparse_table_stores_positive_entries_alone():
    counts = torch.tensor([[9.0, 1.0], [1.0, 9.0]]).to_sparse()
    assert ppmi(counts).values().tolist() == pytest.approx([math.log(1.8)] * 2)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("function", [pmi, ppmi])
def test_counts_that_are_no_counts(function, bad):
    with pytest.raises(ValueError, match=str(bad)):
        function(torch.tensor([[1.0, bad], [0.0, 1.0]]))


@pytest.mark.parametrize("negatives", [0, -1, 0.5])
def test_shift_below_one_sample(negatives):
    with pytest.raises(ValueError, match=str(negatives)):
        ppmi(torch.ones(2, 2), negatives)


def low_rank_plus_noise(rows, columns):
    numbers = np.random.default_rng(0)
    matrix = numbers.normal(size=(rows, 6)) * [30, 20, 14, 9, 6, 4]
    matrix = matrix @ numbers.normal(size=(6, columns))
    return torch.from_numpy(matrix + 0.1 * numbers.normal(size=(rows, columns)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_svd_vectors_equal_the_full_decomposition(power, sparse):
    matrix = low_rank_plus_noise(280, 220)
    left, values, _ = np.linalg.svd(matrix.numpy(), full_matrices=False)
    expected = left[:, :5] * values[:5] ** power
    found = svd_vectors(matrix.to_sparse() if sparse else matrix, 5, power).numpy()
    signs = np.sign((found * expected).sum(0))
    assert np.allclose(found, expected * signs, atol=1e-8 * values[0])
    largest = np.abs(found).argmax(0)
    assert (found[largest, range(5)] > 0).all()


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_svd_of_a_matrix_of_low_rank(scale):
    numbers = np.random.default_rng(1)
    matrix = numbers.normal(size=(270, 2)) @ numbers.normal(size=(2, 250)) * scale
    matrix = torch.from_numpy(matrix)
    found = svd_vectors(matrix, 4, power=1.0)
    assert torch.allclose(found @ found.T, matrix @ matrix.T, atol=1e-9 * scale**2)
    assert found[:, 2:].abs().max() <= 1e-9 * scale


def test_svd_vectors_of_a_spectrum_that_falls_slowly():
    # As that of PPMI does: the wanted end hardly differs from the next.
    numbers = np.random.default_rng(2)
    left, right = (np.linalg.qr(numbers.normal(size=(300, 300)))[0] for _ in "ab")
    values = 100 / np.arange(1, 301) ** 0.4
    matrix = torch.from_numpy((left * values) @ right.T)
    found = svd_vectors(matrix, 40, power=1.0)
    expected = left[:, :40] * values[:40]
    gap = found.numpy() @ found.numpy().T - expected @ expected.T
    assert np.abs(gap).max() < 1e-6 * values[0] ** 2


def test_svd_vectors_of_the_whole_width():
    matrix = low_rank_plus_noise(7, 7)
    found = svd_vectors(matrix, 7, power=1.0)
    assert torch.allclose(found @ found.T, matrix @ matrix.T)


def test_svd_vectors_depend_on_the_seed_by_rounding_alone():
    matrix = low_rank_plus_noise(220, 240)
    state = torch.get_rng_state()
    first = svd_vectors(matrix, 4, seed=0)
    assert torch.equal(first, svd_vectors(matrix, 4, seed=0))
    assert torch.allclose(first, svd_vectors(matrix, 4, seed=1))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("dim", [0, -1, 4])
def test_svd_of_an_impossible_width(dim):
    with pytest.raises(ValueError, match=f"3, got {dim}"):
        svd_vectors(torch.ones(5, 3), dim)
