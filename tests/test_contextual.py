"""`lib.contextual` against single sentences, scikit-learn, and slow loops."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu
from sklearn.neighbors import NearestCentroid
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from lib.contextual import (
    SENSE_AFTER,
    SENTENCES,
    Reading,
    held_out_accuracy,
    neighbours,
    ordered_share,
    pair_cosines,
    read_words,
    same_and_other,
)
from lib.smollm import load_smollm2
from lib.transformer import PRESETS, Transformer

TEXTS = ["He slept by the river bank.", "Every bank failed; the last bank, too."]


@pytest.fixture(scope="module")
def loaded():
    return load_smollm2("cpu")


@pytest.fixture(scope="module")
def reading(loaded):
    return read_words(*loaded, TEXTS, ["bank", "bank"])


@torch.no_grad()
def test_each_vector_is_that_of_the_text_alone(loaded, reading):
    model, tokenizer = loaded
    taken = 0
    for row, text in enumerate(TEXTS):
        encoded = tokenizer.encode(text)
        alone = torch.stack(model.hidden_states(torch.tensor([encoded.ids])))[:, 0]
        last = max(i for i, token in enumerate(encoded.tokens) if token == "Ġbank")
        close = {"rtol": 1e-4, "atol": 1e-2}  # vectors are some hundreds long
        torch.testing.assert_close(reading.states[:, row], alone[:, last], **close)
        rest = [i for i in range(1, len(encoded.ids)) if i != last]
        mine = reading.text == row
        torch.testing.assert_close(reading.others[:, mine], alone[:, rest], **close)
        words = [reading.tokens[i] for i in mine.nonzero()[:, 0]]
        assert words == [tokenizer.decode([encoded.ids[i]]) for i in rest]
        taken += len(rest)
    assert reading.others.shape == (32, taken, 576)


def test_centring_leaves_no_mean(reading):
    centred = reading.centred()
    every = torch.cat([centred.states, centred.others], 1)
    assert every.mean(1).abs().max() < 1e-4 * every.abs().max()
    units = reading.states / reading.states.norm(dim=-1, keepdim=True)
    before = units[:, 0] - units[:, 1]
    after = centred.states[:, 0] - centred.states[:, 1]
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "words", "message"),
    [
        (TEXTS, ["bank"], "2 texts, but 1 words"),
        (TEXTS[:1], ["shore"], "'shore' is no token"),
        (TEXTS[:1], ["ban"], "'ban' is no token"),
    ],
)
def test_a_word_that_is_not_there_is_named(loaded, texts, words, message):
    with pytest.raises(ValueError, match=message):
        read_words(*loaded, texts, words)


def test_reads_on_every_device(device, reading):
    there = read_words(*load_smollm2(device), TEXTS, ["bank", "bank"])
    assert there.states.dtype == torch.float32
    assert there.states.device.type == "cpu"
    cosine = torch.cosine_similarity(there.states, reading.states, dim=-1)
    assert cosine.min() > 0.98


def test_pairs_come_once():
    labels = ["a", "b", "a", "b", "c"]
    same, other = same_and_other(labels)
    for i, j in itertools.product(range(5), repeat=2):
        assert same[i, j].item() == (i < j and labels[i] == labels[j])
        assert other[i, j].item() == (i < j and labels[i] != labels[j])


def test_cosines_equal_numpy():
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    got = pair_cosines(x)
    for s, i, j in itertools.product(range(3), range(4), range(4)):
        a, b = x[s, i].double().numpy(), x[s, j].double().numpy()
        wanted = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        assert got[s, i, j].item() == pytest.approx(wanted, abs=1e-6)


def test_the_ordered_share_equals_scipy():
    generator = torch.Generator().manual_seed(0)
    high = torch.randint(6, (4, 9), generator=generator).float() + 1
    low = torch.randint(6, (4, 7), generator=generator).float()
    for got, a, b in zip(ordered_share(high, low), high, low, strict=True):
        u = mannwhitneyu(a.numpy(), b.numpy()).statistic
        assert got.item() == pytest.approx(u / 63)


@pytest.mark.parametrize("first", [2, 4, 6])
def test_the_probe_equals_scikit_learn(first):
    x = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(first))
    x[0, :first] += 0.7
    labels = torch.arange(8) < first
    x = x / x.norm(dim=-1, keepdim=True)
    got = held_out_accuracy(x, torch.stack([labels, labels.roll(3)]))
    for s, (k, y) in itertools.product(range(2), enumerate([labels, labels.roll(3)])):
        right = []
        for a, b in itertools.product(y.nonzero()[:, 0], (~y).nonzero()[:, 0]):
            rest = [i for i in range(8) if i not in (a, b)]
            probe = NearestCentroid().fit(x[s, rest].numpy(), y[rest].numpy())
            out = [int(a), int(b)]
            right += (probe.predict(x[s, out].numpy()) == y[out].numpy()).tolist()
        assert got[s, k].item() == pytest.approx(np.mean(right))


def test_the_probe_is_fair_to_chance():
    """Over all labellings of six items the mean is ½ exactly; ties give ½ as well."""
    x = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(20, 6, dtype=torch.bool)
    for row, chosen in enumerate(itertools.combinations(range(6), 3)):
        labels[row, list(chosen)] = True
    assert held_out_accuracy(x, labels).mean().item() == pytest.approx(0.5)
    alike = torch.ones(1, 6, 4).div(3)
    assert (held_out_accuracy(alike, labels) == 0.5).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.ones(6).bool(), r"\[K, N\]"),
        (torch.ones(1, 5).bool(), r"labels \[1, 5\], states \[1, 6, 4\]"),
        (torch.tensor([[True] + [False] * 5]), "2 items or more, they have 1 and 5"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        held_out_accuracy(torch.ones(1, 6, 4), labels)


def test_neighbours_are_of_other_texts_and_named_once():
    others = torch.tensor([[[1.0, 0], [0.9, 0.1], [0.8, 0.3], [0.7, 0.7], [0, 1]]])
    found = Reading(
        states=torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        others=others,
        tokens=["own", "near", "near", "mid", "far"],
        text=torch.tensor([0, 1, 1, 1, 1]),
    )
    assert neighbours(found, 0, row=0, k=3) == ["near", "mid", "far"]
    assert neighbours(found, 0, row=1, k=5) == ["own"]


def test_every_sentence_holds_its_word_and_the_words_do_not_tell_the_sense(loaded):
    tokenizer = loaded[1]
    assert len(SENTENCES) == 3
    for word, senses in SENTENCES.items():
        assert [len(texts) for texts in senses.values()] == [8, 8]
        for text in itertools.chain(*senses.values()):
            assert tokenizer.encode(text).tokens[-2:] == ["Ġ" + word, "."], text
            assert tokenizer.encode(text).tokens.count("Ġ" + word) == 1
    starts = {tuple(t.split()[:2]) for t in itertools.chain(*SENSE_AFTER.values())}
    assert starts == {("The", "bank")}
    texts = [t for senses in SENTENCES.values() for v in senses.values() for t in v]
    assert len(set(texts)) == 48


# Cases of others' faults, by their ids ----------------------------------------


@pytest.fixture(scope="module")
def many_alphabets():
    """A tiny model and a tokenizer in whose vocabulary any word can be one token."""
    words = ["café", "naïve", "日本", "😀", "“quoted”", "don’t", "हिन्दी", "Ġ", "bank"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\S+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([" " + " ".join(words * 9)], trainer)
    config = dataclasses.replace(PRESETS["tiny"], vocab_size=tokenizer.get_vocab_size())
    return Transformer(config).eval(), tokenizer, words


def test_p19_words_of_any_alphabet_are_found(many_alphabets):
    model, tokenizer, words = many_alphabets
    texts = [f"bank {word} and {word} café" for word in words]
    found = read_words(model, tokenizer, texts, words)
    assert found.states.shape[1] == len(words)
    for row, word in enumerate(words):
        tokens = [tokenizer.decode([i]) for i in tokenizer.encode(texts[row]).ids]
        place = len(tokens) - 1 - tokens[::-1].index(" " + word)
        left = tokens[1:place] + tokens[place + 1 :]
        mine = (found.text == row).nonzero()[:, 0].tolist()
        assert [found.tokens[i] for i in mine] == left


def test_p19_a_word_with_an_accent_in_the_real_model(loaded):
    texts = ["We met at the café today.", "They met at the bank today."]
    found = read_words(*loaded, texts, ["café", "bank"])
    alone = read_words(*loaded, texts[:1], ["café"])
    torch.testing.assert_close(found.states[:, :1], alone.states, rtol=1e-3, atol=1e-1)


def test_p9_half_a_surrogate_pair_is_named(many_alphabets):
    model, tokenizer, _ = many_alphabets
    for text, word in (("a \ud83d bank", "bank"), ("a bank", "\ud83d")):
        with pytest.raises(ValueError, match="half a surrogate pair") as error:
            read_words(model, tokenizer, [text], [word])
        assert repr("\ud83d") in str(error.value)


STATES = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[True, True, True, False, False, False]])


def reading_of(states):
    return Reading(states, states, list("abcdef"), torch.arange(6))


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("call", "place"),
    [
        (pair_cosines, r"row \[1, 3\]"),
        (lambda x: held_out_accuracy(x, LABELS), r"row \[1, 3\]"),
        (lambda x: ordered_share(x[:, 3], STATES[:, 0]), "row 1"),
        (lambda x: ordered_share(STATES[:, 0], x[:, 3]), "row 1"),
        (lambda x: neighbours(reading_of(x), 1, 0, 2), "row 3"),
        (lambda x: neighbours(reading_of(x), 1, 3, 2), "row 3"),
    ],
)
def test_p8_a_vector_that_is_not_finite_is_named(call, place, strange):
    states = STATES.clone()
    states[1, 3, 2] = strange
    with pytest.raises(ValueError, match=f"must be finite, {place} holds {strange}"):
        call(states)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_p26_numbers_of_numpy(kind):
    reading = reading_of(STATES)
    found = neighbours(reading, kind(1), kind(2), kind(3))
    assert found == neighbours(reading, 1, 2, 3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"state": 2}, IndexError, r"state 2 .* 2 rows"),
        ({"row": 6}, IndexError, r"row 6 .* 6 rows"),
        ({"row": -1}, IndexError, "row -1"),
        ({"k": 0}, ValueError, "k must be at least 1"),
        ({"k": True}, TypeError, "k must be an int"),
        ({"row": 1.0}, TypeError, "row must be an int"),
    ],
)
def test_p26_numbers_out_of_range_are_named(change, error, message):
    with pytest.raises(error, match=message):
        neighbours(reading_of(STATES), **{"state": 0, "row": 0, "k": 1, **change})
