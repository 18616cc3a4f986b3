"""Rotary positions with three axes: time, height and width share one spectrum.

A text token has one place in a line; a token of an image has a frame, a row and a
column. M-RoPE numbers every token three times, and each pair of channels turns by one
of the three numbers. Where they agree, as they do for text, it is 1-D RoPE.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lib import mrope_segments as cutting
from lib.rope import rope_cos_sin, rope_inv_freq
from lib.rope_frequencies import exact_device


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
    cutting.check_integer("start", start)
    cutting.check_rate("interval", interval)
    grid = torch.as_tensor(grid_thw)
    if list(grid.shape) not in ([3], [1, 3]):
        raise ValueError(f"grid_thw must be [3] or [1, 3], got {list(grid.shape)}")
    grid = cutting.merged("grid_thw", grid.reshape(1, 3), merge)[0]
    frame, row, column = torch.meshgrid(
        *(torch.arange(n, device=grid.device) for n in grid.tolist()), indexing="ij"
    )  # [frames, rows, columns] each
    time = cutting.time_of(frame, interval)
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
    tokens_per_second from its config and seconds_per_grid from its processor. Qwen3-VL
    needs split_frames: each frame is a grid, and its time is written before it as text.

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
    kinds, tokens = cutting.real_tokens(token_types, mask)  # [N], [B]
    images = _token_grids("image_grid_thw", image_grid_thw, merge, kinds.device)
    videos = _token_grids("video_grid_thw", video_grid_thw, merge, kinds.device)
    interval = cutting.intervals(len(videos), tokens_per_second, seconds_per_grid)
    if split_frames:
        videos = videos.repeat_interleave(videos[:, 0], dim=0)  # [frames, 3]
        videos[:, 0] = 1
        interval = [1.0] * len(videos)
    grids = cutting.Grids(
        torch.cat([images, videos]),
        torch.tensor([1.0] * len(images) + interval, device=kinds.device),
        images=len(images),
        video="video frame" if split_frames else "video",
    )
    segments = cutting.cut(kinds, tokens, grids)
    start, delta = cutting.starts(segments, tokens)
    numbers = cutting.numbers(segments, start, kinds == cutting.TEXT)  # [3, N]
    if mask is None:
        return numbers.view(3, *token_types.shape), delta
    positions = numbers.new_zeros(3, *mask.shape)
    return positions.masked_scatter_(mask.bool(), numbers), delta


def _token_grids(
    name: str, grid_thw: Tensor | None, merge: int, device: torch.device
) -> Tensor:
    if grid_thw is None:
        return torch.zeros(0, 3, dtype=torch.int64, device=device)
    return cutting.merged(name, grid_thw, merge).to(device)  # [n, 3]


def mrope_cos_sin(
    positions: Tensor,
    inv_freq: Tensor,
    section: Sequence[int],
    interleaved: bool = False,
) -> tuple[Tensor, Tensor]:
    """Turn three rows of positions into one pair of rotation tables.

    Every pair of channels listens to one axis: in blocks, t … t h … h w … w, or
    interleaved, t h w t h w … with the pairs left over at the end going to t. The axis
    is chosen before the trigonometry, which is that of `lib.rope.rope_cos_sin`: float64
    angles, rounded once.

    Args:
        positions: integers `[3, ..., T]`: time, height, width.
        inv_freq: `[r/2]` radians a position, see `lib.rope`.
        section: how many pairs each axis gets, three integers that sum to r/2.
        interleaved: Qwen3-VL's order instead of Qwen2-VL's.

    Returns:
        cos and sin, fp32 `[..., T, r/2]`, for `lib.rope.apply_rope`. A scaling's
        attention factor is not in them: multiply both by it.

    Raises:
        ValueError: another number of axes, a section of another sum, or an interleaved
            section whose h or w would need a pair past the last.
        TypeError: positions that are not integers.

    Source: transformers 5.24.0, `Qwen2VLRotaryEmbedding` (blocks) and
        `Qwen3VLTextRotaryEmbedding` (interleaved).

    Example:
        >>> positions = torch.tensor([[0, 7], [0, 8], [0, 9]])
        >>> cos, sin = mrope_cos_sin(positions, rope_inv_freq(8), (2, 1, 1))
        >>> cos.shape
        torch.Size([2, 4])
    """
    if positions.ndim < 2 or positions.shape[0] != 3:
        raise ValueError(
            f"positions must be [3, ..., T] (time, height, width), got "
            f"{list(positions.shape)}; of [4, B, T] pass positions[1:], the first row "
            "counts text"
        )
    if inv_freq.ndim != 1:
        raise ValueError(f"inv_freq must be [r/2], got {list(inv_freq.shape)}")
    cutting.check_integers("positions", positions)
    home = exact_device(positions.device)  # where there is float64
    axes = torch.tensor(_axis_of_pair(section, len(inv_freq), interleaved), device=home)
    place = positions.to(home).movedim(0, -1)[..., axes]  # [..., T, r/2]
    angles = place.double() * inv_freq.to(home).double()
    tables = (angles.cos().float(), angles.sin().float())
    return tuple(table.to(positions.device) for table in tables)


def axial_rope_cos_sin(
    positions_hw: Tensor, head_dim: int, base: float = 1e4
) -> tuple[Tensor, Tensor]:
    """Turn rows and columns of patches into the rotation tables of a vision tower.

    The first half of the pairs turns with the row, the second with the column, both
    over the same whole spectrum of head_dim / 2 channels. There is no time.

    Args:
        positions_hw: integers `[2, ..., N]`: row, column.
        head_dim: width of a head, a multiple of 4.
        base: of the spectrum.

    Returns:
        cos and sin, fp32 `[..., N, head_dim/2]`, for `lib.rope.apply_rope`.

    Raises:
        ValueError: a width that 4 does not divide, or not two rows of positions.

    Source: transformers 5.24.0, `Qwen2VLVisionRotaryEmbedding`.

    Example:
        >>> rows_and_columns = vision_position_ids((1, 2, 3), merge=1)[1:]
        >>> cos, sin = axial_rope_cos_sin(rows_and_columns, head_dim=8)
        >>> cos.shape
        torch.Size([6, 4])
    """
    if head_dim < 4 or head_dim % 4:
        raise ValueError(f"head_dim must be a positive multiple of 4, got {head_dim}")
    if positions_hw.ndim < 2 or positions_hw.shape[0] != 2:
        raise ValueError(
            f"positions_hw must be [2, ..., N] (row, column), got "
            f"{list(positions_hw.shape)}"
        )
    inv_freq = rope_inv_freq(head_dim // 2, base, device=positions_hw.device)
    tables = [rope_cos_sin(axis, inv_freq) for axis in positions_hw]
    cos, sin = (torch.cat(parts, dim=-1) for parts in zip(*tables, strict=True))
    return cos, sin  # [..., N, head_dim/2]


def _axis_of_pair(section: Sequence[int], pairs: int, interleaved: bool) -> list[int]:
    """The axis (0 time, 1 height, 2 width) that each pair listens to."""
    if len(section) != 3 or min(section) < 0 or sum(section) != pairs:
        raise ValueError(
            f"section must be three counts ≥ 0 that sum to {pairs} pairs, got "
            f"{list(section)}"
        )
    if not interleaved:
        return [axis for axis, count in enumerate(section) for _ in range(count)]
    axes = [0] * pairs
    for axis in (1, 2):
        wanted = range(axis, axis + 3 * section[axis], 3)
        if wanted and wanted[-1] >= pairs:
            raise ValueError(
                f"interleaved section {list(section)} does not fit: "
                f"{('height', 'width')[axis - 1]} would need pair {wanted[-1]}, the "
                f"last is {pairs - 1}"
            )
        for pair in wanted:
            axes[pair] = axis
    return axes
