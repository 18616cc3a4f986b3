"""Word vectors from neighbours: three trainers and one loss to compare them by.

`train_autograd` is word2vec as the formulas read, `train_blocks` the same thing fast,
and `train_gensim` the library that most people use. `python -m lib.word2vec` trains on
a folder of texts.
"""

from lib.word2vec.block_trainer import train_blocks
from lib.word2vec.folder import FolderText, StoredText
from lib.word2vec.models import CBOW, SkipGram, sgns_loss
from lib.word2vec.noise import keep_probability, noise_distribution, sample_negatives
from lib.word2vec.pairs import cbow_examples, skipgram_pairs
from lib.word2vec.saving import save_vectors
from lib.word2vec.settings import Settings
from lib.word2vec.trainers import train_autograd
from lib.word2vec.training import TrainingRun, evaluation_examples, mean_loss
from lib.word2vec.with_gensim import train_gensim

__all__ = [
    "CBOW",
    "FolderText",
    "Settings",
    "SkipGram",
    "StoredText",
    "TrainingRun",
    "cbow_examples",
    "evaluation_examples",
    "keep_probability",
    "mean_loss",
    "noise_distribution",
    "sample_negatives",
    "save_vectors",
    "sgns_loss",
    "skipgram_pairs",
    "train_autograd",
    "train_blocks",
    "train_gensim",
]
