"""Fitting GloVe to counts, a tile of the table at a time."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lib.checks import check_integer, check_size, number
from lib.device import pick_device
from lib.glove.loss import GloVe
from lib.glove.tiles import Tile, cut_into_tiles


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
    after_epoch: Callable[[int, Tensor], object] | None = None,
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
        after_epoch: called after each epoch with its number, from 1, and the vectors
            w + w̃ `[V, d]` of that moment.

    Returns:
        The model, and each epoch's mean loss a pair, measured before each step. (The
        released program prints half of it.)

    Raises:
        TypeError: a size or a seed that is no integer.
        ValueError: a size or a rate out of range, or a table that is not square, holds
            no pair, or holds a count that is negative or, in fp32, not finite.
        FloatingPointError: the rate is too large: the vectors have overflowed, or their
            mean squared error in log X, weighted by f(X), is above that at the start
            and that of all zeros by more than 1. (The released program clips each
            gradient to ±100 and skips what is not finite; it returns huge vectors
            without a word.)

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
    tiles = cut_into_tiles(counts, place, tile, x_max, alpha)
    tiles = [(*t[:2], *(values.to(device) for values in t[2:])) for t in tiles]
    tables = [parameter.detach().clone() for parameter in model.parameters()]
    sums = [torch.ones_like(table) for table in tables]
    place, losses, start = place.to(device), [], _total_loss(tables, tiles)
    for epoch in range(1, epochs + 1):
        losses.append(_epoch(tables, sums, tiles, lr, generator))
        if after_epoch is not None:
            after_epoch(epoch, (tables[0] + tables[1])[place])
    if epochs > 0:
        _check_fit(tables, tiles, lr, start)
    for parameter, table in zip(model.parameters(), tables, strict=True):
        parameter.data.copy_(table[place])
    return model, losses


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
    pairs = sum(len(log_x) for *_, log_x, _ in tiles)
    loss = math.fsum(torch.stack(parts).tolist()) / pairs
    if not (math.isfinite(loss) and all(table.isfinite().all() for table in tables)):
        raise FloatingPointError(
            f"the loss is {loss}, and the vectors overflow: the steps are too long, "
            f"try a smaller lr than {lr}"
        )
    return loss


def _check_fit(
    tables: list[Tensor], tiles: list[Tile], lr: float, start: float
) -> None:
    """Refuse parameters that fit far worse than the start: the last step counts too.

    A start may fit worse than zeros do, in a narrow table above all.
    """
    loss = _total_loss(tables, tiles)
    zeros = math.fsum((f * log_x.square()).sum().item() for *_, log_x, f in tiles)
    weight = math.fsum(f.sum().item() for *_, f in tiles)
    if not loss <= max(start, zeros) + weight:
        raise FloatingPointError(
            f"after the last step the loss is {loss / weight:.3g} a unit of weight, at "
            f"the start it was {start / weight:.3g}, with all parameters 0 it is "
            f"{zeros / weight:.3g}: the steps are too long, try a smaller lr than {lr}"
        )


def _total_loss(tables: list[Tensor], tiles: list[Tile]) -> float:
    """Sum the weighted squared misses over all pairs."""
    misses = (_miss(tables, tile) for tile in tiles)
    return math.fsum((pull * gap).sum().item() for pull, gap in misses)


def _miss(tables: list[Tensor], tile: Tile) -> tuple[Tensor, Tensor]:
    """How far the fits of a tile are from its logs, times f(X) and as it is; [R, C]."""
    down, right, position, log_x, weight = tile
    w, w_ctx, b, b_ctx = tables
    w, w_ctx, b, b_ctx = w[down], w_ctx[right], b[down], b_ctx[right]
    log_counts, f = log_x, weight
    if len(position) > 0:
        log_counts, f = w.new_zeros(2, len(w) * len(w_ctx))
        log_counts[position], f[position] = log_x, weight
    shape = len(w), len(w_ctx)
    gap = torch.addmm(b_ctx - log_counts.view(shape), w, w_ctx.T).add_(b[:, None])
    return f.view(shape) * gap, gap


def _step(tables: list[Tensor], sums: list[Tensor], tile: Tile, lr: float) -> Tensor:
    """Take one AdaGrad step on the words of a tile, and return the tile's loss."""
    pull, gap = _miss(tables, tile)  # pull: half the gradient at each dot product
    spans = tile[0], tile[1], tile[0], tile[1]
    moved = [table[span] for table, span in zip(tables, spans, strict=True)]
    totals = [total[span] for total, span in zip(sums, spans, strict=True)]
    gradients = pull @ moved[1], pull.T @ moved[0], pull.sum(1), pull.sum(0)
    for table, total, gradient in zip(moved, totals, gradients, strict=True):
        total.addcmul_(gradient, gradient)
        table.addcdiv_(gradient, total.sqrt(), value=-lr)
    return pull.flatten() @ gap.flatten()
