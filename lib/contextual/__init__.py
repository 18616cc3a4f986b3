"""The vectors of a word in its sentences: read, compared, probed, drawn and pushed."""

from lib.contextual.maps import layer_maps, turn_onto
from lib.contextual.reading import (
    Reading,
    held_out_accuracy,
    neighbours,
    ordered_share,
    pair_cosines,
    read_words,
    same_and_other,
)
from lib.contextual.senses import SENSE_AFTER, SENTENCES, SWAPPED
from lib.contextual.steering import log_odds, pushed

__all__ = [
    "SENSE_AFTER",
    "SENTENCES",
    "SWAPPED",
    "Reading",
    "held_out_accuracy",
    "layer_maps",
    "log_odds",
    "neighbours",
    "ordered_share",
    "pair_cosines",
    "pushed",
    "read_words",
    "same_and_other",
    "turn_onto",
]
