"""The live tokenizer's page part, without a browser: what it holds and refuses."""

import base64
import json
import re

import numpy as np
import pytest
from bs4 import BeautifulSoup
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from lib.byte_pairs import BYTES, train_byte_pairs, write_token
from lib.interactive import live_tokens, token_boxes

EXAMPLES = {"a quote": 'say "<b>" & go', "digits": "3.14"}


def make(merges, rules=None, specials=("<|end|>",)):
    """A tokenizer of SmolLM2's make with other merges."""
    names = [*specials, *map(write_token, BYTES)]
    names += [write_token(left + right) for left, right in merges]
    vocab = {name: number for number, name in enumerate(names)}
    pairs = [(write_token(left), write_token(right)) for left, right in merges]
    tokenizer = Tokenizer(models.BPE(vocab, pairs))
    digits = pre_tokenizers.Digits(individual_digits=True)
    rules = rules or [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(rules)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in specials])
    return tokenizer


@pytest.fixture(scope="module")
def merges():
    return train_byte_pairs("she sells sea shells by the sea shore", 256 + 18)


def data(html, kind):
    return re.search(rf'class="{kind}">(.*?)</script>', html, re.S)[1]


def test_the_packed_merges_are_those_of_the_tokenizer(merges):
    html = live_tokens(make(merges), "sea", EXAMPLES)
    settings = json.loads(data(html, "settings"))
    pairs = np.frombuffer(base64.b64decode(data(html, "merges")), "<u2").reshape(-1, 2)
    token = {settings["bytes"][byte]: bytes([byte]) for byte in range(256)}
    for number, (left, right) in enumerate(pairs.tolist(), settings["first"]):
        assert (token[left], token[right]) == merges[number - settings["first"]]
        token[number] = token[left] + token[right]
    assert settings["first"] == 1 + 256
    assert settings["special"] == {"<|end|>": 0}


def test_without_a_script_the_first_text_is_cut(merges):
    tokenizer = make(merges)
    html = live_tokens(tokenizer, "she sells<|end|> x", EXAMPLES)
    page = BeautifulSoup(html, "html.parser")
    boxes = [item.span.text for item in page.select("li")]
    assert boxes == ["she", "␣sells", "<|end|>", "␣", "x"]
    ids = [int(item.small.text) for item in page.select("li")]
    assert ids == tokenizer.encode("she sells<|end|> x").ids
    said = page.select_one("[role=status]").text
    assert said == "18 characters, 18 bytes, 5 tokens."
    assert page.textarea.text.strip() == "she sells<|end|> x"
    values = [option["value"] for option in page.select("option[value]")]
    assert values == [*EXAMPLES.values()]
    assert all(label.has_attr("hidden") for label in page.select("label"))


def test_the_same_page_comes_out_twice(merges):
    pages = {live_tokens(make(merges), "a", EXAMPLES) for _ in range(2)}
    assert len(pages) == 1


def test_marked_tokens_have_a_class():
    page = BeautifulSoup(token_boxes([b"a", b"b", b"a"], marked={b"a"}), "html.parser")
    assert [item.get("class") for item in page.select("li")] == [["new"], None, ["new"]]


def without_digits():
    return [pre_tokenizers.ByteLevel(add_prefix_space=False)]


def with_prefix():
    digits = pre_tokenizers.Digits(individual_digits=True)
    return [digits, pre_tokenizers.ByteLevel(add_prefix_space=True)]


@pytest.mark.parametrize("rules", [without_digits, with_prefix])
def test_other_rules_of_cutting_are_refused(merges, rules):
    with pytest.raises(ValueError, match="the text must be cut by"):
        live_tokens(make(merges, rules()), "a", EXAMPLES)


def test_another_model_is_refused(merges):
    tokenizer = make(merges)
    tokenizer.model = models.WordLevel({"a": 0}, "a")
    with pytest.raises(ValueError, match="must be BPE, got WordLevel"):
        live_tokens(tokenizer, "a", EXAMPLES)


@pytest.mark.parametrize(("text", "example"), [("a\ud83d", "b"), ("b", "a\ud83d")])
def test_half_a_surrogate_pair_is_refused(merges, text, example):
    with pytest.raises(ValueError, match="half a surrogate pair"):
        live_tokens(make(merges), text, {"an example": example})


@pytest.mark.parametrize(("tokens", "bad"), [(["a"], "token 0 is 'a'"), (b"a", "97")])
def test_a_token_that_is_not_bytes_is_named(tokens, bad):
    with pytest.raises(TypeError, match=f"must be bytes.*{bad}"):
        token_boxes(tokens)


def test_what_stands_below_a_token_is_no_markup():
    page = BeautifulSoup(token_boxes([b"<b>"], ["<i>"]), "html.parser")
    assert [item.text for item in page.select("li > *")] == ["<b>", "<i>"]


def test_a_normaliser_is_refused(merges):
    tokenizer = make(merges)
    tokenizer.normalizer = normalizers.NFC()
    with pytest.raises(ValueError, match="no normaliser, got NFC"):
        live_tokens(tokenizer, "a", EXAMPLES)


SETTINGS = {
    "post_processor": lambda t: setattr(t, "post_processor", BEGIN),
    "truncation": lambda t: t.enable_truncation(2),
    "padding": lambda t: t.enable_padding(length=10),
    "ignore_merges": lambda t: setattr(t.model, "ignore_merges", True),
    "dropout": lambda t: setattr(t.model, "dropout", 0.5),
    "unk_token": lambda t: setattr(t.model, "unk_token", "<|end|>"),
    "lstrip": lambda t: t.add_special_tokens([AddedToken("<|x|>", lstrip=True)]),
    "single_word": lambda t: t.add_tokens([AddedToken("sea", single_word=True)]),
}
BEGIN = processors.TemplateProcessing(
    single="<|end|> $A", special_tokens=[("<|end|>", 0)]
)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_the_script_does_not_know_is_refused(merges, name):
    tokenizer = make(merges)
    SETTINGS[name](tokenizer)
    with pytest.raises(ValueError, match=f"the script knows no {name}"):
        live_tokens(tokenizer, "a", EXAMPLES)


def test_more_tokens_than_16_bits_count_are_refused(merges):
    names = [f"<|{number}|>" for number in range(0x10000)]
    with pytest.raises(ValueError, match="65810 tokens, 65536 fit"):
        live_tokens(make(merges, specials=names), "a", EXAMPLES)


def test_a_merge_whose_token_has_another_number_is_refused(merges):
    tokenizer = make([*merges[:3], *merges[:1]])  # the same token twice
    with pytest.raises(ValueError, match="should make token"):
        live_tokens(tokenizer, "a", EXAMPLES)


def test_texts_too_long_and_ids_of_another_length_are_refused(merges):
    with pytest.raises(ValueError, match="1001 characters, 1000 are allowed"):
        live_tokens(make(merges), "a" * 1001, EXAMPLES)
    with pytest.raises(ValueError, match="1 ids for 2 tokens"):
        token_boxes([b"a", b"b"], [1])
