"""Fitting GloVe to counts, a tile of the table at a time."""

import math

import torch
from torch import Tensor

from lib.checks import check_integer, check_size, number
from lib.device import pick_device
from lib.glove.counts import nonzero_counts
from lib.glove.loss import GloVe, glove_weight

Tile = tuple[slice, slice, Tensor, Tensor, Tensor]


def train_glove(
    counts: Tensor,
    dim: int = 50,
    epochs: int = 25,
    lr: float = 0.1,
    *,
    x_max: float = 100.0,
    alpha: float = 0.75,
    tile: int = 256,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> tuple[GloVe, list[float]]:
    """Fit GloVe to counts with AdaGrad, one square tile of the table a step.

    The released program takes a step a pair. Here the words are shuffled, the table is
    cut into tiles, and the pairs of a tile share a step made of matrix products. As
    there, a step follows the gradient of half the loss, and AdaGrad's sums start at 1.
    An epoch costs about V² · d operations, so leave out the rarest words.

    Args:
        counts: `[V, V]`, dense or sparse.
        dim: d, the width of a vector.
        epochs: passes over all pairs; 0 returns the model as it starts.
        lr: AdaGrad's step.
        x_max: see `glove_weight`.
        alpha: see `glove_weight`.
        tile: the side of a tile, in words.
        seed: of the start, the shuffle and the order of the tiles.
        device: where to train; `pick_device()` if not given.

    Returns:
        The model, and each epoch's mean loss a pair, measured before each step. (The
        released program prints half of it.)

    Raises:
        TypeError: a size or a seed that is no integer.
        ValueError: a size or a rate out of range, or a table that is not square, holds
            no pair, or holds a count that is negative or not finite.
        FloatingPointError: the vectors have overflowed: the rate is too large.

    Source:
        Pennington et al. 2014, section 4.2; stanfordnlp/GloVe, `src/glove.c`;
        Duchi et al. 2011.

    Example:
        >>> counts = torch.tensor([[0.0, 30.0], [30.0, 4.0]])
        >>> model, losses = train_glove(counts, dim=2, epochs=50)
        >>> losses[-1] < losses[0] / 10
        True
    """
    epochs, lr = check_size("epochs", epochs, at_least=0), number("lr", lr, above=0)
    device = torch.device(device or pick_device())
    generator = torch.Generator().manual_seed(check_integer("seed", seed))
    model = GloVe(len(counts), dim, generator).to(device)
    place = torch.randperm(len(counts), generator=generator)  # [V], word -> row
    tiles = _cut_into_tiles(counts, place, tile, x_max, alpha)
    tiles = [(*t[:2], *(values.to(device) for values in t[2:])) for t in tiles]
    tables = [parameter.detach().clone() for parameter in model.parameters()]
    sums = [torch.ones_like(table) for table in tables]
    losses = [_epoch(tables, sums, tiles, lr, generator) for _ in range(epochs)]
    for parameter, table in zip(model.parameters(), tables, strict=True):
        parameter.data.copy_(table[place.to(device)])
    return model, losses


def _cut_into_tiles(
    counts: Tensor, place: Tensor, side: int, x_max: float, alpha: float
) -> list[Tile]:
    """List the tiles: rows, columns, and a pair's position in it, log X and f(X)."""
    side, size = check_size("tile", side), len(counts)
    if tuple(counts.shape) != (size, size):
        raise ValueError(f"counts must be square, got {tuple(counts.shape)}")
    rows, columns, x = (values.cpu() for values in nonzero_counts(counts))
    if len(x) == 0:
        raise ValueError("counts hold no pair: every entry is 0")
    rows, columns, x = place[rows], place[columns], x.float()
    across = -(-size // side)
    key = rows // side * across + columns // side  # [pairs], the number of the tile
    order = key.argsort(stable=True)
    keys, lengths = key[order].unique_consecutive(return_counts=True)
    tiles = []
    for cell, mine in zip(keys.tolist(), order.split(lengths.tolist()), strict=True):
        top, left = (n * side for n in divmod(cell, across))
        down, right = slice(top, min(top + side, size)), slice(left, left + side)
        width = min(side, size - left)
        position = (rows[mine] - top) * width + columns[mine] - left
        weight = glove_weight(x[mine], x_max, alpha)
        tiles.append((down, right, position, x[mine].log(), weight))
    return tiles


def _epoch(
    tables: list[Tensor],
    sums: list[Tensor],
    tiles: list[Tile],
    lr: float,
    generator: torch.Generator,
) -> float:
    """Take a step on each tile, in random order, and return the mean loss a pair."""
    turns = torch.randperm(len(tiles), generator=generator).tolist()
    parts = [_step(tables, sums, tiles[turn], lr) for turn in turns]
    pairs = sum(len(position) for _, _, position, _, _ in tiles)
    loss = math.fsum(torch.stack(parts).tolist()) / pairs
    if not (math.isfinite(loss) and all(table.isfinite().all() for table in tables)):
        raise FloatingPointError(
            f"the loss is {loss}, and the vectors overflow: the steps are too long, "
            f"try a smaller lr than {lr}"
        )
    return loss


def _step(tables: list[Tensor], sums: list[Tensor], tile: Tile, lr: float) -> Tensor:
    """Take one AdaGrad step on the words of a tile, and return the tile's loss."""
    down, right, position, log_x, weight = tile
    spans = down, right, down, right
    w, w_ctx, b, b_ctx = (t[span] for t, span in zip(tables, spans, strict=True))
    log_counts, f = w.new_zeros(2, len(w) * len(w_ctx))
    log_counts[position], f[position] = log_x, weight
    shape = len(w), len(w_ctx)
    gap = w @ w_ctx.T + b[:, None] + b_ctx - log_counts.view(shape)  # [R, C]
    pull = f.view(shape) * gap  # [R, C], half the gradient at each dot product
    gradients = pull @ w_ctx, pull.T @ w, pull.sum(1), pull.sum(0)
    totals = [total[span] for total, span in zip(sums, spans, strict=True)]
    moved = w, w_ctx, b, b_ctx
    for table, total, gradient in zip(moved, totals, gradients, strict=True):
        total.addcmul_(gradient, gradient)
        table.addcdiv_(gradient, total.sqrt(), value=-lr)
    return (pull * gap).sum()
