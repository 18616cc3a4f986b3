"""What every run of the tests and of the notebooks shares."""

import gc

import nbval.kernel
from kernels import KernelManager

# What takes longest comes first, so that no worker is left alone with it at the end.
LONGEST = (
    "tests/book/test_views_desktop.py",
    "tests/book/test_lab.py",
    "tests/book/test_views_phone.py",
    "chapters/15_tied_head.ipynb",
    "chapters/16_large_vocabulary.ipynb",
    "tests/test_sharded.py",
    "chapters/14_length_extrapolation.ipynb",
    "chapters/11_rope_scaling.ipynb",
    "chapters/04_glove.ipynb",
    "chapters/03_word2vec.ipynb",
    "chapters/03a_gensim.ipynb",
    "chapters/09_learned.ipynb",
    "chapters/05_geometry.ipynb",
    "chapters/10_rope.ipynb",
    "tests/test_transformer.py",
    "tests/test_smollm.py",
    "tests/test_checks.py",
    "tests/test_word2vec_training.py",
)


def pytest_configure(config):
    """Let each notebook's kernel have sockets of its own."""
    nbval.kernel.KernelManager = KernelManager


def pytest_collection_finish():
    """Leave what was collected out of every later search for rubbish: it all stays."""
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Start with the longest files."""
    rank = {name: number for number, name in enumerate(LONGEST)}

    def place(item):
        file = item.nodeid.split("::")[0]
        return rank.get(file, len(rank))

    items.sort(key=place)
    for item in items:
        if item.nodeid.startswith("lib/smollm.py"):  # its examples read the model
            item.add_marker("slow")
