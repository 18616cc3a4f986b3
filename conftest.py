"""What every run of the tests and of the notebooks shares."""

import nbval.kernel
import pytest
from kernels import KernelManager

# What takes longest comes first, so that no worker is left alone with it at the end.
LONGEST = (
    "desktop-light",
    "desktop-dark",
    "chapters/03_word2vec.ipynb",
    "phone-light",
    "tests/book/test_lab.py",
    "tests/test_word2vec_training.py",
    "tests/test_smollm.py",
)


def pytest_configure(config):
    """Let each notebook's kernel have sockets of its own."""
    nbval.kernel.KernelManager = KernelManager


def group_of(item) -> str:
    """Name what stays on one worker: a file, or what a mark puts together."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.nodeid.split("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep each group on one worker, and start with the longest."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(group_of(item), len(rank)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
