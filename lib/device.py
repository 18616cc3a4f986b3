"""Where the book computes, and from which seed."""

import contextlib
import os
import random

import numpy as np
import torch

from lib.checks import check_integer, is_watched

DEVICE_VARIABLE = "BOOK_DEVICE"
WITHOUT_FLOAT64 = {"mps"}
AS_IT_IS = contextlib.nullcontext()


def available_devices() -> list[str]:
    """List the device types that this machine has, the fastest first.

    Returns:
        A list that ends in `"cpu"`, for example `["cuda", "cpu"]`.

    Example:
        >>> available_devices()[-1]
        'cpu'
    """
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def pick_device() -> torch.device:
    """Choose CUDA if there is one, else MPS, else the CPU.

    The environment variable `BOOK_DEVICE` overrides the choice: a type such as
    `cpu`, or a type and an index such as `cuda:1`.

    Returns:
        The device.

    Raises:
        ValueError: `BOOK_DEVICE` names a device that this machine does not have.

    Example:
        >>> pick_device().type in available_devices()
        True
    """
    kinds = available_devices()
    wanted = os.environ.get(DEVICE_VARIABLE, "").strip()
    if not wanted:
        return torch.device(kinds[0])
    cards = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    names = [*cards, *(kind for kind in kinds if kind != "cuda")]
    if wanted not in kinds + names:
        raise ValueError(
            f"{DEVICE_VARIABLE}={wanted!r} is not a device of this machine, "
            f"which has {', '.join(names)}"
        )
    return torch.device(wanted)


def seed_everything(seed: int) -> torch.Generator:
    """Seed Python, NumPy and torch (on every device) with one number.

    Args:
        seed: an integer from 0 to 2**32 - 1, the range that NumPy accepts.

    Returns:
        A CPU generator with the same seed, for code that takes one.

    Raises:
        TypeError: the seed is not an integer.
        ValueError: the seed is out of range.

    Example:
        >>> _ = seed_everything(0)
        >>> first = torch.rand(2)
        >>> _ = seed_everything(0)
        >>> torch.equal(first, torch.rand(2))
        True
    """
    seed = check_integer("seed", seed)
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be from 0 to {2**32 - 1}, got {seed}")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (libraries draw from the global generator)
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


def exact_device(device: torch.device | str | None) -> torch.device:
    """Choose where to compute in float64: on `device`, or on the CPU if it cannot.

    Args:
        device: as torch takes it; None is torch's default.
    """
    device = torch.get_default_device() if device is None else torch.device(device)
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def without_autocast(kind: str) -> contextlib.AbstractContextManager:
    """Switch autocast off for a type of device, if it has one (meta has none).

    Args:
        kind: a type of device, such as "cuda".

    Example:
        >>> with torch.autocast("cpu"), without_autocast("cpu"):
        ...     torch.is_autocast_enabled("cpu")
        False
    """
    if not torch.amp.is_autocast_available(kind):
        return contextlib.nullcontext()
    return torch.autocast(kind, enabled=False)


def outside_inference() -> contextlib.AbstractContextManager:
    """Leave `torch.inference_mode`, so that what is made here can serve training later.

    Example:
        >>> with torch.inference_mode(), outside_inference():
        ...     torch.zeros(1).is_inference()
        False
    """
    if is_watched() or not torch.is_inference_mode_enabled():
        return AS_IT_IS  # compiled code may not ask for the mode
    return torch.inference_mode(False)
