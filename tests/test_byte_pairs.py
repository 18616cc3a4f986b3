"""`lib.byte_pairs`, against the splitter, trainer and encoder of `tokenizers`."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lib import byte_pairs
from lib.byte_pairs import (
    BYTES,
    count_pairs,
    count_words,
    encode_byte_pairs,
    merge_pair,
    read_token,
    readable,
    split_words,
    text_bytes,
    train_byte_pairs,
    write_token,
)

# Characters that this Python and the reference both know; a lone surrogate is no text.
any_text = st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=40)
few_letters = st.text("abc  ä", min_size=1, max_size=60)
AWKWARD = [
    "",
    " ",
    "   x",
    "x   ",
    "a\n\n b\t c",
    "don't DON'T we'll 'tis 's",
    "2026 x2 ½ ² Ⅻ ٣",
    "_under_score__",
    "naïve café été",
    "日本語の文 한국어 हिन्दी עברית",
    "👩‍👩‍👧 🙂🙂 e\u0301",
    "def f(x):\n    return x**2  # ok\n",
    "\x1c\x1d \x85 \u2028 \u00a0 \u3000x",
]


def reference_tokenizer(vocab=None, merges=None):
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_reference(text, vocab_size):
    """The reference's merges, as text in its own alphabet, and its tokenizer."""
    tokenizer = reference_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([text], trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(pair) for pair in merges], tokenizer


def test_the_order_of_the_bytes_is_that_of_the_reference():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    assert [write_token(byte) for byte in BYTES] == alphabet
    assert sorted(BYTES) == [bytes([b]) for b in range(256)]


@settings(max_examples=200)
@given(any_text)
def test_tokens_are_written_as_the_reference_writes_them(text):
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = "".join(piece for piece, _ in splitter.pre_tokenize_str(text))
    assert write_token(text.encode()) == written
    assert read_token(written) == text.encode()


@pytest.mark.parametrize("written", [" token", "tok\u0144en", "日"])
def test_a_character_that_stands_for_no_byte_is_named(written):
    with pytest.raises(ValueError, match="stands for no byte") as error:
        read_token(written)
    assert repr(written) in str(error.value)


@settings(max_examples=300)
@given(any_text)
@example("'s'S 't'LL")
def test_words_are_cut_as_the_reference_cuts_them(text):
    spans = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert split_words(text) == [text[start:end] for _, (start, end) in spans]


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_are_cut_as_the_reference_cuts_them(text):
    spans = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert split_words(text) == [text[start:end] for _, (start, end) in spans]


@settings(max_examples=150)
@given(few_letters, st.integers(0, 25))
def test_merges_are_those_of_the_reference(text, more):
    expected, _ = train_reference(text, 256 + more)
    ours = train_byte_pairs(text, 256 + more)
    assert [(write_token(a), write_token(b)) for a, b in ours] == expected


@settings(max_examples=150)
@given(few_letters, any_text | few_letters, st.integers(0, 25))
def test_tokens_are_those_of_the_reference(training, text, more):
    _, reference = train_reference(training, 256 + more)
    tokens = encode_byte_pairs(text, train_byte_pairs(training, 256 + more))
    assert [write_token(token) for token in tokens] == reference.encode(text).tokens
    assert b"".join(tokens).decode() == text


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_texts_come_back(text):
    merges = train_byte_pairs(" ".join(AWKWARD), 300)
    assert len(merges) == 44
    assert b"".join(encode_byte_pairs(text, merges)).decode() == text


def test_pairs_are_counted_by_a_slow_loop():
    text = "banana bandana banana"
    slow = {}
    for word in text.replace(" ", "| ").split("|"):
        for i in range(len(word) - 1):
            pair = word[i].encode(), word[i + 1].encode()
            slow[pair] = slow.get(pair, 0) + 1
    assert count_pairs(count_words(text)) == slow


def test_a_merge_takes_pairs_from_the_left_and_not_twice():
    assert merge_pair([b"a"] * 5, (b"a", b"a")) == (b"aa", b"aa", b"a")
    assert merge_pair((), (b"a", b"b")) == ()


def test_merges_stop_when_no_pair_is_left():
    assert train_byte_pairs("ab ab", 1000) == [(b"a", b"b"), (b" ", b"ab")]
    assert train_byte_pairs("", 1000) == []
    assert train_byte_pairs("ab ab", 256) == []


def test_without_merges_a_text_is_its_bytes():
    assert encode_byte_pairs("é", []) == [b"\xc3", b"\xa9"]


@pytest.mark.parametrize("text", [b"bytes", ["a", "list"], None, 3])
def test_a_text_must_be_a_string(text):
    for call in (split_words, count_words):
        with pytest.raises(TypeError, match="must be a string"):
            call(text)
    with pytest.raises(TypeError, match="must be a string"):
        encode_byte_pairs(text, [])


def test_the_size_must_hold_the_bytes():
    with pytest.raises(ValueError, match=r"at least 256.*got 255"):
        train_byte_pairs("text", 255)
    for size in (300.0, True, "300"):
        with pytest.raises(TypeError, match="int"):
            train_byte_pairs("text", size)


def test_a_token_is_readable():
    assert readable(b" a b\n\n\tc") == "␣a␣b⏎⏎⇥c"
    assert readable("日".encode()) == "日"
    assert readable("日".encode()[:2]) == r"\xe6\x97"
    assert readable(b"") == ""


def test_neither_torch_nor_tokenizers_is_used():
    assert not {"torch", "tokenizers"} & set(vars(byte_pairs))


# Cases of others' faults, by their ids ----------------------------------------


@pytest.mark.parametrize("half", [chr(c) for c in (0xD83D, 0xDE00, 0xDFFF)])
@pytest.mark.parametrize("text", ["{}", "a{} b", "see {}", "12{}", "é{}日"])
@pytest.mark.parametrize(
    "call",
    [
        text_bytes,
        count_words,
        lambda text: encode_byte_pairs(text, []),
        lambda text: train_byte_pairs(text, 260),
        read_token,
    ],
)
def test_p9_half_a_surrogate_pair_is_named(call, text, half):
    with pytest.raises(ValueError, match=r"half a surrogate|no byte") as error:
        call(text.format(half).replace(" ", "Ġ" if call is read_token else " "))
    assert type(error.value) is ValueError
    if call is not read_token or "日" not in text:
        assert repr(half) in str(error.value)


def test_p9_a_whole_pair_is_a_character():
    text = "a \U0001f600 b"
    assert b"".join(encode_byte_pairs(text, [])) == text_bytes(text) == text.encode()


@pytest.mark.parametrize("size", [np.int64(258), np.uint16(258)])
def test_p26_sizes_of_numpy(size):
    assert train_byte_pairs("low low", size) == train_byte_pairs("low low", 258)
    with pytest.raises(TypeError, match="vocab_size"):
        train_byte_pairs("low", np.True_)
