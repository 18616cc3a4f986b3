"""A folder of text files as sentences, read anew each time and never held whole."""

import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from lib.checks import check_size
from lib.corpus import Vocab, tokenize
from lib.word2vec.pairs import PIECE

LONGEST_LINE = 2**20  # characters that are read at once
LONGEST_SENTENCE = 10_000  # words; gensim reads no further into a sentence
END = -1  # of a sentence, in the file of ids
RARE = -2  # stands for a word that the vocabulary lacks


class FolderText:
    """The sentences of all files in a folder and below, one a line.

    A line is cut into words by `lib.corpus.tokenize`: lower case, runs of letters with
    apostrophes inside them; digits and punctuation are dropped. Hidden files and
    folders (with a dot in front) are left out, and so are lines without a word. Files
    come in the order of their paths. A line of more than 1,048,576 characters is cut
    there.

    Args:
        folder: the path of the folder, or of one file.
        encoding: of all files, by Python's name for it.

    Attributes:
        files: the paths, sorted.

    Raises:
        FileNotFoundError: no such folder, or no file in it.
        LookupError: an encoding that Python does not know.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_text("The cat sat.\\n\\nOn it!")
        ...     list(FolderText(folder))
        [['the', 'cat', 'sat'], ['on', 'it']]
    """

    def __init__(self, folder: str | pathlib.Path, encoding: str = "utf-8"):
        root = pathlib.Path(folder)
        "".encode(encoding)  # a LookupError names it
        if not root.exists():
            raise FileNotFoundError(f"no such folder: {root}")
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        self.files = [path for path in found if path.is_file() and _seen(path, root)]
        self.encoding = encoding
        if not self.files:
            raise FileNotFoundError(f"no file to read in {root}")

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.files:
            yield from self.sentences(path)

    def sentences(self, path: pathlib.Path) -> Iterator[list[str]]:
        """Read one file.

        Args:
            path: of the file.

        Yields:
            The words of a line that has some.
        """
        with open(path, encoding=self.encoding) as file:
            for line in iter(lambda: file.readline(LONGEST_LINE), ""):
                if words := tokenize(line):
                    yield words


def _seen(path: pathlib.Path, root: pathlib.Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


class StoredText:
    """A text as numbers in a file: tokenised once, and read quickly by every epoch.

    Memory holds the different words and a piece of about a million numbers, however
    long the text is; the file has 4 bytes a word.

    Args:
        text: the files.
        path: where the numbers go; an existing file is replaced.
        min_count: words that occur less often are dropped, which brings their
            neighbours closer together.

    Attributes:
        vocab: the words and their counts.

    Raises:
        OSError: files that cannot be read; the message counts and names them.
        UnicodeError: the same for files in another encoding.
        ValueError: no word occurs min_count times.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_text("to be or\\nnot to be")
        ...     text = StoredText(FolderText(folder), folder + "/.ids", min_count=2)
        ...     print(text.vocab.words, list(text), list(text.spelled()))
        ['be', 'to'] [tensor([1, 0]), tensor([1, 0])] [['to', 'be'], ['to', 'be']]
    """

    def __init__(self, text: FolderText, path: str | pathlib.Path, min_count: int = 5):
        check_size("min_count", min_count)
        self.path = pathlib.Path(path)
        index: dict[str, int] = {}
        with open(self.path, "wb") as out:
            for row in self._numbers(text, index):
                np.array(row, dtype=np.int32).tofile(out)
        counts = self._counts(len(index))
        self.vocab = Vocab.of_counts(dict(zip(index, counts, strict=True)), min_count)
        places = [self.vocab.index.get(word, RARE) for word in index]
        self.rows = np.array([*places, END], dtype=np.int64)  # [-1] is END

    def _numbers(self, text: FolderText, index: dict[str, int]) -> Iterator[list[int]]:
        """Number words as they come; go through all files before one is complained of.

        A file that cannot be read gives an OSError, one in another encoding a
        UnicodeError.
        """
        unread, foreign = [], []
        for path in text.files:
            try:
                for words in text.sentences(path):
                    yield [*(index.setdefault(w, len(index)) for w in words), END]
            except OSError as error:
                unread.append(f"{path} ({error.strerror})")
            except UnicodeError:
                foreign.append(str(path))
        total = len(text.files)
        if unread:
            raise OSError(f"{_named(unread, total)} cannot be read")
        if foreign:
            raise UnicodeError(f"{_named(foreign, total)} not in {text.encoding}")

    def _counts(self, words: int) -> list[int]:
        counts = np.zeros(words + 1, dtype=np.int64)
        for part in self._parts():
            counts += np.bincount(part + 1, minlength=words + 1)  # [0] counts ends
        return counts[1:].tolist()

    def _parts(self) -> Iterator[np.ndarray]:
        with open(self.path, "rb") as file:
            while len(part := np.fromfile(file, dtype=np.int32, count=PIECE)):
                yield part

    def __iter__(self) -> Iterator[Tensor]:
        """Give the ids of each sentence, int64 `[n]`."""
        rest = np.zeros(0, dtype=np.int64)
        for part in self._parts():
            rows = np.concatenate([rest, self.rows[part]])
            rows = rows[rows != RARE]
            ends = np.flatnonzero(rows == END)
            begin = 0
            for end in ends.tolist():
                yield torch.from_numpy(rows[begin:end])
                begin = end + 1
            rest = rows[begin:]

    def spelled(self) -> Iterable[list[str]]:
        """Give the same sentences as lists of words, which gensim reads."""
        return SpelledText(self)


class SpelledText:
    """The sentences of a `StoredText` as words, cut where gensim stops reading.

    Args:
        text: the text.
    """

    def __init__(self, text: StoredText):
        self.text = text

    def __iter__(self) -> Iterator[list[str]]:
        for ids in self.text:
            for part in ids.split(LONGEST_SENTENCE):
                yield self.text.vocab.decode(part)


def _named(files: list[str], total: int) -> str:
    """Count files, and name the first three."""
    names = ", ".join(files[:3]) + (", …" if len(files) > 3 else "")
    return f"{len(files)} of {total} files ({names})"
