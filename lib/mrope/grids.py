"""Grids of images and videos: their sizes in tokens, and the numbers of their cells."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_integer, check_integers, number


class Grids(NamedTuple):
    """What is seen in a batch: all images, then all videos, each in reading order."""

    sizes: Tensor  # [n, 3] frames, rows and columns of tokens
    count: Tensor  # [n] tokens of each
    interval: Tensor  # [n] fp32, positions from one frame to the next
    images: int  # how many of the n are images
    video: str  # what errors call one of the others


def one_size(grid_thw: Tensor | Sequence[int], merge: int) -> list[int]:
    """Read one grid in tokens; a sequence is read without a tensor."""
    if isinstance(grid_thw, Tensor):
        shape = list(grid_thw.shape)
        sizes = check_integers("grid_thw", grid_thw).flatten().tolist()
    else:
        sizes = list(grid_thw)
        if len(sizes) == 1 and isinstance(sizes[0], Sequence):
            sizes = list(sizes[0])
        shape = [len(sizes)]
    if shape not in ([3], [1, 3]):
        raise ValueError(f"grid_thw must be [3] or [1, 3], got {shape}")
    frames, rows, columns = size = [check_integer("grid_thw", n) for n in sizes]
    if min(frames, rows, columns) < 1 or rows % merge or columns % merge:
        raise _size_error("grid_thw", size, merge)
    return [frames, rows // merge, columns // merge]


def token_sizes(name: str, grid_thw: Tensor | Sequence | None, merge: int) -> Tensor:
    """Turn sizes in patches into sizes in tokens, both int64 `[n, 3]`."""
    if grid_thw is None:
        return torch.zeros(0, 3, dtype=torch.int64)
    sizes = check_integers(name, torch.as_tensor(grid_thw)).long()
    if sizes.dim() != 2 or sizes.shape[1] != 3:
        raise ValueError(f"{name} must be [n, 3], got {list(sizes.shape)}")
    patches = torch.tensor([1, merge, merge], device=sizes.device)  # of one token
    bad = (sizes < 1) | (sizes % patches != 0)
    if bad.any():
        raise _size_error(name, sizes[bad.any(1)][0].tolist(), merge)
    return sizes // patches


def _size_error(name: str, size: list[int], merge: int) -> ValueError:
    return ValueError(
        f"{name} must be positive, with rows and columns that merge={merge} divides, "
        f"got {size}"
    )


def intervals(
    videos: int,
    tokens_per_second: float,
    seconds_per_grid: Tensor | Sequence[float] | None,
) -> list[float]:
    """Work out the positions from one frame to the next, one number a video."""
    seconds = [1.0] * videos if seconds_per_grid is None else seconds_per_grid
    if isinstance(seconds, Tensor):
        seconds = seconds.tolist()
    if len(seconds) != videos:
        raise ValueError(
            f"seconds_per_grid has {len(seconds)} entries, video_grid_thw has "
            f"{videos} videos"
        )
    rate = number("tokens_per_second", tokens_per_second, at_least=0)
    return [rate * number("seconds_per_grid", s, at_least=0) for s in seconds]


def extents(grids: Grids) -> Tensor:
    """Count the positions that each grid takes, `[n]`: its largest number + 1."""
    frames, rows, columns = grids.sizes.unbind(1)
    time = time_of(frames - 1, grids.interval) + 1
    return torch.maximum(time, torch.maximum(rows, columns))


def cells(grids: Grids) -> tuple[Tensor, Tensor, Tensor]:
    """Number the tokens of all grids, from 0 in each: time, row and column, `[M]`."""
    frames, rows, columns = grids.sizes.unbind(1)  # [n] each
    grid, index = count_up(frames * rows)  # [L] each: lines of tokens
    rows = rows.index_select(0, grid)
    frame = index // rows
    row = index - frame * rows
    time = time_of(frame, grids.interval.index_select(0, grid))
    line, column = count_up(columns.index_select(0, grid))  # [M] each
    return time.index_select(0, line), row.index_select(0, line), column


def count_up(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Number the members of groups: which group each is of, and its place in it.

    Example:
        >>> [column.tolist() for column in count_up(torch.tensor([2, 3]))]
        [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]
    """
    group = torch.repeat_interleave(lengths)
    first = lengths.cumsum(0) - lengths
    place = torch.arange(len(group), device=group.device)
    return group, place.sub_(first.index_select(0, group))


def time_of(frame: Tensor, interval: Tensor | float) -> Tensor:
    """Multiply in fp32, as the reference does, and only then round down."""
    return (frame.float() * interval).long()
