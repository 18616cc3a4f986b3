"""`lib.geometry`: neighbours, analogies and their scores, beside gensim and scipy."""

import gensim
import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.geometry import (
    Score,
    analogy,
    analogy_ranks,
    cosine_similarity,
    evaluate_analogies,
    evaluate_similarity,
    most_similar,
    spearman,
    unit_rows,
)

FP32 = 2.0**-23  # one unit in the last place of a float32 near 1


def random_vectors(rows=200, width=12, seed=0, common=1.5):
    """Vectors with a common direction, as real ones have."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=generator) + common


def in_gensim(vectors):
    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors([f"w{i}" for i in range(len(vectors))], vectors.numpy())
    return keyed


def rows_and_cosines(answers):
    """Translate gensim's answers to ours."""
    return [int(word[1:]) for word, _ in answers], [cosine for _, cosine in answers]


def assert_same(mine, theirs):
    rows, cosines = rows_and_cosines(theirs)
    assert [row for row, _ in mine] == rows
    assert [c for _, c in mine] == pytest.approx(cosines, abs=8 * FP32)


# Cosines ----------------------------------------------------------------------


def test_cosine_of_a_zero_vector_is_zero(device):
    zero, other = torch.zeros(3, device=device), torch.ones(3, device=device)
    assert cosine_similarity(zero, other).item() == 0
    assert cosine_similarity(zero, zero).item() == 0
    assert torch.equal(unit_rows(zero), zero)


def test_zero_vectors_give_no_nan_gradient():
    table = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    cosine_similarity(table[0], table[1]).backward()
    assert table.grad.isfinite().all()


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-20, 1e-8, 1, 1e20, 1e38])
def test_length_has_no_say_however_small_or_large(scale):
    x = torch.tensor([2.0, 1.0]) * scale
    expected = torch.tensor([2.0, 1.0]) / 5**0.5
    assert torch.allclose(unit_rows(x), expected, rtol=0, atol=2 * FP32)
    assert cosine_similarity(x, x).item() == pytest.approx(1)


