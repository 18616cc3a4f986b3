"""A table of counts, shuffled and cut into square tiles."""

from collections.abc import Iterator

import torch
from torch import Tensor

from lib.checks import check_size
from lib.glove.counts import nonzero_counts
from lib.glove.loss import glove_weight

Tile = tuple[slice, slice, Tensor, Tensor, Tensor]
Cell = tuple[slice, slice, Tensor, Tensor]


def cut_into_tiles(
    counts: Tensor, place: Tensor, side: int, x_max: float, alpha: float
) -> list[Tile]:
    """List the tiles that hold a pair, each in the new order of the words.

    Args:
        counts: `[V, V]`, dense or sparse.
        place: int64 `[V]`, the new row of each word.
        side: of a tile, in words.
        x_max: see `glove_weight`.
        alpha: see `glove_weight`.

    Returns:
        Each tile's rows, columns, and for its pairs the position in the flattened tile
        (empty where every cell is a pair, and they are in order), log X and f(X), on
        the CPU.

    Raises:
        ValueError: a table that is not square, holds no pair, or holds a count that is
            negative or, in fp32, not finite.

    Example:
        >>> counts = torch.tensor([[0.0, 100.0], [100.0, 0.0]])
        >>> tiles = cut_into_tiles(counts, torch.arange(2), 1, 100.0, 0.75)
        >>> [(rows.start, columns.start) for rows, columns, *_ in tiles]
        [(0, 1), (1, 0)]
    """
    side, size = check_size("tile", side), len(counts)
    if tuple(counts.shape) != (size, size):
        raise ValueError(f"counts must be square, got {tuple(counts.shape)}")
    counts = counts.float()  # before the checks: what the steps compute with
    rows, columns, x = (values.cpu() for values in nonzero_counts(counts))
    if len(x) == 0:
        raise ValueError("counts hold no pair: every entry is 0")
    if counts.layout == torch.strided:
        words = place.argsort()
        cells = _cut_dense(counts.cpu()[words][:, words], side)
    else:
        cells = _cut_sparse(place[rows], place[columns], x, size, side)
    return [
        (down, right, position, x.log(), glove_weight(x, x_max, alpha))
        for down, right, position, x in cells
    ]


def _cut_dense(table: Tensor, side: int) -> Iterator[Cell]:
    """Go through a dense table tile by tile."""
    starts = range(0, len(table), side)
    for down in (slice(top, min(top + side, len(table))) for top in starts):
        for right in (slice(left, min(left + side, len(table))) for left in starts):
            tile = table[down, right].flatten()
            position = tile.nonzero().squeeze(1)
            if len(position) == len(tile):
                yield down, right, position[:0], tile
            elif len(position) > 0:
                yield down, right, position, tile[position]


def _cut_sparse(
    rows: Tensor, columns: Tensor, x: Tensor, size: int, side: int
) -> Iterator[Cell]:
    """Sort pairs by tile, without a dense table."""
    across = -(-size // side)
    key = rows // side * across + columns // side  # [pairs], the number of the tile
    order = key.argsort(stable=True)
    keys, lengths = key[order].unique_consecutive(return_counts=True)
    for cell, mine in zip(keys.tolist(), order.split(lengths.tolist()), strict=True):
        top, left = (n * side for n in divmod(cell, across))
        down, right = slice(top, min(top + side, size)), slice(left, left + side)
        width = min(side, size - left)
        yield down, right, (rows[mine] - top) * width + columns[mine] - left, x[mine]
