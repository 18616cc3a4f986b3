"""How `lib.mrope` cuts a batch into stretches of text and single images or videos.

Everything here works on a few numbers a segment, so that no loop runs over tokens.
Padding is left out first: N counts the real tokens of all rows, one row after another.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

TEXT, IMAGE, VIDEO = 0, 1, 2


class Grids(NamedTuple):
    """What is seen in a batch: all images, then all videos, each in reading order."""

    sizes: Tensor  # [n, 3] frames, rows and columns of tokens
    interval: Tensor  # [n] fp32, positions from one frame to the next
    images: int  # how many of the n are images
    video: str  # what errors call one of the others


class Segments(NamedTuple):
    """Stretches of text and single grids in reading order.

    A stretch of n words is a grid of 1 × 1 × n: one line.
    """

    first: Tensor  # [S] index of the first token
    sizes: Tensor  # [S, 3]
    interval: Tensor  # [S]


def real_tokens(token_types: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The kinds of the real tokens [N], and how many each row has [B]."""
    if token_types.ndim != 2:
        raise ValueError(f"token_types must be [B, T], got {list(token_types.shape)}")
    check_values("token_types", token_types, TEXT, VIDEO)
    if mask is None:
        rows, length = token_types.shape
        tokens = torch.full((rows,), length, device=token_types.device)
        return token_types.reshape(-1), tokens
    if mask.shape != token_types.shape:
        raise ValueError(
            f"mask is {list(mask.shape)}, token_types are {list(token_types.shape)}"
        )
    if mask.dtype != torch.bool:
        check_values("mask", mask, 0, 1)
    return token_types.masked_select(mask.bool()), mask.sum(1)


