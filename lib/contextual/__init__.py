"""The vectors of a word in its sentences: reading, comparing and probing them."""

from lib.contextual.reading import (
    Reading,
    held_out_accuracy,
    neighbours,
    ordered_share,
    pair_cosines,
    read_words,
    same_and_other,
)
from lib.contextual.senses import SENSE_AFTER, SENTENCES

__all__ = [
    "SENSE_AFTER",
    "SENTENCES",
    "Reading",
    "held_out_accuracy",
    "neighbours",
    "ordered_share",
    "pair_cosines",
    "read_words",
    "same_and_other",
]