@given(
    st.lists(st.tuples(*[st.floats(-100, 100, width=32)] * 3), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_cosine_equals_its_definition(rows, random):
    x = torch.tensor(rows, dtype=torch.float64)
    y = torch.tensor(random.sample(rows, len(rows)), dtype=torch.float64)
    for p, q, found in zip(x, y, cosine_similarity(x, y).tolist(), strict=True):
        lengths = np.linalg.norm(p) * np.linalg.norm(q)
        expected = float(p @ q) / lengths if lengths > 0 else 0
        assert found == pytest.approx(expected, abs=1e-12)
        assert -1 <= found <= 1


def test_half_precision_is_compared_in_float32():
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    assert cosine_similarity(x, x).item() == pytest.approx(1, abs=2 * FP32)


@pytest.mark.parametrize("shape", [(2,), (1, 3), (2, 3)])
def test_cosine_does_not_broadcast(shape):
    with pytest.raises(ValueError, match=r"\(3,\)"):
        cosine_similarity(torch.ones(3), torch.ones(shape))


# Neighbours -------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 7, 199])
@pytest.mark.parametrize("k", [1, 10, 199])
def test_neighbours_equal_gensims(row, k):
    vectors = random_vectors()
    theirs = in_gensim(vectors).most_similar(f"w{row}", topn=k)
    assert_same(most_similar(vectors, row, k, exclude=[row]), theirs)
    assert_same(most_similar(vectors, vectors[row] * 3, k, exclude=[row]), theirs)


def test_nothing_is_excluded_unless_named():
    vectors = random_vectors()
    (first, cosine), second, third = most_similar(vectors, 5, k=3)
    assert (first, cosine) == (5, pytest.approx(1))
    assert most_similar(vectors, 5, k=2, exclude=[5]) == [second, third]
    assert most_similar(vectors, 5, k=1, exclude={5, second[0]}) == [third]


@pytest.mark.parametrize("number", [np.int64(3), torch.tensor(3)])
def test_rows_may_be_any_integer(number):
    vectors = random_vectors()
    assert most_similar(vectors, number, 4) == most_similar(vectors, 3, 4)
    plain = most_similar(vectors, 9, 4, exclude=[3])
    assert most_similar(vectors, 9, 4, exclude=[number]) == plain


def test_equal_cosines_come_in_the_order_of_their_rows():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(50, 1)
    found = most_similar(vectors, 1, k=60)
    expected = [*range(1, 100, 2), *range(0, 20, 2)]
    assert [row for row, _ in found] == expected


def test_fewer_come_back_where_fewer_are_left():
    vectors = random_vectors(rows=4)
    assert len(most_similar(vectors, 0, k=10)) == 4
    assert len(most_similar(vectors, 0, k=10, exclude=[0, 1, 1])) == 2
    assert most_similar(vectors, 0, k=10, exclude=range(4)) == []


def test_zero_rows_are_neither_near_nor_far():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    assert most_similar(vectors, 0, k=3) == [(0, 1.0), (1, 0.0), (2, -1.0)]
    assert most_similar(vectors, 1, k=3) == [(0, 0.0), (1, 0.0), (2, 0.0)]


def test_neighbours_on_every_device(device):
    vectors = random_vectors()
    mine = most_similar(vectors.to(device), 3, 5)
    plain = most_similar(vectors, 3, 5)
    assert [row for row, _ in mine] == [row for row, _ in plain]


def test_the_vectors_are_left_as_they_are():
    vectors = random_vectors(rows=5)
    before = vectors.clone()
    most_similar(vectors, 0, k=2, exclude=[0, 1])
    assert torch.equal(vectors, before)


@pytest.mark.parametrize(
    ("query", "k", "exclude", "error", "message"),
    [
        (5, 1, (), IndexError, "5.* 5 rows"),
        (-1, 1, (), IndexError, "-1.* 5 rows"),
        (0, 1, [9], IndexError, "9.* 5 rows"),
        ("king", 1, (), TypeError, "king"),
        (0, 1, ["king"], TypeError, "king"),
        (1.0, 1, (), TypeError, r"1\.0"),
        (True, 1, (), TypeError, "True"),
        (torch.ones(3), 1, (), ValueError, r"\(4,\).*\(3,\)"),
        (torch.ones(1, 4), 1, (), ValueError, r"\(4,\).*\(1, 4\)"),
        (0, 0, (), ValueError, "k .* 0"),
        (torch.full((4,), torch.nan), 1, (), ValueError, "query .* place 0 .* nan"),
    ],
)
def test_bad_questions(query, k, exclude, error, message):
    with pytest.raises(error, match=message):
        most_similar(torch.ones(5, 4), query, k, exclude)


@pytest.mark.parametrize(
    ("vectors", "error", "message"),
    [
        (torch.ones(4), ValueError, r"vectors must be \[V, d\], got \[4\]"),
        (torch.ones(4, 4).long(), TypeError, r"floating point, got torch\.int64"),
    ],
)
def test_tables_that_are_no_tables(vectors, error, message):
    with pytest.raises(error, match=message):
        most_similar(vectors, 0, 1)


# Analogies --------------------------------------------------------------------


@settings(max_examples=30)
@given(st.permutations(range(40)), st.integers(1, 8))
def test_analogies_equal_gensims(order, k):
    vectors = random_vectors(rows=40)
    a, b, c = order[:3]
    theirs = in_gensim(vectors).most_similar([f"w{b}", f"w{c}"], [f"w{a}"], topn=k)
    assert_same(analogy(vectors, a, b, c, k), theirs)


def test_kept_inputs_take_part():
    vectors = random_vectors(rows=40)
    units = vectors / vectors.norm(dim=1, keepdim=True)
    offset = units[1] - units[0] + units[2]
    cosines = units @ (offset / offset.norm())
    order = cosines.argsort(descending=True)[:5]
    found = analogy(vectors, 0, 1, 2, k=5, exclude_inputs=False)
    assert [row for row, _ in found] == order.tolist()
    assert [c for _, c in found] == pytest.approx(cosines[order].tolist(), abs=1e-6)
    assert {1, 2} & set(order.tolist())
    without = analogy(vectors, 0, 1, 2, k=40)
    assert not {0, 1, 2} & {row for row, _ in without}
    assert len(without) == 37


def test_length_has_no_say_in_an_analogy():
    vectors = random_vectors(rows=40)
    lengths = torch.linspace(0.1, 9, 40)[:, None]
    rows = [row for row, _ in analogy(vectors, 0, 1, 2, k=9)]
    assert [row for row, _ in analogy(vectors * lengths, 0, 1, 2, k=9)] == rows


@pytest.mark.parametrize("rows", [(0, 1, 40), (0, -1, 2), (99, 1, 2)])
def test_analogies_with_rows_that_do_not_exist(rows):
    with pytest.raises(IndexError, match="40 rows"):
        analogy(random_vectors(rows=40), *rows, k=1)


@pytest.mark.parametrize("exclude_inputs", [True, False])
def test_ranks_equal_places_in_the_full_list(device, exclude_inputs):
    vectors = random_vectors(rows=30)
    generator = torch.Generator().manual_seed(0)
    rows = torch.stack([torch.randperm(30, generator=generator)[:4] for _ in range(50)])
    found = analogy_ranks(vectors.to(device), rows, exclude_inputs)
    expected = []
    for a, b, c, want in rows.tolist():
        answers = analogy(vectors, a, b, c, 30, exclude_inputs)
        expected.append([row for row, _ in answers].index(want) + 1)
    assert found.tolist() == expected


def test_ranks_in_many_parts_are_the_same(monkeypatch):
    vectors = random_vectors(rows=30)
    rows = torch.arange(28).view(7, 4)
    whole = analogy_ranks(vectors, rows)
    monkeypatch.setattr("lib.geometry.analogies.CELLS_AT_ONCE", 60)
    assert torch.equal(analogy_ranks(vectors, rows), whole)


def test_a_tie_is_no_answer():
    rows = torch.tensor([[0, 1, 2, 3]])
    assert analogy_ranks(torch.zeros(9, 4), rows, exclude_inputs=False).item() == 9
    twins = torch.tensor([[0.0, 1], [1, 1], [0, -1], [1, -1], [1, -1]])
    assert analogy_ranks(twins, rows).item() == 2


def test_an_excluded_answer_comes_last():
    rows = torch.tensor([[0, 1, 2, 2]])
    assert analogy_ranks(random_vectors(rows=9), rows).item() == 9


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.tensor([[0, 1, 2, 9]]), IndexError, "9.* 9 rows"),
        (torch.tensor([[0, -2, 2, 3]]), IndexError, "-2.* 9 rows"),
        (torch.tensor([[0, 1, 2]]), ValueError, r"\(1, 3\)"),
        (torch.tensor([0, 1, 2, 3]), ValueError, r"\(4,\)"),
        (torch.tensor([[0.0, 1, 2, 3]]), TypeError, "float32"),
    ],
)
def test_bad_rows_of_questions(rows, error, message):
    with pytest.raises(error, match=message):
        analogy_ranks(random_vectors(rows=9), rows)


