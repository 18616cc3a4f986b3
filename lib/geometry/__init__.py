"""What directions mean: neighbours, analogies, their scores, and the space they fill.

Vectors are float `[V, d]`, one row a word; words are row numbers. A row of zeros has
no direction: its cosine with anything is 0.
"""

from lib.geometry.analogies import analogy, analogy_ranks
from lib.geometry.human_bias import Association, association, weat
from lib.geometry.isotropy import (
    hubness,
    k_occurrence,
    mean_cosine,
    pca,
    random_pair_cosines,
    random_rotation,
    remove_common,
)
from lib.geometry.neighbours import cosine_similarity, most_similar, unit_rows
from lib.geometry.scores import Score, evaluate_analogies, evaluate_similarity, spearman

__all__ = [
    "Association",
    "Score",
    "analogy",
    "analogy_ranks",
    "association",
    "cosine_similarity",
    "evaluate_analogies",
    "evaluate_similarity",
    "hubness",
    "k_occurrence",
    "mean_cosine",
    "most_similar",
    "pca",
    "random_pair_cosines",
    "random_rotation",
    "remove_common",
    "spearman",
    "unit_rows",
    "weat",
]
