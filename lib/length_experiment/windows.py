"""Attention that forgets: any encoding, with a hard end to what a head may see."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lib.alibi import alibi_slopes
from lib.checks import check_size
from lib.transformer import Places, Position


def alibi_windows(num_heads: int) -> list[int]:
    """Give the reach of ALiBi's heads: how many tokens hold 99 % at equal scores.

    The last w tokens hold the share 1 − exp(−slope · w) of an endless past.

    Args:
        num_heads: heads, the steepest first.

    Returns:
        One number of tokens a head, rounded up.

    Example:
        >>> alibi_windows(4)
        [19, 74, 295, 1179]
    """
    slopes = alibi_slopes(num_heads).tolist()
    return [math.ceil(math.log(100) / slope) for slope in slopes]


class Windowed(Position):
    """Keep an encoding as it is, and hide from each head all but the last tokens.

    It tells recency from position: a model may do well on long texts because its
    encoding suits them, or because it looks at little more than the last few tokens.
    It hides by token order, as long as positions ascend by one.

    Args:
        inner: the encoding; `Position()` tells no place.
        windows: how many tokens a head sees, itself included, one number a head.

    Raises:
        ValueError: a window below 1.
        TypeError: an inner encoding that is no `Position`.

    Example:
        >>> from lib.transformer import PRESETS, Transformer
        >>> model = Transformer(PRESETS["tiny"])
        >>> short = model.with_options(position=Windowed(model.position, [8] * 4))
        >>> short(torch.zeros(1, 20, dtype=torch.long)).shape
        torch.Size([1, 20, 256])
    """

    windows: Tensor

    def __init__(self, inner: Position, windows: Sequence[int]):
        super().__init__()
        if not isinstance(inner, Position):
            raise TypeError(f"inner must be a Position, got {inner!r}")
        each = [check_size("a window", window) for window in windows]
        self.inner = inner
        self.register_buffer("windows", torch.tensor(each), persistent=False)  # [H]

    @property
    def late(self) -> bool:
        return self.inner.late

    @property
    def layout(self) -> str | None:
        return self.inner.layout

    @layout.setter
    def layout(self, layout: str) -> None:
        self.inner.layout = layout

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.inner.add(x, positions)

    def tables(self, positions: Tensor):
        return self.inner.tables(positions)

    def turn(self, q: Tensor, k: Tensor, tables) -> tuple[Tensor, Tensor]:
        return self.inner.turn(q, k, tables)

    def ranges(self, positions: Tensor) -> tuple:
        return self.inner.ranges(positions)

    def price(self, places: Places) -> Tensor:
        back = places.queries[:, None, :, None] - places.keys[:, None, None, :]
        hidden = back >= self.windows.to(back.device)[:, None, None]
        bias = torch.zeros(hidden.shape, device=back.device)  # [1 or B, H, T, keys]
        bias = bias.masked_fill(hidden, -math.inf)
        inner = self.inner.price(places._replace(given=True))  # ALiBi: as a bias
        return bias if inner is None else bias + inner
