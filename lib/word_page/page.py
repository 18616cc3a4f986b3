"""The machine as a piece of HTML: under a cell of a notebook, and in a file alone."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from torch import Tensor

from lib.word_page.table import EXAMPLES, Question, Table, as_table, packed_text

HERE = Path(__file__).parent


def analogy_machine(
    words: Sequence[str], vectors: Tensor, examples: Iterable[Question] = EXAMPLES
):
    """Show neighbours, analogies and a map that the reader's browser computes.

    As the value of a cell it becomes part of the stored notebook and of the built page,
    where no kernel runs. What it stores is the same after every run.

    Args:
        words: all different; most frequent first, since completion offers them so.
        vectors: `[V, d]`, one row a word. Of 4,800 words and width 50 the table takes
            380 kB of text.
        examples: questions to choose from, a is to b as c is to the fourth; those with
            a word that has no row are left out.

    Returns:
        An `IPython.display.HTML`.

    Raises:
        TypeError: a word is not a string, or the vectors are not floating point.
        ValueError: no word, a word twice, another number of vectors than of words, a
            row that is not finite, or an example of other than four words.

    Example:
        >>> import torch
        >>> machine = analogy_machine(["king", "queen"], torch.eye(2))
        >>> machine.data[:25]
        '<div class="word-machine '
    """
    from IPython.display import HTML

    return HTML(_machine(as_table(words, vectors), examples))


def write_page(
    path: str | Path,
    words: Sequence[str],
    vectors: Tensor,
    title: str = "Words and their neighbours",
    limit: int | None = 20_000,
    examples: Iterable[Question] = EXAMPLES,
) -> Path:
    """Write one page of HTML on which to explore word vectors, with no network.

    The file is complete: program, style and table. A word takes 4/3 · (d + 3 + its
    bytes) bytes in it, so 20,000 words of width 100 make about 3 MB.

    Args:
        path: where to write; a file that is there is written over.
        words: all different, most frequent first, as gensim's `index_to_key`.
        vectors: `[V, d]`, one row a word, a tensor or an array such as gensim's
            `vectors`.
        title: of the page.
        limit: keep the first so many words alone; None keeps all.
        examples: see `analogy_machine`.

    Returns:
        The path of the page.

    Raises:
        TypeError, ValueError: see `analogy_machine`; or a `limit` below 1.
        OSError: the file cannot be written.

    Example:
        >>> import tempfile, torch
        >>> folder = tempfile.TemporaryDirectory()
        >>> page = write_page(folder.name + "/words.html", ["king"], torch.eye(1))
        >>> page.read_text(encoding="utf-8")[:15]
        '<!doctype html>'
        >>> folder.cleanup()
    """
    table = as_table(words, vectors, limit)
    text = _template("page.html").substitute(
        title=escape(title),
        style=_read("page.css"),
        words=f"{len(table.words):,}",
        width=table.vectors.shape[1],
        machine=_machine(table, examples),
    )
    path = Path(path)
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return path


def _machine(table: Table, examples: Iterable[Question]) -> str:
    """The machine and its table, to be put anywhere in a page."""
    return _template("machine.html").substitute(
        style=_read("machine.css"),
        script=_read("machine.js"),
        table=packed_text(table, examples),
    )


def _template(name: str) -> Template:
    return Template(_read(name))


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
