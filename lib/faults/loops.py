"""What checks compare with: fixed numbers, and sums and turns one by one."""

import math

import torch
from torch import Tensor

X = torch.sin(torch.arange(64) ** 2 / 7).view(8, 8)  # [T, D], any fixed numbers
NEAR, FAR = torch.arange(8), torch.arange(8) + 32_761


def close(a: Tensor, b: Tensor, error: float = 1e-4) -> bool:
    """Say whether no number differs by more than an error."""
    return bool((a.double() - b.double()).abs().max() <= error)


def slow(x: Tensor, positions: Tensor, base: float = 10_000) -> Tensor:
    """Turn number by number in Python's own floats."""
    out, half = x.double().clone(), x.shape[-1] // 2
    for t, position in enumerate(positions.tolist()):
        for i in range(half):
            angle = position * base ** (-i / half)
            a, b = x[t, i].item(), x[t, i + half].item()
            out[t, i] = a * math.cos(angle) - b * math.sin(angle)
            out[t, i + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def by_loop(a: Tensor, b: Tensor) -> Tensor:
    """Give all products of rows, by Python's own sums."""
    table = [
        [sum(x * y for x, y in zip(p, q, strict=True)) for q in b.tolist()]
        for p in a.tolist()
    ]
    return torch.tensor(table)
