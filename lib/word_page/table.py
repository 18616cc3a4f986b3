"""A table of words as text: their rows in 8 bits a number, and what to ask first."""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lib.checks import check_size, check_vectors

LARGEST = 127  # of the whole numbers in 8 bits that have a negative
Question = tuple[str, str, str, str]

# Asked first wherever a table has their words; the last of four is what to expect.
EXAMPLES: tuple[Question, ...] = (
    ("man", "woman", "king", "queen"),
    ("france", "paris", "japan", "tokyo"),
    ("good", "better", "bad", "worse"),
    ("go", "went", "come", "came"),
    ("dog", "dogs", "car", "cars"),
    ("man", "woman", "doctor", "nurse"),
)


class Table(NamedTuple):
    """Words and a row for each, checked.

    Args:
        words: all different.
        vectors: `[V, d]`, finite, on the CPU.
    """

    words: list[str]
    vectors: Tensor


def pack_rows(vectors: Tensor) -> Tensor:
    """Round each vector to whole numbers from −127 to 127, its largest entry to ±127.

    A row keeps its direction up to rounding and loses its length, which no cosine asks
    for. A row of zeros stays one.

    Args:
        vectors: `[V, d]`.

    Returns:
        int8 `[V, d]`; `.float()` of it can be given to `lib.geometry`.

    Raises:
        TypeError: the vectors are not floating point.
        ValueError: they are not `[V, d]` with d of 1 or more, or a row is not finite.

    Example:
        >>> pack_rows(torch.tensor([[0.5, -1.0], [3e-9, 1e-9], [0.0, 0.0]])).tolist()
        [[64, -127], [127, 42], [0, 0]]
    """
    x = check_vectors("vectors", vectors).detach().double()
    check_size("the width of the vectors", x.shape[1])
    peak = x.abs().amax(1, keepdim=True)  # [V, 1]
    return (x / peak.where(peak > 0, 1) * LARGEST).round().to(torch.int8)


def as_table(words: Sequence[str], vectors, limit: int | None = None) -> Table:
    """Check words and vectors, and keep the first `limit` of both."""
    words = _check_words(words)
    if not isinstance(vectors, Tensor):
        vectors = torch.tensor(np.asarray(vectors))  # a copy: it may be read-only
    rows = len(vectors) if vectors.dim() else 0
    if rows != len(words):
        raise ValueError(f"{len(words)} words for {rows} vectors")
    check_size("words", len(words))
    keep = len(words) if limit is None else check_size("limit", limit)
    vectors = check_vectors("vectors", vectors.detach()[:keep].cpu())
    check_size("the width of the vectors", vectors.shape[1])
    words = words[:keep]
    if len(set(words)) < len(words):
        _name_the_double(words)
    return Table(words, vectors)


def packed_text(table: Table, examples: Iterable[Question] = EXAMPLES) -> str:
    """Write a table as JSON that holds no character of markup, whatever its words are.

    Words and rows stand in base64; of the examples, those are kept whose words all have
    a row.
    """
    row = {word: number for number, word in enumerate(table.words)}
    asked = [_check_example(example) for example in examples]
    kept = [[row[word] for word in four] for four in asked if row.keys() >= set(four)]
    words = json.dumps(table.words, ensure_ascii=False, separators=(",", ":"))
    packed = {
        "width": table.vectors.shape[1],
        "examples": kept,
        "words": _base64(words.encode("utf-8", "surrogatepass")),
        "rows": _base64(pack_rows(table.vectors).numpy().tobytes()),
    }
    return json.dumps(packed, separators=(",", ":"))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _check_words(words: Sequence[str]) -> list[str]:
    if isinstance(words, str | bytes):
        raise TypeError(f"words must be a list, got one {type(words).__name__}")
    words = list(words)
    for row, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"words must be strings, row {row} is {word!r}")
    return words


def _check_example(words: Sequence[str]) -> Sequence[str]:
    if isinstance(words, str) or len(words) != 4:
        raise ValueError(f"an example must be 4 words, got {words!r}")
    return words


def _name_the_double(words: list[str]) -> None:
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if first.setdefault(word, row) != row:
            raise ValueError(
                f"words must differ, {word!r} has rows {first[word]} and {row}"
            )
