"""`lib.geometry` against faults found in other libraries, named by their case ids."""

import math

import numpy as np
import pytest
import torch

from lib.geometry import (
    analogy,
    analogy_ranks,
    association,
    cosine_similarity,
    evaluate_analogies,
    evaluate_similarity,
    hubness,
    k_occurrence,
    mean_cosine,
    most_similar,
    pca,
    random_pair_cosines,
    random_rotation,
    remove_common,
    spearman,
    weat,
)


def random_vectors(rows, width=12):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, width, generator=generator) + 1.5


PAIRS = [("w0", "w1", 3.0), ("w2", "w3", 2.0), ("w4", "w5", 1.0)]
INDEX = {f"w{row}": row for row in range(9)}
ONE, NINE = torch.ones(1, 4), torch.ones(9, 4)
QUESTIONS = {"all": [("w0", "w1", "w2", "w3")]}
SCORES = {
    "cosine_similarity": lambda x: cosine_similarity(x, x),
    "most_similar": lambda x: most_similar(x, 0, 3),
    "analogy": lambda x: analogy(x, 0, 1, 2, 3),
    "analogy_ranks": lambda x: analogy_ranks(x, torch.tensor([[0, 1, 2, 3]])),
    "evaluate_analogies": lambda x: evaluate_analogies(x, INDEX, QUESTIONS),
    "evaluate_similarity": lambda x: evaluate_similarity(x, INDEX, PAIRS),
    "random_pair_cosines": lambda x: random_pair_cosines(x, 5),
    "mean_cosine": mean_cosine,
    "remove_common": remove_common,
    "pca": pca,
    "k_occurrence": lambda x: k_occurrence(x, 2),
    "hubness": lambda x: hubness(x, 2),
    "association: words": lambda x: association(x, ONE, ONE),
    "weat: x": lambda x: weat(x, NINE, ONE, ONE),
    "weat: y": lambda x: weat(NINE, x, ONE, ONE),
    "weat: a": lambda x: weat(ONE, ONE, x, ONE),
    "weat: b": lambda x: weat(ONE, ONE, ONE, x),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("whole", [True, False])
def test_p8_a_row_that_is_not_finite_is_named(name, strange, whole):
    vectors = random_vectors(rows=9)[:, :4].contiguous()
    vectors[5, slice(None) if whole else 2] = strange
    with pytest.raises(ValueError, match=f"must be finite, row 5 holds {strange}"):
        SCORES[name](vectors)


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_p8_a_query_that_is_not_finite(strange):
    query = torch.ones(4)
    query[2] = strange
    with pytest.raises(ValueError, match=f"query .* place 2 holds {strange}"):
        most_similar(torch.ones(3, 4), query, 1)


def test_p8_vectors_of_nan_have_no_perfect_rank():
    with pytest.raises(ValueError, match="row 0 holds nan"):
        evaluate_analogies(torch.full((9, 4), math.nan), INDEX, QUESTIONS)


def test_p8_nan_has_no_rank_and_an_infinity_has():
    numbers = torch.tensor([1.0, 2.0, math.inf])
    assert spearman(numbers, torch.tensor([1.0, 2.0, 9.0])) == pytest.approx(1)
    for place, strange in ((0, [math.nan, 1, 2]), (2, [3, 1, math.nan])):
        pair = numbers, torch.tensor(strange)
        for x, y in (pair, pair[::-1]):
            with pytest.raises(ValueError, match=f"place {place} holds nan"):
                spearman(x, y)
    pairs = [*PAIRS[:2], ("w4", "unknown", math.nan)]
    with pytest.raises(ValueError, match=r"scores .* place 2 holds nan"):
        evaluate_similarity(random_vectors(rows=9), INDEX, pairs)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int8, torch.tensor])
def test_p26_numbers_of_numpy(kind):
    vectors = random_vectors(rows=9)
    one, three = kind(1), kind(3)
    found = most_similar(vectors, one, three, [one])
    assert found == most_similar(vectors, 1, 3, [1])
    found = analogy(vectors, kind(0), one, kind(2), three)
    assert found == analogy(vectors, 0, 1, 2, 3)
    assert torch.equal(k_occurrence(vectors, three), k_occurrence(vectors, 3))
    assert torch.equal(pca(vectors, one)[0], pca(vectors, 1)[0])
    assert torch.equal(remove_common(vectors, one), remove_common(vectors, 1))
    assert torch.equal(random_rotation(three, one), random_rotation(3, 1))
    found = random_pair_cosines(vectors, three, one)
    assert torch.equal(found, random_pair_cosines(vectors, 3, 1))
    sets = vectors[:4], vectors[4:8], vectors[:2], vectors[2:4]
    found = weat(*sets, partitions=kind(50), seed=one)
    assert found == weat(*sets, partitions=50, seed=1)


@pytest.mark.parametrize("wrong", [True, 1.0, "1", np.True_])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: most_similar(x, 0, n),
        lambda x, n: most_similar(x, n, 1),
        lambda x, n: most_similar(x, 0, 1, [n]),
        lambda x, n: analogy(x, n, 1, 2, 1),
        lambda x, n: evaluate_analogies(x, INDEX, {}, k=n),
        k_occurrence,
        hubness,
        pca,
        remove_common,
        random_pair_cosines,
        lambda x, n: random_pair_cosines(x, 2, n),
        lambda x, n: random_rotation(n),
        lambda x, n: random_rotation(2, n),
        lambda x, n: weat(x, x, x, x, partitions=n),
        lambda x, n: weat(x, x, x, x, partitions=9, seed=n),
    ],
)
def test_p26_what_is_no_integer_is_refused(call, wrong):
    with pytest.raises(TypeError, match="int"):
        call(random_vectors(rows=9), wrong)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_p10_rows_of_small_integers(dtype):
    vectors = random_vectors(rows=200)
    rows = torch.tensor([[0, 1, 2, 3], [120, 4, 5, 6]])
    found = analogy_ranks(vectors, rows.to(dtype))
    assert torch.equal(found, analogy_ranks(vectors, rows))


def test_p27_the_default_dtype_has_no_say():
    vectors = random_vectors(rows=60)
    people = [(f"w{i}", f"w{i + 1}", 5 + i / 1000) for i in range(8)]

    def found():
        return (
            evaluate_similarity(vectors, INDEX, people),
            weat(*vectors.view(4, 15, -1), partitions=500),
            mean_cosine(vectors),
            hubness(vectors),
            random_pair_cosines(vectors, 9).tolist(),
            random_rotation(3).tolist(),
            [x.tolist() for x in pca(vectors)],
        )

    expected = found()
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert found() == expected
        finally:
            torch.set_default_dtype(torch.float32)
