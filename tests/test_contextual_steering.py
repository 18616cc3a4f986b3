"""`lib.contextual`: a push against a forward pass by hand, and against nothing."""

import math

import pytest
import torch

from lib.contextual import SWAPPED, log_odds, pushed
from lib.smollm import load_smollm2

SIDES = (("river", "water"), ("money", "loan"))
TEXTS = ["They spoke of the bank", "He walked all the way to the old bank"]


@pytest.fixture(scope="module")
def loaded():
    return load_smollm2("cpu")


@pytest.fixture(scope="module")
def push():
    return 40 * torch.randn(2, 576, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def by_hand(model, tokenizer, text, cue, layer, push):
    """One text alone; the blocks run one by one, as `Transformer._states` runs them."""
    own, tail = (tokenizer.encode(part).ids for part in (text, cue))
    ids = torch.tensor([own + tail])
    call = model._prepare(ids, None, None, None)
    x = model.embedding(ids)
    for number, block in enumerate(model.blocks, start=1):
        x = block(x, number - 1, call)
        if number == layer:
            x[0, len(own) - 1] += push
    logits = model.head(model.norm(x))[0, -1]
    first, second = ([tokenizer.encode(f" {w}").ids[0] for w in s] for s in SIDES)
    return (logits[first].mean() - logits[second].mean()).item()


@pytest.mark.parametrize("layer", [1, 10, 29])
def test_a_push_equals_the_pass_by_hand(loaded, push, layer):
    found = log_odds(*loaded, TEXTS, " and the", SIDES, layer, push)
    for row, text in enumerate(TEXTS):
        wanted = by_hand(*loaded, text, " and the", layer, push[row])
        assert found[row].item() == pytest.approx(wanted, abs=2e-3)


def test_nothing_pushed_nothing_changed_and_no_hook_is_left(loaded, push):
    plain = log_odds(*loaded, TEXTS, " and the", SIDES)
    nothing = log_odds(*loaded, TEXTS, " and the", SIDES, 10, torch.zeros(2, 576))
    assert torch.equal(plain, nothing)
    moved = log_odds(*loaded, TEXTS, " and the", SIDES, 10, push)
    assert (moved - plain).abs().min() > 0.01
    assert torch.equal(log_odds(*loaded, TEXTS, " and the", SIDES), plain)
    # Nobody reads the last layer's state of a word that is not the last.
    assert torch.equal(log_odds(*loaded, TEXTS, " and the", SIDES, 30, push), plain)


def fail_inside(model, push):
    with pushed(model, 5, torch.tensor([1, 10_000]), push):  # no text is that long
        assert len(model.blocks[4]._forward_hooks) == 1
        model(torch.tensor([[1, 2], [3, 4]]))


def test_the_hook_goes_when_the_block_fails(loaded, push):
    with pytest.raises(IndexError):
        fail_inside(loaded[0], push)
    assert len(loaded[0].blocks[4]._forward_hooks) == 0


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([[1, 2]], ValueError, "2 places for 1 texts"),
        ([[1], [2]], IndexError, "place 1 is outside the table: 1 rows"),
    ],
)
def test_a_push_that_meets_other_texts_is_refused(loaded, push, ids, error, message):
    with (
        pytest.raises(error, match=message),
        pushed(loaded[0], 5, torch.tensor([0, 1]), push),
    ):
        loaded[0](torch.tensor(ids))
    assert len(loaded[0].blocks[4]._forward_hooks) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": []}, "texts"),
        ({"texts": ["the bank", ""]}, "a text is empty"),
        ({"cue": ""}, "a cue is empty"),
        ({"sides": (("river",), ())}, "a side is empty"),
        ({"sides": (("river",), ("cashiers",))}, "'cashiers' is 2 tokens"),
        ({"layer": 0}, "layer must be"),
        ({"layer": 31}, "layer must be"),
        ({"push": torch.zeros(1, 576)}, r"push must be \[2, 576\], got \[1, 576\]"),
        ({"push": torch.full((2, 576), math.inf)}, "push must be finite"),
    ],
)
def test_what_cannot_be_asked_is_named(loaded, change, message):
    asked = {"texts": TEXTS, "cue": " and the", "sides": SIDES, "layer": 10}
    asked |= {"push": torch.zeros(2, 576), **change}
    with pytest.raises(ValueError, match=message):
        log_odds(*loaded, **asked)


def test_swapped_sentences_hold_the_same_words(loaded):
    for text, river, money in SWAPPED:
        pair = [text.format(river, money), text.format(money, river)]
        words = [sentence.replace(",", "").split() for sentence in pair]
        assert sorted(words[0]) == sorted(words[1])
        for sentence in pair:
            assert loaded[1].encode(sentence).tokens[-2:] == ["Ġbank", "."]
