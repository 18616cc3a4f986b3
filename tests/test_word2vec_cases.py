"""`lib.word2vec` against faults found in other libraries, named by their case ids."""

import dataclasses

import numpy as np
import pytest
import torch
from gensim.models.callbacks import CallbackAny2Vec

from lib.corpus import Vocab
from lib.word2vec import (
    CBOW,
    Settings,
    SkipGram,
    cbow_examples,
    evaluation_examples,
    keep_probability,
    mean_loss,
    noise_distribution,
    sample_negatives,
    skipgram_pairs,
    train_autograd,
    train_blocks,
    train_gensim,
)
from lib.word2vec.models import mean_rows

SMALL = Settings(dim=6, window=2, epochs=2, sample=0, seed=3)
TEXT = [[0, 1, 2, 3], [4, 5, 6], [1, 4, 2, 5, 0]] * 20
SPELLED = [[f"w{word}" for word in sentence] for sentence in TEXT]
VOCAB = Vocab(word for sentence in SPELLED for word in sentence)
COUNTS = torch.bincount(torch.tensor([word for row in TEXT for word in row]))


class Anew:
    """Sentences without a length, which can be read again and again."""

    def __init__(self, sentences):
        self.sentences = sentences

    def __iter__(self):
        return iter(self.sentences)


class Heard(CallbackAny2Vec):
    def __init__(self):
        self.losses = []

    def on_epoch_end(self, model):
        self.losses.append(model.get_latest_training_loss())


def test_p14_hierarchical_softmax_beside_negatives_is_passed_on():
    run = train_gensim(SPELLED, VOCAB, SMALL, hs=1)
    assert run.model.hs == 1
    assert len(run.losses) == 2
    assert run.output.count_nonzero() > 0


@pytest.mark.parametrize("options", [{"hs": 1, "negative": 0}, {"negative": 0}])
def test_p14_no_negatives_are_refused_by_name(options):
    with pytest.raises(ValueError, match=r"at least 1 negative, got negative=0.*hs=1"):
        train_gensim(SPELLED, VOCAB, SMALL, **options)


def test_p15_options_of_training_win():
    heard = Heard()
    options = {"epochs": 3, "compute_loss": True, "callbacks": [heard]}
    run = train_gensim(SPELLED, VOCAB, SMALL, **options)
    assert run.model.epochs == len(run.losses) == len(heard.losses) == 3
    assert all(loss > 0 for loss in heard.losses)
    alone = train_gensim(SPELLED, VOCAB, dataclasses.replace(SMALL, epochs=3))
    assert torch.equal(run.input, alone.input)
    assert run.losses == alone.losses


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ({"vector_size": 9}, {"dim": 9}),
        ({"window": 1}, {"window": 1}),
        ({"negative": 2}, {"negatives": 2}),
        ({"epochs": 1}, {"epochs": 1}),
        ({"alpha": 0.2}, {"lr": 0.2}),
        ({"min_alpha": 0.02}, {"min_lr": 0.02}),
        ({"sample": 0.01}, {"sample": 0.01}),
        ({"ns_exponent": 0.0}, {"power": 0.0}),
        ({"seed": 8}, {"seed": 8}),
        ({"sg": 0}, {"architecture": "cbow"}),
    ],
)
def test_p15_an_option_equals_the_setting_of_the_same_meaning(option, setting):
    given = train_gensim(SPELLED, VOCAB, SMALL, **option)
    told = train_gensim(SPELLED, VOCAB, dataclasses.replace(SMALL, **setting))
    assert torch.equal(given.input, told.input)
    assert given.losses == told.losses


def test_p15_sentences_of_a_file_are_refused_by_name():
    with pytest.raises(TypeError, match="corpus_file"):
        train_gensim(SPELLED, VOCAB, SMALL, corpus_file="text.txt")


