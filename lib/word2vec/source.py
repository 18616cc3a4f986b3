"""A text and its statistics, from which every epoch draws anew."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_ids, check_integer
from lib.word2vec.noise import (
    draw_others,
    keep_probability,
    noise_distribution,
    noise_ends,
)
from lib.word2vec.pairs import Text, bags_of, neighbours, pairs_of, pieces
from lib.word2vec.settings import Settings


class Piece(NamedTuple):
    """A part of the text.

    Args:
        ids, lengths: as `flatten` gives them.
        before, share: how much of the text comes before, and how much this is, 0 to 1.
    """

    ids: Tensor
    lengths: Tensor
    before: float = 0.0
    share: float = 1.0


class EpochSource:
    """A text and its statistics, from which each epoch draws anew, piece by piece.

    All chance comes from one CPU generator, so that a seed means the same everywhere.
    A text that can be read once only is refused: it is read to be checked, again for
    each epoch, and for the examples on which the loss is measured. One that fits into
    a piece is read once and kept.
    """

    def __init__(self, sentences: Text, counts: Tensor, settings: Settings, seed: int):
        check_rereadable(sentences)
        self.text, counts = sentences, counts.cpu()
        self.words, self.held = self._read_through(len(counts))
        self.settings = settings
        self.generator = torch.Generator().manual_seed(check_integer("seed", seed))
        self.ends = noise_ends(noise_distribution(counts, settings.power))
        self.keep = torch.ones(len(counts), dtype=torch.float32)
        if settings.sample:
            self.keep = keep_probability(counts, settings.sample)

    def _read_through(self, size: int) -> tuple[int, Piece | None]:
        """Check the text; return its number of words, and its piece if it is one."""
        words, number, paired, piece = 0, 0, False, None
        for ids, lengths in pieces(self.text):
            piece = Piece(check_ids(ids, size), lengths)
            words, number = words + len(ids), number + 1
            paired = paired or bool((lengths > 1).any())
        if not paired:
            raise ValueError("no pair of words: no sentence has two words to pair")
        return words, piece if number == 1 else None

    def pieces(self) -> Iterator[Piece]:
        """Read the text anew."""
        if self.held is not None:
            yield self.held
            return
        read = 0
        for ids, lengths in pieces(self.text):
            yield Piece(ids, lengths, read / self.words, len(ids) / self.words)
            read += len(ids)

    def sample(self, words: int) -> Piece:
        """Draw sentences by chance, of about this many words in all."""
        parts = [self._sample(piece, words * piece.share) for piece in self.pieces()]
        return Piece(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _sample(self, piece: Piece, words: float) -> tuple[Tensor, Tensor]:
        order = torch.randperm(len(piece.lengths), generator=self.generator)
        before = piece.lengths[order].cumsum(0) - piece.lengths[order]
        chosen = torch.zeros(len(order), dtype=torch.bool)
        chosen[order[before < words]] = True
        return piece.ids[chosen[_sentence_numbers(piece)]], piece.lengths[chosen]

    def thinned(self, piece: Piece) -> tuple[Tensor, Tensor]:
        """Drop occurrences by chance; return what is left as ids and lengths."""
        ids = piece.ids
        chance = torch.rand(ids.shape, generator=self.generator, dtype=torch.float32)
        stays = chance < self.keep[ids]
        sentence = _sentence_numbers(piece)[stays]
        return ids[stays], torch.bincount(sentence, minlength=len(piece.lengths))

    def examples(self, piece: Piece) -> tuple[Tensor, Tensor]:
        """Return a piece's inputs `[N]` (for CBOW `[N, C]`) and targets, shuffled."""
        ids, lengths = self.thinned(piece)
        context = neighbours(ids, lengths, self.settings.window, self.generator)
        if self.settings.architecture == "cbow":
            inputs, targets = bags_of(ids, context)
        else:
            inputs, targets = pairs_of(ids, context).unbind(1)
        order = torch.randperm(len(targets), generator=self.generator)
        return inputs[order], targets[order]

    def negatives(self, positives: Tensor) -> Tensor:
        """Draw negatives `[N, K]` for positives `[N]`."""
        return draw_others(
            self.ends, positives, self.settings.negatives, self.generator
        )

    def shared_negatives(self, blocks: int, shared: int, even: bool) -> Tensor:
        """Draw the negatives of each block, int32 `[blocks, shared]`.

        Evenly means at equal distances from a random start, in random order: each word
        comes as often as it is expected to, up to one. Drawn freely, of words that are
        expected once 37 % would not come at all.
        """
        size, most = (blocks, shared), int(self.ends[-1])
        if not even:
            draw = torch.randint(most, size, generator=self.generator)
            return torch.searchsorted(self.ends, draw, right=True, out_int32=True)
        number = blocks * shared
        first = torch.rand(1, generator=self.generator, dtype=torch.float64)
        draw = (torch.arange(number) + first).mul_(most / number).long()
        rows = torch.searchsorted(
            self.ends, draw.clamp(max=most - 1), right=True, out_int32=True
        )
        return rows[torch.randperm(number, generator=self.generator)].view(size)


def _sentence_numbers(piece: Piece) -> Tensor:
    """Return for each word the number of its sentence, `[N]`."""
    return torch.repeat_interleave(torch.arange(len(piece.lengths)), piece.lengths)


def check_rereadable(sentences: object) -> None:
    """Refuse a generator, or any other iterator, in place of sentences.

    Example:
        >>> check_rereadable(row for row in [[1, 2]])
        Traceback (most recent call last):
        TypeError: sentences are read more than once, and a generator is empty after the
        first time: give a list, or an object whose __iter__ starts anew
    """
    if isinstance(sentences, Iterator):
        raise TypeError(
            f"sentences are read more than once, and a {type(sentences).__name__} is "
            "empty after the first time: give a list, or an object whose __iter__ "
            "starts anew"
        )
