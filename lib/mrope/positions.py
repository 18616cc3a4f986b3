"""Number every token of text, images and videos along time, height and width."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks import check_integer, check_size, number
from lib.mrope.grids import (
    Grids,
    cells,
    extents,
    intervals,
    one_size,
    time_of,
    token_sizes,
)
from lib.mrope.placeholders import TEXT, find_places, last_tokens, read_kinds


def vision_position_ids(
    grid_thw: Tensor | Sequence[int],
    start: int = 0,
    merge: int = 2,
    interval: float = 1.0,
) -> Tensor:
    """Number the tokens of one image or video along time, height and width.

    Args:
        grid_thw: frames, rows and columns of patches before merging, `[3]` or `[1, 3]`.
        start: what is added to all three numbers.
        merge: the vision tower joins merge × merge patches into one token.
        interval: positions from one frame to the next. A frame's time is rounded down
            after the multiplication, which is done in fp32 as in the reference.

    Returns:
        int64 `[3, N]` with N = frames · rows · columns / merge², in the order of
        reading: along a row, row after row, frame after frame.

    Raises:
        ValueError: not one grid, an empty one, one that merge does not divide, or an
            interval that is negative or not finite.
        TypeError: a grid, start or merge that is not made of integers.

    Source: Qwen2-VL (arXiv:2409.12191), section 2.1; transformers 5.24.0,
        `Qwen2VLModel.get_vision_position_ids`.

    Example:
        >>> vision_position_ids((1, 4, 6), start=3)
        tensor([[3, 3, 3, 3, 3, 3],
                [3, 3, 3, 4, 4, 4],
                [3, 4, 5, 3, 4, 5]])
    """
    start = check_integer("start", start)
    interval = number("interval", interval, at_least=0)
    size = one_size(grid_thw, check_size("merge", merge))
    device = grid_thw.device if isinstance(grid_thw, Tensor) else None
    frame, row, column = torch.meshgrid(
        *(torch.arange(n, device=device) for n in size), indexing="ij"
    )  # [frames, rows, columns] each
    time = time_of(frame, interval)
    return start + torch.stack([time, row, column]).flatten(1)  # [3, N]


def mrope_position_ids(
    token_types: Tensor,
    image_grid_thw: Tensor | None = None,
    video_grid_thw: Tensor | None = None,
    mask: Tensor | None = None,
    merge: int = 2,
    tokens_per_second: float = 1.0,
    seconds_per_grid: Tensor | Sequence[float] | None = None,
    split_frames: bool = False,
) -> tuple[Tensor, Tensor]:
    """Number every token of a batch of text, images and videos along three axes.

    Text takes one position a token, the same on all three axes. An image or a video
    starts at the next free position; what follows it resumes at the largest position
    so far, over all axes, + 1. Grids are read in order, row after row of the batch.

    Qwen2-VL takes the defaults: one frame later is one position later. Qwen2.5-VL adds
    tokens_per_second from its config and seconds_per_grid from its processor, which is
    the seconds from one frame to the next; where their product is below 1, frames share
    all three numbers. Qwen3-VL needs split_frames: each frame is a grid of its own, and
    its time is written before it as text.

    How many tokens a grid has decides what comes out, so types and grids are read on
    the host: this is for the input side of a model, not for compiled or mapped code.

    Args:
        token_types: integers `[B, T]`: 0 text, 1 image, 2 video.
        image_grid_thw: integers `[images, 3]`, patches before merging.
        video_grid_thw: integers `[videos, 3]`, patches before merging.
        mask: `[B, T]`, 1 for real tokens; padding may stand anywhere.
        merge: the vision tower joins merge × merge patches into one token.
        tokens_per_second: positions a second of video.
        seconds_per_grid: seconds from one frame to the next, one a video; 1 if None.
        split_frames: place the frames of a video one by one.

    Returns:
        The positions, int64 `[3, B, T]`, 0 at padding; and the delta, int64 `[B, 1]`,
        which is each row's next free position minus its number of real tokens: what
        decoding adds to a count of tokens.

    Raises:
        ValueError: placeholders that do not fit the grids, a grid that merge does not
            divide, shapes that do not match, an unknown token type, a negative time.
        TypeError: token types or grids that are not integers.

    Source: Qwen2-VL (arXiv:2409.12191), section 2.1; Qwen2.5-VL (arXiv:2502.13923),
        section 2.1.3; Qwen3-VL (arXiv:2511.21631); `get_rope_index` of transformers
        5.24.0, which after a long video resumes inside its time range: up to 5.2 it
        took the largest position + 1, as we do.

    Example:
        >>> types = torch.tensor([[0, 1, 1, 1, 1, 0]])
        >>> positions, delta = mrope_position_ids(types, torch.tensor([[1, 4, 4]]))
        >>> positions[:, 0]
        tensor([[0, 1, 1, 1, 1, 3],
                [0, 1, 1, 2, 2, 3],
                [0, 1, 2, 1, 2, 3]])
        >>> delta
        tensor([[-2]])
    """
    kinds = read_kinds(token_types, mask)  # [B, T]
    merge = check_size("merge", merge)
    images = token_sizes("image_grid_thw", image_grid_thw, merge)
    videos = token_sizes("video_grid_thw", video_grid_thw, merge)
    interval = intervals(len(videos), tokens_per_second, seconds_per_grid)
    if split_frames:
        videos = videos.repeat_interleave(videos[:, 0], dim=0)  # [frames, 3]
        videos[:, 0] = 1
        interval = [1.0] * len(videos)
    interval = torch.tensor([1.0] * len(images) + interval, dtype=torch.float32)
    sizes = torch.cat([size.to(kinds.device) for size in (images, videos)])
    grids = Grids(
        sizes,
        sizes.prod(1),
        interval.to(kinds.device),
        images=len(images),
        video="video frame" if split_frames else "video",
    )
    places = find_places(kinds, grids)  # [M]
    last = last_tokens(places, kinds.shape[1], mask, grids)  # [n]
    positions, taken = number_tokens(kinds, places, last, grids)
    if mask is None:
        return positions, taken - kinds.shape[1]
    real = mask.bool()
    return positions.mul_(real), taken - real.sum(1, keepdim=True)


def number_tokens(
    kinds: Tensor, places: Tensor, last: Tensor, grids: Grids
) -> tuple[Tensor, Tensor]:
    """Add each token's place in its grid to the first free position before the grid.

    Args:
        kinds: `[B, T]`, 0 for text.
        places: `[M]`, where the tokens of the grids stand in the flat batch.
        last: `[n]`, where the last token of each grid stands.
        grids: what is seen.

    Returns:
        The positions `[3, B, T]`, and how many each row takes, `[B, 1]`.
    """
    taken = (kinds == TEXT).long()  # [B, T] positions: a word takes one,
    taken.view(-1).index_copy_(0, last, extents(grids))  # a grid all with its last
    free = taken.cumsum(1).sub_(taken)  # [B, T] the first before each token
    numbers = taken.new_zeros(3, kinds.numel())
    for axis, found in zip(numbers, cells(grids), strict=True):
        axis.index_copy_(0, places, found)
    return numbers.view(3, *kinds.shape).add_(free), taken.sum(1, keepdim=True)