def test_p16_any_rereadable_sentences_will_do():
    given = train_gensim(Anew(SPELLED), VOCAB, SMALL)
    told = train_gensim(SPELLED, VOCAB, SMALL)
    assert torch.equal(given.input, told.input)
    assert given.losses == told.losses
    for train in (train_autograd, train_blocks):
        given, told = (train(text, COUNTS, SMALL) for text in (Anew(TEXT), TEXT))
        assert given.losses == told.losses


@pytest.mark.parametrize(
    "kind", [iter, lambda x: (row for row in x), lambda x: map(list, x)]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda text: train_gensim(text(SPELLED), VOCAB, SMALL),
        lambda text: train_autograd(text(TEXT), COUNTS, SMALL),
        lambda text: train_blocks(text(TEXT), COUNTS, SMALL),
        lambda text: evaluation_examples(text(TEXT), COUNTS, SMALL),
    ],
)
def test_p16_a_generator_is_refused_by_name(call, kind):
    with pytest.raises(TypeError, match=r"a (list_iterator|generator|map) is empty"):
        call(kind)


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"min_count": 21}, 2),
        ({"min_count": 60}, 7),
        ({"max_final_vocab": 3}, 7),  # gensim cuts at a count, and five are equal
        ({"trim_rule": lambda word, count, least: 1 if word == "w3" else 2}, 1),
    ],
)
def test_p16_options_that_cut_words_are_refused(options, number):
    with pytest.raises(ValueError, match=rf"cut {number} of 7 words, such as 'w\d'"):
        train_gensim(SPELLED, VOCAB, SMALL, **options)
    assert train_gensim(SPELLED, VOCAB, SMALL, min_count=20).input.shape == (7, 6)


SMALL_DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32]


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
def test_p10_small_integers_are_not_wrapped(dtype):
    top = torch.iinfo(dtype).max if dtype in SMALL_DTYPES[:2] else 300
    words = torch.tensor([top, 3, top - 1, 0])
    text = words.to(dtype)
    assert torch.equal(skipgram_pairs(text, 2), skipgram_pairs(words, 2))
    for found, wanted in zip(
        cbow_examples(text, 2), cbow_examples(words, 2), strict=True
    ):
        assert torch.equal(found, wanted)
    draws = [
        sample_negatives(torch.ones(top + 1), ids, 5, torch.Generator().manual_seed(0))
        for ids in (text, words)
    ]
    assert torch.equal(*draws)
    rows = words.view(2, 2), words[:2], words[2:].view(2, 1)
    small = [ids.to(dtype) for ids in rows]
    model = CBOW(top + 1, 3, torch.Generator().manual_seed(0))
    assert torch.equal(model(*small), model(*rows))
    found, wanted = (mean_rows(model.input, ids) for ids in (small[0], rows[0]))
    assert torch.equal(found, wanted)
    pairs = SkipGram(top + 1, 3)
    found, wanted = (pairs(ids[1], ids[1], ids[2]) for ids in (small, rows))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_p10_a_negative_id_is_named(dtype):
    with pytest.raises(IndexError, match="-1"):
        skipgram_pairs(torch.tensor([3, -1], dtype=dtype), 2)
    with pytest.raises(IndexError, match="-1"):
        sample_negatives(torch.ones(3), torch.tensor([-1], dtype=dtype), 2)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_p26_sizes_of_numpy(kind):
    given = Settings(kind(6), kind(2), kind(5), kind(2), sample=0, seed=kind(3))
    assert given == SMALL
    assert {type(n) for n in (given.dim, given.window, given.seed)} == {int}
    sizes = {"block": kind(4), "shared": kind(4), "group": kind(2)}
    run = train_blocks(TEXT, COUNTS, given, **sizes)
    told = train_blocks(TEXT, COUNTS, SMALL, block=4, shared=4, group=2)
    assert run.losses == told.losses
    assert torch.equal(skipgram_pairs(TEXT[:2], kind(2)), skipgram_pairs(TEXT[:2], 2))
    noise = torch.ones(5)
    assert sample_negatives(noise, torch.tensor([1]), kind(3)).shape == (1, 3)
    words = [kind(4), kind(5), kind(6)]
    if kind is not torch.tensor:
        assert torch.equal(skipgram_pairs([words], 2), skipgram_pairs([[4, 5, 6]], 2))
    examples = evaluation_examples(TEXT, COUNTS, SMALL, size=kind(9), seed=kind(1))
    assert len(examples[0]) == 9


