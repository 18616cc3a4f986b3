"""The rows that are read: text as characters, and text that hides a digit."""

import numpy as np
import torch
from torch import Tensor

from lib.checks import check_integers, check_size
from lib.corpus import load_kjv

DIGITS, QUESTION = torch.arange(ord("0"), ord("9") + 1), ord("?")
HELD_OUT = 200_000  # characters at the end of the text


def load_characters() -> tuple[Tensor, Tensor]:
    """Load the King James text as characters: words in lower case, single spaces.

    It has no digit and no question mark, which are left for the task of recall.

    Returns:
        Two int64 `[n]` of ids below 128, 3.8 million to train on and the last 200,000.

    Example:
        >>> train_ids, test_ids = load_characters()
        >>> bytes(train_ids[:25].tolist()).decode(), len(test_ids)
        ('in the beginning god crea', 200000)
    """
    text = " ".join(" ".join(verse) for verse in load_kjv())
    codes = np.frombuffer(text.encode("ascii", "ignore"), np.uint8)
    ids = torch.from_numpy(codes.copy())
    return ids[:-HELD_OUT].long(), ids[-HELD_OUT:].long()


def cut_rows(ids: Tensor, rows: int, length: int, generator: torch.Generator) -> Tensor:
    """Cut pieces out of a text, at random.

    Args:
        ids: integers `[n]`.
        rows: pieces, B.
        length: characters of each.
        generator: of the CPU.

    Returns:
        `[B, length]`.

    Raises:
        ValueError: a size below 1, or a text that is shorter than one piece.

    Example:
        >>> cut_rows(torch.arange(9), 2, 9, torch.Generator()).tolist()[0]
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    check_integers("ids", ids)
    check_size("rows", rows)
    check_size("length", length)
    if len(ids) < length:
        raise ValueError(f"a row needs {length} characters, the text has {len(ids)}")
    starts = torch.randint(len(ids) - length + 1, (rows,), generator=generator)
    return ids[starts[:, None] + torch.arange(length)]


def hide_digits(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Write into each row one digit, and later `?` with the same digit after it.

    Both places are drawn at random, so that no place gives the question away.

    Args:
        rows: ids `[B, T]`, T at least 3.
        generator: of the CPU.

    Returns:
        The changed rows, and the places of the question marks, int64 `[B]`.

    Raises:
        ValueError: rows of less than 3 characters.

    Example:
        >>> rows, asked = hide_digits(torch.full((1, 3), 97), torch.Generator())
        >>> text = bytes(rows[0].tolist()).decode()
        >>> text[1], text[0] == text[2], asked.tolist()
        ('?', True, [1])
    """
    tokens = check_size("characters of a row", rows.shape[1], at_least=3)
    order = torch.rand(len(rows), tokens - 1, generator=generator).argsort(1)
    digit_at, asked = order[:, :2].sort(1).values.unbind(1)  # [B]
    return _write(rows, digit_at, asked, generator), asked


def far_rows(rows: Tensor, near: int, generator: torch.Generator) -> Tensor:
    """Hide a digit among the first characters of a row, and ask for it at the end.

    Args:
        rows: ids `[B, T]`.
        near: the digit stands before this place; T at least near + 2.
        generator: of the CPU.

    Returns:
        Rows `[B, T]` with a digit in the first `near` places, `?` in the last but one,
        and in the last the digit again.

    Raises:
        ValueError: rows too short for that.

    Example:
        >>> rows = far_rows(torch.full((1, 9), 97), 1, torch.Generator())
        >>> text = bytes(rows[0].tolist()).decode()
        >>> text[1:8], text[0] == text[8]
        ('aaaaaa?', True)
    """
    tokens = check_size("characters of a row", rows.shape[1], at_least=near + 2)
    digit_at = torch.randint(near, (len(rows),), generator=generator)
    return _write(rows, digit_at, torch.full_like(digit_at, tokens - 2), generator)


def _write(
    rows: Tensor, digit_at: Tensor, asked: Tensor, generator: torch.Generator
) -> Tensor:
    every = torch.arange(len(rows))
    digits = DIGITS[torch.randint(len(DIGITS), (len(rows),), generator=generator)]
    rows = rows.clone()
    rows[every, digit_at] = digits
    rows[every, asked] = QUESTION
    rows[every, asked + 1] = digits
    return rows
