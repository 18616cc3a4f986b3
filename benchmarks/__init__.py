"""Side by side with peers: `python -m benchmarks.bench_word2vec` and so on.

Fresh pages of memory cost more than most of what is measured here. torch asks the
system for huge pages when this variable is set before its first large allocation,
which is why it is set here, before any benchmark imports torch.
"""

import os

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
