"""A vocabulary split over processes: table, head and loss on `torch.distributed`."""

from lib.sharded.clip import clip_grad_norm
from lib.sharded.head import VocabParallelHead
from lib.sharded.launch import run_processes
from lib.sharded.loss import merge_over_ranks, vocab_parallel_cross_entropy
from lib.sharded.memory import PeakMemory
from lib.sharded.ranks import first_and_rows
from lib.sharded.table import VocabParallelEmbedding
from lib.sharded.traffic import Traffic, step_traffic

__all__ = [
    "PeakMemory",
    "Traffic",
    "VocabParallelEmbedding",
    "VocabParallelHead",
    "clip_grad_norm",
    "first_and_rows",
    "merge_over_ranks",
    "run_processes",
    "step_traffic",
    "vocab_parallel_cross_entropy",
]
