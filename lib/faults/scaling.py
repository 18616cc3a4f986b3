"""Stretched rotation and the places of an image, sound and broken.

`decode(queries, keys, trained)` takes `[T, D]`, `[T, D]` and a length, and gives the
scores `[T]` of the last query, keys having come one by one; `magnitude(settings)` gives
YaRN's factor on cos and sin; `image(start, side, rate)` gives the ids `[3, side²]` of
time, height and width.
"""

import math

import torch
from torch import Tensor

from lib.faults.rotary import BASE, frequencies, turn


def speeds(length: int, trained: int, width: int) -> Tensor:
    """Raise the base with the length, as dynamic NTK does, `[D/2]`."""
    growth = max(length / trained, 1) ** (width / (width - 2))
    return frequencies(width, BASE * growth)


def decode(queries: Tensor, keys: Tensor, trained: int) -> Tensor:
    """Keep keys as they are, and turn all of them under the speeds of now."""
    places = torch.arange(len(keys)).double()
    angles = torch.outer(places, speeds(len(keys), trained, keys.shape[-1]))
    return turn(keys, angles) @ turn(queries[-1:], angles[-1:])[0]


def old_keys(queries: Tensor, keys: Tensor, trained: int) -> Tensor:
    """Keep each key as it was turned on the day it came."""
    width = keys.shape[-1]
    angles = [t * speeds(t + 1, trained, width) for t in range(len(keys))]
    angles = torch.stack(angles)
    return turn(keys, angles) @ turn(queries[-1:], angles[-1:])[0]


def magnitude(settings: dict[str, float]) -> float:
    """Take the factor that is given, and compute one where none is."""
    computed = 0.1 * math.log(settings["factor"]) + 1
    return settings.get("attention_factor", computed)


def factor_only(settings: dict[str, float]) -> float:
    """Compute the factor, whatever is given."""
    return 0.1 * math.log(settings["factor"]) + 1


def image(start: int, side: int, rate: int) -> Tensor:
    """Let a still image have one time, its start, at any rate of ids a second."""
    places = torch.arange(side)
    height, width = places.repeat_interleave(side), places.repeat(side)
    return start + torch.stack((torch.zeros_like(height), height, width))


def image_in_time(start: int, side: int, rate: int) -> Tensor:
    """Multiply the image's start by the rate, as if it were a time in a video."""
    ids = image(start, side, rate)
    return torch.cat((ids[:1] * rate, ids[1:]))