def merged(name: str, sizes: Tensor | Sequence, merge: int) -> Tensor:
    """Grids of tokens from grids of patches, both [n, 3]."""
    check_integer("merge", merge)
    if merge < 1:
        raise ValueError(f"merge must be at least 1, got {merge}")
    sizes = torch.as_tensor(sizes)
    if sizes.ndim != 2 or sizes.shape[1] != 3:
        raise ValueError(f"{name} must be [n, 3], got {list(sizes.shape)}")
    check_integers(name, sizes)
    if (sizes < 1).any() or (sizes[:, 1:] % merge).any():
        bad = (sizes < 1).any(1) | (sizes[:, 1:] % merge != 0).any(1)  # [n]
        raise ValueError(
            f"{name} must be positive, with rows and columns that merge={merge} "
            f"divides, got {sizes[bad][0].tolist()}"
        )
    sizes = sizes.long()
    return torch.cat([sizes[:, :1], sizes[:, 1:] // merge], dim=1)


def intervals(
    videos: int,
    tokens_per_second: float,
    seconds_per_grid: Tensor | Sequence[float] | None,
) -> list[float]:
    """Positions from one frame to the next, one number a video."""
    seconds = [1.0] * videos if seconds_per_grid is None else seconds_per_grid
    if isinstance(seconds, Tensor):
        seconds = seconds.tolist()
    if len(seconds) != videos:
        raise ValueError(
            f"seconds_per_grid has {len(seconds)} entries, video_grid_thw has "
            f"{videos} videos"
        )
    check_rate("tokens_per_second", tokens_per_second)
    for value in seconds:
        check_rate("seconds_per_grid", value)
    return [float(tokens_per_second * value) for value in seconds]


def cut(kinds: Tensor, tokens: Tensor, grids: Grids) -> Segments:
    """Cut the real tokens into segments."""
    first, length = _runs(kinds, tokens)  # [R] each
    kind = kinds[first].long()
    _check_totals(kind, length, grids)
    order = kind.argsort(stable=True)  # text, then images, then videos: as in grids
    first, length = first[order], length[order]
    texts = int((kind == TEXT).sum())
    sizes = pad(grids.sizes, (0, 0, texts, 0), value=1)  # [S, 3]
    sizes[:texts, 2] = length[:texts]
    interval = pad(grids.interval, (texts, 0), value=1.0)  # [S]
    begin = _first_tokens(first[texts:], length[texts:], grids)
    first = torch.cat([first[:texts], begin])  # [S]
    order = first.argsort()
    return Segments(first[order], sizes[order], interval[order])


def _runs(kinds: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """First token and length of each run of one kind in one row, [R] each."""
    begins = torch.ones_like(kinds, dtype=torch.bool)  # [N]
    begins[1:] = kinds[1:] != kinds[:-1]
    rows = tokens.cumsum(0) - tokens  # [B] first token of each row
    begins[rows[tokens > 0]] = True
    first = begins.nonzero()[:, 0]
    return first, torch.diff(first, append=tokens.sum()[None])


def _check_totals(kind: Tensor, length: Tensor, grids: Grids) -> None:
    found = length.new_zeros(3).index_add_(0, kind, length).tolist()  # by kind
    count = grids.sizes.prod(1)  # [n]
    images, videos = count[: grids.images], count[grids.images :]
    for name, have, wanted in (
        ("image", found[IMAGE], images),
        (grids.video, found[VIDEO], videos),
    ):
        needed = int(wanted.sum())
        if have != needed:
            raise ValueError(
                f"token_types has {have} {name} placeholders, the {len(wanted)} {name} "
                f"grids need {needed}"
            )


def _first_tokens(first: Tensor, length: Tensor, grids: Grids) -> Tensor:
    """First token of each grid [n]: fill the runs with the grids, one after another."""
    count = grids.sizes.prod(1)  # [n]
    begin, run_begin = count.cumsum(0) - count, length.cumsum(0) - length
    run = torch.searchsorted(run_begin, begin, right=True) - 1  # [n]
    room = (run_begin + length)[run] - begin
    if (room < count).any():
        n = int((room < count).nonzero()[0, 0])
        is_image = n < grids.images
        name = f"image {n}" if is_image else f"{grids.video} {n - grids.images}"
        raise ValueError(
            f"{name} needs {int(count[n])} placeholders in a row, its run has "
            f"{int(room[n])}"
        )
    return (first - run_begin)[run] + begin


def starts(segments: Segments, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """First position of each segment [S], and the delta of each row [B, 1]."""
    last = segments.sizes - 1  # [S, 3]
    last[:, 0] = time_of(last[:, 0], segments.interval)
    extent = last.amax(1) + 1  # [S] positions that the segment takes
    row = torch.searchsorted(tokens.cumsum(0), segments.first, right=True)  # [S]
    end = torch.zeros_like(tokens).index_add_(0, row, extent)  # [B]
    before = end.cumsum(0) - end  # [B] positions that earlier rows took
    return extent.cumsum(0) - extent - before[row], (end - tokens)[:, None]


def numbers(segments: Segments, start: Tensor, is_text: Tensor) -> Tensor:
    """Time, height and width of every real token [3, N], by way of lines of tokens."""
    frames, rows, columns = segments.sizes.unbind(1)  # [S] each
    count = frames * rows  # [S] lines of each segment
    segment = torch.arange(len(count), device=count.device).repeat_interleave(count)
    index = torch.arange(len(segment), device=count.device)  # [L]
    index -= (count.cumsum(0) - count)[segment]  # line within its segment
    rows, columns = rows[segment], columns[segment]
    frame = index // rows
    time = time_of(frame, segments.interval[segment])
    first = columns.cumsum(0) - columns  # [L] index of the line's first token
    table = torch.stack([time, index - frame * rows, -first]) + start[segment]
    line = torch.repeat_interleave(columns, output_size=len(is_text))  # [N]
    found = table.new_empty(3, len(line))
    for axis, row in zip(table, found, strict=True):
        torch.index_select(axis, 0, line, out=row)
    found[2] += torch.arange(len(line), device=line.device)
    torch.where(is_text, found[2], found[:2], out=found[:2])
    return found


def time_of(frame: Tensor, interval: Tensor | float) -> Tensor:
    """Multiply in fp32, as the reference does, and only then round down."""
    return (frame.float() * interval).long()


def check_integers(name: str, values: Tensor) -> None:
    if values.is_floating_point() or values.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {values.dtype}")


def check_values(name: str, values: Tensor, low: int, high: int) -> None:
    check_integers(name, values)
    for value in torch.aminmax(values) if values.numel() else ():
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low} to {high}, got {int(value)}")


def check_integer(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {value!r}")


def check_rate(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
