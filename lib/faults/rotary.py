"""Rotation of the pairs (i, i + D/2), sound and broken: `rotate(x, positions)`.

x is `[..., T, D]`, positions `[T]` integers; the result has the shape of x.
"""

from collections.abc import Callable

import torch
from torch import Tensor

BASE = 10_000.0


def frequencies(width: int, base: float = BASE) -> Tensor:
    """List one frequency a pair, `[D/2]`, float64."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs (i, i + D/2) by angles `[T, D/2]`."""
    a, b = x.chunk(2, dim=-1)  # [..., T, D/2]
    cos, sin = angles.cos().type_as(x), angles.sin().type_as(x)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Turn by position times frequency, formed in float64: the sound form."""
    return turn(x, torch.outer(positions.double(), frequencies(x.shape[-1])))


def mixed_layouts(x: Tensor, positions: Tensor) -> Tensor:
    """Lay angles out for neighbours, and turn halves."""
    angles = torch.outer(positions.double(), frequencies(x.shape[-1]))
    angles = angles.repeat_interleave(2, dim=-1)  # [T, D]: 0, 0, 1, 1, …
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat((-b, a), dim=-1)  # halves
    return x * angles.cos().type_as(x) + turned * angles.sin().type_as(x)


def other_layout(x: Tensor, positions: Tensor) -> Tensor:
    """Turn neighbours, rightly, where the weights expect halves."""
    angles = torch.outer(positions.double(), frequencies(x.shape[-1]))
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos().type_as(x), angles.sin().type_as(x)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def half_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Keep positions in float16, which has no odd integers above 2,048."""
    return rotate(x, positions.half())


def bfloat16_angles(x: Tensor, positions: Tensor) -> Tensor:
    """Multiply in bfloat16, as under autocast."""
    speeds = frequencies(x.shape[-1]).bfloat16()
    return turn(x, torch.outer(positions.bfloat16(), speeds).double())


def bfloat16_frequencies(x: Tensor, positions: Tensor) -> Tensor:
    """Cast the frequencies with the module, then multiply exactly."""
    speeds = frequencies(x.shape[-1]).bfloat16().double()
    return turn(x, torch.outer(positions.double(), speeds))


def cached_by_length() -> Callable[[Tensor, Tensor], Tensor]:
    """Make a rotation that keeps its angles under the length alone."""
    kept = {}

    def rotate_from_cache(x: Tensor, positions: Tensor) -> Tensor:
        if len(positions) not in kept:
            speeds = frequencies(x.shape[-1])
            kept[len(positions)] = torch.outer(positions.double(), speeds)
        return turn(x, kept[len(positions)])

    return rotate_from_cache
