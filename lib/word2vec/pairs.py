"""Which words are neighbours: the pairs and the bags that word2vec learns from.

A text is a list of sentences, and a sentence a row of word ids. Neighbours are looked
for inside a sentence only: at its edges the window is cut off, as in gensim.
"""

from collections.abc import Iterable, Iterator, Sequence
from numbers import Number

import torch
from torch import Tensor

from lib.checks import Range, check_integer, check_integers, check_ranges, check_size

PAD = -1  # stands where a context has no word
LARGEST = torch.iinfo(torch.int64).max
PIECE = 2**20  # words that are read, thinned out and cut at a time

Text = Tensor | Sequence[int] | Iterable[Tensor | Sequence[int]]


def flatten(sentences: Text) -> tuple[Tensor, Tensor]:
    """Join sentences into one row of ids, and keep their lengths.

    Args:
        sentences: integer tensors `[n]` or lists of ints; one alone is one sentence.

    Returns:
        ids int64 `[N]` and lengths int64 `[S]`, N their sum.

    Raises:
        TypeError: ids that are not integers, such as words that are still strings.
        ValueError: a sentence with more than one dimension.
        IndexError: a negative id.

    Example:
        >>> flatten([[4, 5, 6], [7]])
        (tensor([4, 5, 6, 7]), tensor([3, 1]))
    """
    return _joined(list(_rows(sentences)))


def pieces(sentences: Text) -> Iterator[tuple[Tensor, Tensor]]:
    """Read a text in pieces of about a million words, as many whole sentences as fit.

    Where the cuts fall depends on the sentences alone, not on what holds them, so that
    a list and a stream of the same text are one text. A sentence of more than a piece
    is cut.

    Args:
        sentences: as for `flatten`.

    Returns:
        One after another, ids and lengths on the CPU as `flatten` gives them.

    Example:
        >>> [ids.tolist() for ids, lengths in pieces([[4, 5, 6], [7]])]
        [[4, 5, 6, 7]]
    """
    held: list[Tensor] = []
    words = 0
    for row in _rows(sentences):
        for part in row.split(PIECE) if len(row) > PIECE else [row]:
            held.append(part.cpu())
            words += len(part)
            if words >= PIECE:
                yield _joined(held)
                held, words = [], 0
    if held:
        yield _joined(held)


def _joined(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    ids = torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64)
    check_ranges(
        Range(ids, 0, LARGEST, lambda wrong: IndexError(f"id {wrong} is negative"))
    )
    return ids, torch.tensor([len(row) for row in rows], device=ids.device).long()


def _rows(sentences: Text) -> Iterator[Tensor]:
    """Give each sentence as int64; a tensor, or numbers in a row, are one sentence."""
    if isinstance(sentences, Tensor | str | bytes):
        sentences = [sentences]
    rows = iter(sentences)
    for first in rows:
        if isinstance(first, Number):
            yield _sentence([first, *rows])
            return
        yield _sentence(first)
        break
    yield from map(_sentence, rows)


def _sentence(words: Tensor | Sequence[int]) -> Tensor:
    if not isinstance(words, Tensor):
        words = [check_integer("an id", word) for word in words]
        return torch.tensor(words, dtype=torch.int64)
    if check_integers("ids", words).dim() != 1:
        raise ValueError(f"a sentence has shape (n,), got {tuple(words.shape)}")
    return words.long()


def window_reach(
    lengths: Tensor, window: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Say how many neighbours each word has on its left and on its right.

    Args:
        lengths: int64 `[S]`, words of each sentence.
        window: the most neighbours on one side.
        generator: draws each word's own window uniformly from 1 to `window`, by which
            word2vec favours near neighbours; without one the window is full.

    Returns:
        left and right, int64 `[N]`; never beyond the sentence's edges.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.2; word2vec.c.

    Example:
        >>> window_reach(torch.tensor([3, 1]), window=5)
        (tensor([0, 1, 2, 0]), tensor([2, 1, 0, 0]))
    """
    window = check_size("window", window)
    first = torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)  # [N]
    place = torch.arange(len(first), device=first.device) - first
    after = torch.repeat_interleave(lengths, lengths) - 1 - place
    if generator is None:
        return place.clamp(max=window), after.clamp(max=window)
    own = torch.randint(1, window + 1, place.shape, generator=generator)
    return torch.minimum(place, own), torch.minimum(after, own)


def neighbours(
    ids: Tensor,
    lengths: Tensor,
    window: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Lay each word's neighbours in a row, in the order of the text.

    Args:
        ids, lengths: the text, as `flatten` gives it.
        window, generator: as for `window_reach`.

    Returns:
        int64 `[N, 2 · window]`, PAD where there is no word.

    Example:
        >>> neighbours(*flatten([[4, 5, 6]]), window=1)
        tensor([[-1,  5],
                [ 4,  6],
                [ 5, -1]])
    """
    window = check_size("window", window)
    left, right = window_reach(lengths, window, generator)
    side = torch.arange(1, window + 1, device=ids.device)
    offset = torch.cat([-side.flip(0), side])  # [2w]
    inside = (offset >= -left[:, None]) & (offset <= right[:, None])  # [N, 2w]
    place = torch.arange(len(ids), device=ids.device)[:, None] + offset
    return ids[place * inside].where(inside, PAD)


def skipgram_pairs(
    ids: Text, window: int, generator: torch.Generator | None = None
) -> Tensor:
    """List all pairs of a word and a neighbour, for a model that predicts neighbours.

    Args:
        ids: a list of sentences, or one sentence `[n]`.
        window: the furthest neighbour on each side, in words; it does not cross the
            edge of a sentence.
        generator: shrinks each word's window at random, see `window_reach`.

    Returns:
        int64 `[P, 2]`, rows (center, neighbour) in the order of the text.

    Raises:
        TypeError, ValueError, IndexError: ids as for `flatten`, or window below 1.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.2.

    Example:
        >>> skipgram_pairs([[4, 5], [6]], window=2)
        tensor([[4, 5],
                [5, 4]])
    """
    flat, lengths = flatten(ids)
    return pairs_of(flat, neighbours(flat, lengths, window, generator))


def pairs_of(ids: Tensor, context: Tensor) -> Tensor:
    """Turn words `[N]` and their neighbours `[N, C]` into pairs `[P, 2]`."""
    row, column = (context != PAD).nonzero(as_tuple=True)
    return torch.stack([ids[row], context[row, column]], dim=1)


def cbow_examples(
    ids: Text, window: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """List each word with all its neighbours, for a model that predicts the word.

    Args:
        ids, window, generator: as for `skipgram_pairs`.

    Returns:
        contexts int64 `[N, 2 · window]`, with -1 where there is no word, and targets
        int64 `[N]`. A word without neighbours is left out.

    Raises:
        TypeError, ValueError, IndexError: ids as for `flatten`, or window below 1.

    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.1.

    Example:
        >>> contexts, targets = cbow_examples([[4, 5], [6]], window=1)
        >>> contexts
        tensor([[-1,  5],
                [ 4, -1]])
        >>> targets
        tensor([4, 5])
    """
    flat, lengths = flatten(ids)
    return bags_of(flat, neighbours(flat, lengths, window, generator))


def bags_of(ids: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    """Leave out the words `[N]` whose row of neighbours `[N, C]` is empty."""
    company = (context != PAD).any(dim=1)
    return context[company], ids[company]
