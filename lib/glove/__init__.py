"""What counts know: co-occurrences, PMI and its SVD, GloVe, and published vectors."""

from lib.glove.counts import cooccurrence, pmi, ppmi, svd_vectors
from lib.glove.training import (
    GloVe,
    glove_loss,
    glove_weight,
    load_glove_6b,
    train_glove,
)

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
