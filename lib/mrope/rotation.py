"""Rotation tables that read several axes: M-RoPE's and a vision tower's."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lib.checks import check_floating, check_integer, check_integers
from lib.device import exact_device, outside_inference
from lib.rope import rope_cos_sin, rope_inv_freq


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
    check_integers("positions", positions)
    if positions.ndim < 2 or positions.shape[0] != 3:
        raise ValueError(
            f"positions must be [3, ..., T] (time, height, width), got "
            f"{list(positions.shape)}; of [4, B, T] pass positions[1:], the first row "
            "counts text"
        )
    if check_floating("inv_freq", inv_freq).ndim != 1:
        raise ValueError(f"inv_freq must be [r/2], got {list(inv_freq.shape)}")
    home = exact_device(positions.device)  # where there is float64
    axes = torch.tensor(_axis_of_pair(section, len(inv_freq), interleaved), device=home)
    with outside_inference():
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
        >>> from lib.mrope import vision_position_ids
        >>> rows_and_columns = vision_position_ids((1, 2, 3), merge=1)[1:]
        >>> cos, sin = axial_rope_cos_sin(rows_and_columns, head_dim=8)
        >>> cos.shape
        torch.Size([6, 4])
    """
    if check_integer("head_dim", head_dim) < 4 or head_dim % 4:
        raise ValueError(f"head_dim must be a positive multiple of 4, got {head_dim}")
    check_integers("positions_hw", positions_hw)
    if positions_hw.ndim < 2 or positions_hw.shape[0] != 2:
        raise ValueError(
            f"positions_hw must be [2, ..., N] (row, column), got "
            f"{list(positions_hw.shape)}"
        )
    inv_freq = rope_inv_freq(head_dim // 2, base, device=positions_hw.device)
    tables = [rope_cos_sin(axis, inv_freq) for axis in positions_hw]
    with outside_inference():
        cos, sin = (torch.cat(parts, dim=-1) for parts in zip(*tables, strict=True))
    return cos, sin  # [..., N, head_dim/2]


def _axis_of_pair(section: Sequence[int], pairs: int, interleaved: bool) -> list[int]:
    """The axis (0 time, 1 height, 2 width) that each pair listens to."""
    section = [check_integer("section", count) for count in section]
    if len(section) != 3 or min(section) < 0 or sum(section) != pairs:
        raise ValueError(
            f"section must be three counts ≥ 0 that sum to {pairs} pairs, got {section}"
        )
    if not interleaved:
        return [axis for axis, count in enumerate(section) for _ in range(count)]
    axes = [0] * pairs
    for axis in (1, 2):
        wanted = range(axis, axis + 3 * section[axis], 3)
        if wanted and wanted[-1] >= pairs:
            raise ValueError(
                f"interleaved section {section} does not fit: "
                f"{('height', 'width')[axis - 1]} would need pair {wanted[-1]}, the "
                f"last is {pairs - 1}"
            )
        for pair in wanted:
            axes[pair] = axis
    return axes
