"""`lib.word2vec`: pairs, sampling and loss, against slow loops and known numbers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.word2vec import (
    CBOW,
    SkipGram,
    cbow_examples,
    keep_probability,
    noise_distribution,
    sample_negatives,
    sgns_loss,
    skipgram_pairs,
)
from lib.word2vec.noise import draw_others

sentences = st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=6)


def slow_neighbours(sentence, place, window):
    around = range(place - window, place + window + 1)
    return [sentence[i] for i in around if i != place and 0 <= i < len(sentence)]


def slow_pairs(texts, window):
    return [
        [word, neighbour]
        for sentence in texts
        for place, word in enumerate(sentence)
        for neighbour in slow_neighbours(sentence, place, window)
    ]


# --- pairs and examples -------------------------------------------------------


@given(sentences, st.integers(1, 12))
def test_pairs_stay_within_window_and_sentence(texts, window):
    pairs = skipgram_pairs(texts, window)
    assert pairs.dtype == torch.int64
    assert pairs.shape == (len(slow_pairs(texts, window)), 2)
    assert pairs.tolist() == slow_pairs(texts, window)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 4))
def test_a_flat_tensor_is_one_sentence(sentence, window):
    ids = torch.tensor(sentence, dtype=torch.int64)
    expected = slow_pairs([sentence], window)
    assert skipgram_pairs(ids, window).tolist() == expected
    assert skipgram_pairs(sentence, window).tolist() == expected
    assert skipgram_pairs([ids], window).tolist() == expected


@given(sentences, st.integers(1, 12))
def test_cbow_holds_all_neighbours_and_no_lonely_word(texts, window):
    contexts, targets = cbow_examples(texts, window)
    expected = [
        (slow_neighbours(sentence, place, window), word)
        for sentence in texts
        for place, word in enumerate(sentence)
        if len(sentence) > 1
    ]
    assert contexts.shape == (len(expected), 2 * window)
    found = [[word for word in row if word >= 0] for row in contexts.tolist()]
    assert list(zip(found, targets.tolist(), strict=True)) == expected
    assert set(contexts[contexts < 0].tolist()) <= {-1}


def test_boundaries_by_hand():
    assert skipgram_pairs([[7, 8], [9]], 5).tolist() == [[7, 8], [8, 7]]
    assert skipgram_pairs(torch.tensor([7, 8, 9]), 5).shape == (6, 2)
    contexts, targets = cbow_examples([[7, 8, 9]], 1)
    assert contexts.tolist() == [[-1, 8], [7, 9], [8, -1]]
    assert targets.tolist() == [7, 8, 9]


def test_a_repeated_word_is_its_own_neighbour_but_no_place_is():
    assert skipgram_pairs([3, 3], 1).tolist() == [[3, 3], [3, 3]]
    assert skipgram_pairs([3], 1).shape == (0, 2)


def test_shrunk_windows_are_uniform():
    window, n = 4, 40_000
    generator = torch.Generator().manual_seed(0)
    pairs = skipgram_pairs(torch.arange(n), window, generator)
    distance = (pairs[:, 0] - pairs[:, 1]).abs()
    share = torch.bincount(distance)[1:] / (2 * n)
    # A neighbour at distance k is seen by the windows k … 4: (5 − k) of 4.
    torch.testing.assert_close(share, torch.tensor([4, 3, 2, 1]) / 4, atol=0.01, rtol=0)


def test_shrunk_windows_depend_on_the_generator_alone():
    def draw(seed):
        torch.rand(seed)
        generator = torch.Generator().manual_seed(5)
        return skipgram_pairs(torch.arange(100), 5, generator)

    assert torch.equal(draw(1), draw(2))


@pytest.mark.parametrize("function", [skipgram_pairs, cbow_examples])
class TestBadText:
    @pytest.mark.parametrize("window", [0, -1])
    def test_window_below_one(self, function, window):
        with pytest.raises(ValueError, match=f"window.*{window}"):
            function(torch.tensor([1, 2]), window)

    @pytest.mark.parametrize("window", [1.5, True, "2"])
    def test_window_of_another_type(self, function, window):
        with pytest.raises(TypeError, match="window"):
            function(torch.tensor([1, 2]), window)

    @pytest.mark.parametrize(
        "ids", [torch.tensor([1.0]), torch.tensor([True]), [0.5], [[0.5]], "ab", ["ab"]]
    )
    def test_ids_of_another_type(self, function, ids):
        with pytest.raises(TypeError):
            function(ids, 2)

    def test_two_dimensions(self, function):
        with pytest.raises(ValueError, match=r"\(2, 2\)"):
            function(torch.zeros(2, 2, dtype=torch.int64), 2)

    def test_a_negative_id(self, function):
        with pytest.raises(IndexError, match="-1"):
            function([[3], [4, -1]], 2)


# --- subsampling and noise ----------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"), [("paper", 0.3162278), ("word2vec.c", 0.4162278)]
)
def test_keep_probability_of_a_word_with_one_percent(rule, expected):
    counts = torch.tensor([1_000, 99_000])
    assert keep_probability(counts, 1e-3, rule)[0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("rule", ["paper", "word2vec.c"])
@given(
    counts=st.lists(st.integers(0, 10**9), min_size=1, max_size=20).filter(any),
    t=st.floats(1e-6, 1),
)
def test_keep_probability_follows_its_formula(rule, counts, t):
    kept = keep_probability(torch.tensor(counts), t, rule)
    for count, found in zip(counts, kept.tolist(), strict=True):
        if count == 0:
            assert found == 1
            continue
        f = count / sum(counts)
        root = math.sqrt(t / f)
        formula = root if rule == "paper" else root + t / f
        assert found == pytest.approx(min(1, formula), rel=1e-6)


def test_keep_probability_agrees_with_gensim():
    from gensim.models import Word2Vec

    words = ["a"] * 700 + ["b"] * 250 + ["c"] * 49 + ["d"]
    model = Word2Vec(sample=0.05, min_count=1)
    model.build_vocab([words])
    theirs = model.wv.expandos["sample_int"] / (2**32 - 1)
    ours = keep_probability(torch.tensor([700, 250, 49, 1]), 0.05)
    torch.testing.assert_close(ours.double(), torch.from_numpy(theirs))


def test_the_total_is_the_texts_own():
    # The same share of the text gives the same probability, whatever its length.
    short = keep_probability(torch.tensor([10, 90]), 1e-2)
    long = keep_probability(torch.tensor([1_000, 9_000]), 1e-2)
    assert torch.equal(short, long)


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any),
    st.floats(0, 2),
)
def test_noise_follows_its_formula(counts, power):
    noise = noise_distribution(torch.tensor(counts), power)
    weights = [count**power if count else 0 for count in counts]
    expected = torch.tensor(weights) / sum(weights)
    torch.testing.assert_close(noise, expected.float(), rtol=1e-5, atol=1e-9)
    assert noise.sum().item() == pytest.approx(1, abs=1e-5)


def test_noise_by_hand():
    assert noise_distribution(torch.tensor([16, 0, 1])).tolist() == pytest.approx(
        [8 / 9, 0, 1 / 9]
    )
    assert noise_distribution(torch.tensor([16, 0, 1]), 0).tolist() == [0.5, 0, 0.5]


def test_noise_agrees_with_gensim():
    from gensim.models import Word2Vec

    counts = {"a": 700, "b": 250, "c": 49, "d": 1}
    model = Word2Vec(min_count=1)
    model.build_vocab_from_freq(counts)
    theirs = torch.from_numpy(model.cum_table.astype("float64")) / (2**31 - 1)
    ours = noise_distribution(torch.tensor(list(counts.values()))).double().cumsum(0)
    torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=0)


@pytest.mark.parametrize("function", [keep_probability, noise_distribution])
@pytest.mark.parametrize(
    ("counts", "fact"),
    [
        ([], r"\(0,\)"),
        ([[1, 2]], r"\(1, 2\)"),
        ([0, 0], "all 2 counts are zero"),
        ([3, -2], "-2"),
        ([1.0, math.nan], "nan"),
        ([1.0, math.inf], "inf"),
    ],
)
def test_counts_that_are_no_counts(function, counts, fact):
    with pytest.raises(ValueError, match=fact):
        function(torch.tensor(counts))


def test_counts_may_be_a_list():
    assert torch.equal(keep_probability([1, 9]), keep_probability(torch.tensor([1, 9])))
    assert noise_distribution([16, 1]).tolist() == pytest.approx([8 / 9, 1 / 9])


@pytest.mark.parametrize("counts", [[True, False], [1j, 2]])
@pytest.mark.parametrize("function", [keep_probability, noise_distribution])
def test_counts_of_another_type(function, counts):
    with pytest.raises(TypeError):
        function(torch.tensor(counts))


@pytest.mark.parametrize("power", [-0.1, math.nan, math.inf])
def test_power_out_of_range(power):
    with pytest.raises(ValueError, match=str(power)):
        noise_distribution(torch.tensor([1, 2]), power)


@pytest.mark.parametrize("t", [0, -1e-3, math.nan, math.inf])
def test_threshold_out_of_range(t):
    with pytest.raises(ValueError, match=str(t)):
        keep_probability(torch.tensor([1, 2]), t)


def test_unknown_rule():
    with pytest.raises(ValueError, match=r"gensim.*word2vec\.c.*paper"):
        keep_probability(torch.tensor([1, 2]), rule="gensim")


# --- negatives ----------------------------------------------------------------


@given(
    counts=st.lists(st.integers(0, 1_000), min_size=2, max_size=8).filter(
        lambda counts: sum(count > 0 for count in counts) > 1
    ),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=60)
def test_negatives_are_never_the_positive_nor_an_unseen_word(counts, seed):
    noise = noise_distribution(torch.tensor(counts))
    positives = torch.arange(len(counts)).repeat(50)
    generator = torch.Generator().manual_seed(seed)
    negatives = sample_negatives(noise, positives, 7, generator)
    assert negatives.shape == (len(positives), 7)
    assert negatives.dtype == torch.int64
    assert not (negatives == positives[:, None]).any()
    assert (noise[negatives] > 0).all()


def test_negatives_follow_the_noise_without_the_positive():
    noise = torch.tensor([0.5, 0.3, 0.0, 0.15, 0.05])
    positives = torch.arange(5).repeat_interleave(20_000)
    generator = torch.Generator().manual_seed(0)
    negatives = sample_negatives(noise, positives, 3, generator)
    for word in range(5):
        share = torch.bincount(negatives[positives == word].flatten(), minlength=5)
        expected = noise.clone()
        expected[word] = 0
        torch.testing.assert_close(
            share / 60_000, expected / expected.sum(), atol=0.008, rtol=0
        )


def test_negatives_at_the_edges_of_the_slices():
    # Words of one grain each, and one of none: every draw falls on an edge.
    ends = torch.tensor([1, 2, 2, 3])
    positives = torch.tensor([0, 1, 3])
    negatives = draw_others(ends, positives, 100)
    assert [set(row) for row in negatives.tolist()] == [{1, 3}, {0, 3}, {0, 1}]


def test_negatives_of_a_very_rare_word():
    noise = torch.tensor([1.0, 1e-30])
    assert sample_negatives(noise, torch.tensor([0]), 3).tolist() == [[1, 1, 1]]


def test_negatives_of_a_very_frequent_positive():
    noise = torch.tensor([1 - 1e-6, 1e-6])
    negatives = sample_negatives(noise, torch.zeros(1_000, dtype=torch.int64), 5)
    assert (negatives == 1).all()


def test_negatives_keep_the_shape_and_device_of_the_positives(device):
    noise = torch.full((10,), 0.1, device=device)
    positives = torch.zeros(2, 3, dtype=torch.int64, device=device)
    negatives = sample_negatives(noise, positives, 4)
    assert negatives.shape == (2, 3, 4)
    assert negatives.device.type == device.type


def test_negatives_depend_on_the_generator_alone():
    noise = torch.full((50,), 0.02)
    positives = torch.arange(50)

    def draw():
        generator = torch.Generator().manual_seed(3)
        return sample_negatives(noise, positives, 5, generator)

    first = draw()
    state = torch.get_rng_state()
    assert torch.equal(draw(), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_need_not_sum_to_one():
    positives = torch.arange(3).repeat(40)
    draws = [
        sample_negatives(noise, positives, 3, torch.Generator().manual_seed(1))
        for noise in (torch.tensor([0.5, 0.25, 0.25]), torch.tensor([2.0, 1.0, 1.0]))
    ]
    assert torch.equal(*draws)


def test_no_negative_exists():
    noise = torch.tensor([0.0, 1.0])
    with pytest.raises(ValueError, match="word 1"):
        sample_negatives(noise, torch.tensor([0, 1]), 2)


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_than_one_negative(k):
    with pytest.raises(ValueError, match=f"k .*{k}"):
        sample_negatives(torch.tensor([0.5, 0.5]), torch.tensor([0]), k)


@pytest.mark.parametrize("word", [2, -1])
def test_a_positive_outside_the_noise(word):
    with pytest.raises(IndexError, match=f"{word}.*2 rows"):
        sample_negatives(torch.tensor([0.5, 0.5]), torch.tensor([0, word]), 2)


def test_positives_of_another_type():
    with pytest.raises(TypeError):
        sample_negatives(torch.tensor([0.5, 0.5]), torch.tensor([0.0]), 2)


# --- the loss -----------------------------------------------------------------


def test_loss_by_hand():
    # −log σ(1) − log σ(0) − log σ(1); a sum inside one log σ would give 0.6265234.
    center = torch.tensor([[1.0, 0.0]])
    negatives = torch.tensor([[[0.0, 1.0], [-1.0, 0.0]]])
    assert sgns_loss(center, center, negatives).item() == pytest.approx(1.3196707)


def test_loss_at_zero_vectors():
    # Every term is −log ½: one positive and K negatives.
    zeros = torch.zeros(3, 4)
    assert sgns_loss(zeros, zeros, torch.zeros(3, 5, 4)).item() == pytest.approx(
        6 * math.log(2)
    )


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 5), st.integers(0, 999))
def test_loss_against_a_loop(batch, k, dim, seed):
    generator = torch.Generator().manual_seed(seed)
    center, positive = 2 * torch.randn(2, batch, dim, generator=generator)
    negatives = 2 * torch.randn(batch, k, dim, generator=generator)

    def minus_log_sigmoid(a, b):
        score = math.fsum(x * y for x, y in zip(a, b, strict=True))
        return math.log1p(math.exp(-score))

    total = 0.0
    for row in range(batch):
        v = center[row].tolist()
        total += minus_log_sigmoid(v, positive[row].tolist())
        for negative in negatives[row].tolist():
            total += minus_log_sigmoid([-x for x in v], negative)
    found = sgns_loss(center, positive, negatives).item()
    assert found == pytest.approx(total / batch, rel=1e-5)


def test_loss_is_finite_far_out():
    center = torch.tensor([[200.0]])
    assert sgns_loss(center, -center, center[None]).item() == pytest.approx(80_000)
    assert sgns_loss(center, center, -center[None]).item() == 0


def test_gradient_of_the_loss():
    arguments = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in [(3, 4), (3, 4), (3, 2, 4)]
    ]
    assert torch.autograd.gradcheck(sgns_loss, arguments)


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3), (1, 3), (2, 5, 3)],
        [(2, 3), (2, 4), (2, 5, 3)],
        [(2, 3), (2, 3), (1, 5, 3)],
        [(2, 3), (2, 3), (2, 5, 1)],
        [(2, 3), (2, 3), (2, 3)],
        [(3,), (3,), (5, 3)],
        [(0, 3), (0, 3), (0, 5, 3)],
    ],
)
def test_loss_broadcasts_nothing(shapes):
    with pytest.raises(ValueError, match="expected center") as error:
        sgns_loss(*(torch.zeros(shape) for shape in shapes))
    assert all(str(shape) in str(error.value) for shape in shapes)


# --- the modules --------------------------------------------------------------


def fill(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randn(table.shape, generator=generator))
    return model


@pytest.mark.parametrize("module", [SkipGram, CBOW])
def test_start_is_word2vecs(module):
    model = module(50, 20, torch.Generator().manual_seed(0))
    assert model.output.weight.abs().max() == 0
    start = model.input.weight
    assert start.abs().max() <= 0.5 / 20
    assert start.std().item() == pytest.approx(1 / 20 / math.sqrt(12), rel=0.1)
    again = module(50, 20, torch.Generator().manual_seed(0))
    assert torch.equal(again.input.weight, start)


def test_skipgram_is_the_loss_of_its_rows(device):
    model = fill(SkipGram(6, 3)).to(device)
    centers = torch.tensor([0, 5], device=device)
    positives = torch.tensor([1, 1], device=device)
    negatives = torch.tensor([[2, 3], [4, 4]], device=device)
    rows_in, rows_out = model.input.weight, model.output.weight
    expected = sgns_loss(rows_in[centers], rows_out[positives], rows_out[negatives])
    torch.testing.assert_close(model(centers, positives, negatives), expected)
    assert torch.equal(model.vectors(), rows_in.detach())


def test_cbow_takes_the_mean_of_the_real_neighbours(device):
    model = fill(CBOW(6, 3)).to(device)
    contexts = torch.tensor([[-1, 0, 4, -1], [2, 2, 1, 5]], device=device)
    targets = torch.tensor([3, 0], device=device)
    negatives = torch.tensor([[2, 3], [4, 4]], device=device)
    rows_in, rows_out = model.input.weight, model.output.weight
    hidden = torch.stack([rows_in[[0, 4]].mean(0), rows_in[[2, 2, 1, 5]].mean(0)])
    expected = sgns_loss(hidden, rows_out[targets], rows_out[negatives])
    torch.testing.assert_close(model(contexts, targets, negatives), expected)


@pytest.mark.parametrize("module", [SkipGram, CBOW])
def test_sparse_gradients_are_the_dense_ones(module):
    inputs = torch.tensor([[0, 4], [2, 2]]) if module is CBOW else torch.tensor([0, 4])
    gradients = []
    for sparse in (False, True):
        model = fill(module(6, 3, sparse=sparse))
        model(inputs, torch.tensor([3, 0]), torch.tensor([[2], [4]])).backward()
        gradients.append([table.grad for table in model.parameters()])
    for dense, sparse in zip(*gradients, strict=True):
        assert sparse.is_sparse
        assert not dense.is_sparse
        torch.testing.assert_close(sparse.to_dense(), dense)


def test_cbow_refuses_a_target_without_neighbours():
    model = CBOW(6, 3)
    contexts = torch.tensor([[0, 1], [-1, -1]])
    with pytest.raises(ValueError, match="row 1"):
        model(contexts, torch.tensor([2, 2]), torch.tensor([[3], [3]]))


@pytest.mark.parametrize("word", [6, -2])
def test_an_id_outside_the_table(word):
    ok, negatives = torch.tensor([0]), torch.tensor([[1, 2]])
    bad = torch.tensor([word])
    for arguments in [(bad, ok, negatives), (ok, bad, negatives), (ok, ok, bad[None])]:
        with pytest.raises(IndexError, match=f"{word}.*6 rows"):
            SkipGram(6, 3)(*arguments)
    with pytest.raises(IndexError, match=f"{word}.*6 rows"):
        CBOW(6, 3)(bad[None], ok, negatives)


@pytest.mark.parametrize("module", [SkipGram, CBOW])
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-1, 3)])
def test_empty_tables(module, sizes):
    with pytest.raises(ValueError, match="at least 1"):
        module(*sizes)
