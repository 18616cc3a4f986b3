"""Word vectors into files: gensim's own format, and word2vec's text and binary one."""

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

SUFFIXES = (".kv", ".txt", ".bin")
ONE_FILE = 2**62  # bytes up to which gensim keeps an array inside its file


def save_vectors(
    path: str | pathlib.Path,
    words: Sequence[str],
    vectors: Tensor,
    counts: Tensor | None = None,
) -> None:
    """Write word vectors in the format that the file's ending asks for.

    The file is written beside its place and then moved there: whoever stops the
    program finds the old file or the new one, never half of one.

    Args:
        path: ends in `.kv` (gensim's `KeyedVectors.load`, one file), `.txt` or `.bin`
            (word2vec's formats, gensim's `load_word2vec_format`).
        words: V different words, without spaces for word2vec's formats.
        vectors: `[V, d]`.
        counts: `[V]`, which `.kv` keeps as gensim does; left out if None.

    Raises:
        ValueError: another ending, or words and vectors that are not equally many.
        ModuleNotFoundError: `.kv` without gensim; the message gives the command.

    Source: word2vec.c, the end of `TrainModel`; gensim 4.4.0, `KeyedVectors`.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_vectors(f"{folder}/v.txt", ["cat"], torch.tensor([[0.5, -1.0]]))
        ...     print(pathlib.Path(folder, "v.txt").read_text())
        1 2
        cat 0.5 -1.0
    """
    path = pathlib.Path(path)
    check_suffix(path)
    if vectors.dim() != 2 or len(words) != len(vectors):
        raise ValueError(f"{len(words)} words have vectors {list(vectors.shape)}")
    table = vectors.detach().cpu().float().numpy()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".kv":
            keyed = _keyed(words, table, counts)
            keyed.save(str(part), sep_limit=ONE_FILE, pickle_protocol=5)
        else:
            _write(part, words, table, binary=path.suffix == ".bin")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def check_suffix(path: pathlib.Path) -> None:
    """Refuse an ending that names no format.

    Example:
        >>> check_suffix(pathlib.Path("vectors.csv"))
        Traceback (most recent call last):
        ValueError: vectors.csv must end in one of .kv, .txt, .bin
    """
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} must end in one of {', '.join(SUFFIXES)}")


def _keyed(
    words: Sequence[str], table: np.ndarray, counts: Tensor | None
) -> "KeyedVectors":
    try:
        from gensim.models import KeyedVectors
    except ModuleNotFoundError as error:
        message = "a .kv file needs gensim: pip install gensim==4.4.0"
        raise ModuleNotFoundError(message, name="gensim") from error
    keyed = KeyedVectors(table.shape[1])
    keyed.add_vectors(list(words), table)
    if counts is not None:
        keyed.expandos["count"] = counts.cpu().numpy()
    return keyed


def _write(
    path: pathlib.Path, words: Sequence[str], table: np.ndarray, binary: bool
) -> None:
    with open(path, "wb") as file:
        file.write(f"{len(words)} {table.shape[1]}\n".encode())
        for word, row in zip(words, table, strict=True):
            numbers = row.astype("<f4").tobytes()
            if not binary:
                numbers = " ".join(map(repr, row.tolist())).encode()
            file.write(word.encode() + b" " + numbers + b"\n")