def test_p26_the_largest_window_of_a_byte_does_not_wrap():
    wide = skipgram_pairs(TEXT[:3], np.uint8(255))
    assert torch.equal(wide, skipgram_pairs(TEXT[:3], 255))


@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, "2"])
@pytest.mark.parametrize(
    "call",
    [
        *(
            lambda n, name=name: Settings(**{name: n})
            for name in ("dim", "window", "negatives", "epochs", "seed")
        ),
        lambda n: skipgram_pairs([[1, 2]], n),
        lambda n: cbow_examples([[1, 2]], n),
        lambda n: skipgram_pairs([[1, n]], 1),
        lambda n: sample_negatives(torch.ones(3), torch.tensor([1]), n),
        lambda n: train_autograd(TEXT, COUNTS, SMALL, batch=n),
        lambda n: train_blocks(TEXT, COUNTS, SMALL, block=n),
        lambda n: evaluation_examples(TEXT, COUNTS, SMALL, size=n),
        lambda n: evaluation_examples(TEXT, COUNTS, SMALL, seed=n),
    ],
)
def test_p26_what_is_no_integer_is_refused(call, wrong):
    with pytest.raises(TypeError, match="int"):
        call(wrong)


def test_p27_the_default_dtype_has_no_say():
    thin = dataclasses.replace(SMALL, sample=0.01)
    counts = [0.1, 0.7, 1000.3]

    def found():
        generator = torch.Generator().manual_seed(0)
        return [
            *evaluation_examples(TEXT, COUNTS, thin),
            keep_probability(counts),
            noise_distribution(counts),
            sample_negatives(counts, torch.tensor([0, 1]), 9, generator),
        ]

    expected = found()
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert all(map(torch.equal, found(), expected))
        finally:
            torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("strange", [torch.inf, torch.nan])
def test_p28_the_row_that_stands_in_for_no_word_has_no_effect(strange):
    """Where a context has no word, row 0 is looked up and left out."""
    model = CBOW(4, 3, torch.Generator().manual_seed(0))
    contexts = torch.tensor([[1, -1], [2, 3]])
    wanted = mean_rows(model.input, contexts)
    gradient = torch.autograd.grad(wanted.sum(), model.input.weight)[0]
    with torch.no_grad():
        model.input.weight[0] = strange
    found = mean_rows(model.input, contexts)
    assert torch.equal(found, wanted)
    again = torch.autograd.grad(found.sum(), model.input.weight)[0]
    assert torch.equal(again, gradient)
    examples = contexts, torch.tensor([2, 1]), torch.tensor([[3], [3]])
    assert np.isfinite(mean_loss(model.vectors(), model.output.weight, examples))


def test_p35_an_absurd_rate_raises():
    absurd = dataclasses.replace(SMALL, lr=1e30)
    with pytest.raises(FloatingPointError, match="smaller lr"):
        train_autograd(TEXT, COUNTS, absurd)
    run = train_blocks(TEXT, COUNTS, absurd)  # which bounds the length of a step
    assert run.input.isfinite().all()
    assert run.output.isfinite().all()


def test_subsampling_starts_at_the_square_of_the_golden_ratio_times_t():
    golden = ((1 + 5**0.5) / 2) ** 2
    assert golden == pytest.approx(2.618, abs=1e-3)
    for rule, start in (("word2vec.c", golden), ("paper", 1.0)):
        for factor, thinned in ((0.999, False), (1.001, True)):
            share = 1e-3 * start * factor
            counts = torch.tensor([share, 1 - share], dtype=torch.float64)
            kept = keep_probability(counts, t=1e-3, rule=rule)[0].item()
            assert (kept < 1) == thinned