# Scores -----------------------------------------------------------------------


def write_questions(path, sections):
    lines = []
    for name, questions in sections.items():
        lines += [f": {name}", *(" ".join(question) for question in questions)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_analogy_scores_equal_gensims(tmp_path):
    # Few words in few dimensions, so that some answers are right by chance.
    vectors = random_vectors(rows=12, width=3)
    index = {f"w{i}": i for i in range(12)}
    random = np.random.default_rng(0)
    # Words w12 to w14 are unknown.
    drawn = [random.permutation(15)[:4] for _ in range(600)]
    questions = [tuple(f"w{i}" for i in rows) for rows in drawn]
    sections = {"first": questions[:200], "second": questions[200:]}
    total, scores = evaluate_analogies(vectors, index, sections)
    path = write_questions(tmp_path / "questions.txt", sections)
    _, theirs = in_gensim(vectors).evaluate_word_analogies(path)
    for mine, section in zip([*scores.values(), total], theirs, strict=True):
        right, wrong = len(section["correct"]), len(section["incorrect"])
        assert mine.covered == right + wrong
        assert mine.value == pytest.approx(right / (right + wrong))
        assert 0 < right < wrong
    assert list(scores) == ["first", "second"]
    assert (total.total, scores["first"].total) == (600, 200)


def test_an_answer_among_the_first_k():
    vectors = random_vectors(rows=12, width=3)
    index = {f"w{i}": i for i in range(12)}
    questions = {"all": [(f"w{i}", "w1", "w2", "w3") for i in range(4, 12)]}
    values = [evaluate_analogies(vectors, index, questions, k)[0].value for k in (1, 9)]
    assert values[0] < values[1] == 1


def test_words_beyond_the_table_are_unknown():
    vectors = random_vectors(rows=12)
    index = {f"w{i}": i for i in range(12)}
    questions = {"all": [("w0", "w1", "w2", "w3"), ("w0", "w1", "w2", "w11")]}
    total, _ = evaluate_analogies(vectors[:11], index, questions)
    assert (total.covered, total.total, total.coverage) == (1, 2, 0.5)
    score = evaluate_similarity(vectors[:2], index, [("w0", "w1", 1), ("w0", "w2", 2)])
    assert (score.covered, score.total) == (1, 2)


def test_nothing_covered_is_no_score():
    vectors = random_vectors(rows=3)
    total, scores = evaluate_analogies(vectors, {}, {"s": [("a", "b", "c", "d")]})
    similarity = evaluate_similarity(vectors, {}, [("a", "b", 1.0)])
    for score in (total, scores["s"], similarity):
        assert np.isnan(score.value)
        assert (score.covered, score.total, score.coverage) == (0, 1, 0)
    assert evaluate_analogies(vectors, {}, {})[0].coverage == 0


def test_a_question_of_three_words():
    with pytest.raises(ValueError, match="'c'"):
        evaluate_analogies(random_vectors(), {}, {"s": [("a", "b", "c")]})


def test_similarity_score_equals_gensims():
    # People's scores for real words, on vectors that know nothing.
    folder = f"{gensim.__path__[0]}/test/test_data"
    path = f"{folder}/wordsim353.tsv"
    with open(path, encoding="utf-8") as file:
        lines = [line.split("\t") for line in file if not line.startswith("#")]
    pairs = [(a.lower(), b.lower(), float(score)) for a, b, score in lines]
    words = sorted({word for a, b, _ in pairs for word in (a, b)})[::2]
    vectors = random_vectors(rows=len(words))
    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(words, vectors.numpy())
    _, theirs, unknown = keyed.evaluate_word_pairs(path)
    index = {word: row for row, word in enumerate(words)}
    mine = evaluate_similarity(vectors, index, pairs)
    assert mine.value == pytest.approx(theirs.statistic, abs=1e-9)
    assert 100 * (1 - mine.coverage) == pytest.approx(unknown)
    assert 50 < mine.covered < mine.total == 353


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2))
def test_spearman_equals_scipys(pairs):
    x, y = np.array(pairs, dtype=float).T
    mine = spearman(torch.from_numpy(x), torch.from_numpy(y))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan(mine)
    else:
        assert mine == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_spearman_of_lists_that_do_not_match():
    with pytest.raises(ValueError, match=r"\(3,\).*\(1,\)"):
        spearman(torch.ones(3), torch.ones(1))


def test_a_score_reads_well():
    assert str(Score(0.4567, 9_713, 19_544)) == "0.457 on 9,713 of 19,544 (49.7 %)"
