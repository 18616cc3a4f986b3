"""What counts know: co-occurrences, PMI and its SVD, GloVe, and published vectors."""

from lib.glove.counts import cooccurrence
from lib.glove.information import pmi, ppmi, svd_vectors
from lib.glove.loss import GloVe, glove_loss, glove_weight
from lib.glove.published import load_glove_6b
from lib.glove.training import train_glove

__all__ = [
    "GloVe",
    "cooccurrence",
    "glove_loss",
    "glove_weight",
    "load_glove_6b",
    "pmi",
    "ppmi",
    "svd_vectors",
    "train_glove",
]
