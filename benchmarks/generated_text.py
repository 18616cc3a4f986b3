"""A text of any size: words by Zipf's law, and topics so that neighbours matter.

The word of rank r has 5 V / r occurrences in the language, so that the rarest has five.
A sentence has twenty words and one of fifty topics; half of its words are moved to the
nearest rank of that topic.
"""

import pathlib
import string

import torch
from torch import Tensor

from lib.corpus import Vocab

LEAST = 5  # occurrences of the rarest word in the language
TOPICS, LENGTH = 50, 20
LETTERS = 8  # of the shortest word
FILE_WORDS = 2_000_000  # of one file


def language(vocabulary: int) -> Vocab:
    """Name all words of a language, and count them as a whole text would."""
    ranks = torch.arange(1, vocabulary + 1, dtype=torch.float64)
    counts = (LEAST * vocabulary / ranks).round().long().tolist()
    words = map(spelling, range(vocabulary))
    return Vocab.of_counts(dict(zip(words, counts, strict=True)))


def spelling(number: int) -> str:
    """Spell a number in letters, eight at least, each number its own word.

    Example:
        >>> spelling(0), spelling(27)
        ('aaaaaaaa', 'bbaaaaaa')
    """
    letters = ""
    while number or len(letters) < LETTERS:
        number, letter = divmod(number, 26)
        letters += string.ascii_lowercase[letter]
    return letters


def sentences(counts: Tensor, words: int, seed: int = 0) -> Tensor:
    """Draw a text of the language, int64 `[S, 20]`."""
    generator = torch.Generator().manual_seed(seed)
    ends = counts.cumsum(0)
    number = words // LENGTH
    shape = (number, LENGTH)
    draw = torch.randint(int(ends[-1]), shape, generator=generator)
    ranks = torch.searchsorted(ends, draw, right=True)
    topic = torch.randint(TOPICS, (number, 1), generator=generator)
    own = (ranks // TOPICS * TOPICS + topic).clamp(max=len(counts) - 1)
    moved = torch.rand(shape, generator=generator) < 0.5
    return torch.where(moved, own, ranks)


def write_folder(folder: pathlib.Path, vocabulary: int, size: int) -> int:
    """Write files of sentences, one a line, of `size` bytes; return their words."""
    vocab, written, words = language(vocabulary), 0, 0
    while written < size:
        text = sentences(vocab.counts, FILE_WORDS, seed=words)
        lines = (" ".join(map(vocab.words.__getitem__, row)) for row in text.tolist())
        path = folder / f"{words // FILE_WORDS:04}.txt"
        data = ("\n".join(lines) + "\n").encode()[: size - written]
        path.write_bytes(data)
        written, words = written + len(data), words + text.numel()
    return words
