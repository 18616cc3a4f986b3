"""Where a batch keeps room for what is seen, and which grid each place belongs to."""

import torch
from torch import Tensor

from lib.checks import (
    Range,
    check_integers,
    check_mask_kind,
    check_ranges,
    mask_range,
)
from lib.mrope.grids import Grids

TEXT, IMAGE, VIDEO, PADDING = 0, 1, 2, 3


def find_places(kinds: Tensor, grids: Grids) -> Tensor:
    """Find the placeholders `[M]`: those of images, then those of videos."""
    images, places = grids.images, []
    for kind, name, count in (
        (IMAGE, "image", grids.count[:images]),
        (VIDEO, grids.video, grids.count[images:]),
    ):
        found = (kinds == kind).flatten().nonzero()[:, 0]
        needed = int(count.sum())
        if len(found) != needed:
            raise ValueError(
                f"token_types has {len(found)} {name} placeholders, the {len(count)} "
                f"{name} grids need {needed}"
            )
        places.append(found)
    return torch.cat(places)


def last_tokens(places: Tensor, row: int, mask: Tensor | None, grids: Grids) -> Tensor:
    """Find the last token of each grid `[n]`, of rows of so many tokens.

    A grid whose placeholders are parted by text or by the end of a row is refused.
    """
    rank = None if mask is None else mask.flatten().cumsum(0)  # padding is no gap

    def line(at: Tensor) -> Tensor:  # neighbours differ by 1, but by 2 across rows
        return at // row + (at if rank is None else rank[at])

    ends = grids.count.cumsum(0)
    first = places.index_select(0, ends - grids.count)  # [n]
    last = places.index_select(0, ends - 1)  # [n]
    cut = line(last) - line(first) != grids.count - 1
    if cut.any():
        n = int(cut.nonzero()[0, 0])
        own = line(places[ends[n] - grids.count[n] : ends[n]])
        in_a_row = torch.arange(len(own), device=own.device)
        is_image = n < grids.images
        name = f"image {n}" if is_image else f"{grids.video} {n - grids.images}"
        raise ValueError(
            f"{name} needs {len(own)} placeholders in a row, its run has "
            f"{int((own - own[0] == in_a_row).sum())}"
        )
    return last


def read_kinds(token_types: Tensor, mask: Tensor | None) -> Tensor:
    """Check the types and the mask, and mark what is padding."""
    check_integers("token_types", token_types)
    if token_types.dim() != 2:
        raise ValueError(f"token_types must be [B, T], got {list(token_types.shape)}")
    types = Range(token_types, TEXT, VIDEO, _unknown_type)
    if mask is None:
        check_ranges(types)
        return token_types.contiguous()
    check_mask_kind(mask, tuple(token_types.shape))
    check_ranges(types, *([mask_range(mask)] if mask.dtype != torch.bool else []))
    return token_types.masked_fill(~mask.bool(), PADDING).contiguous()


def _unknown_type(wrong: int) -> ValueError:
    return ValueError(f"token_types must be from {TEXT} to {VIDEO}, got {wrong}")
