"""What GloVe fits: the weighted loss, and the model that holds the vectors."""

import torch
from torch import Tensor, nn

from lib.checks import check_size
from lib.glove.counts import as_floating, nonzero_counts


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
        vocab_size: how many words, V.
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
        vocab_size, dim = check_size("vocab_size", vocab_size), check_size("dim", dim)
        self.w = nn.Parameter(torch.empty(vocab_size, dim))
        self.w_ctx = nn.Parameter(torch.empty(vocab_size, dim))
        self.b = nn.Parameter(torch.empty(vocab_size))
        self.b_ctx = nn.Parameter(torch.empty(vocab_size))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew, uniform on ±0.5/d.

        Args:
            generator: the source of chance; None takes torch's own.
        """
        bound = 0.5 / self.w.shape[1]
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, X: Tensor, x_max: float = 100.0, alpha: float = 0.75) -> Tensor:
        """Return `glove_loss` of these parameters on the counts `[V, V]`.

        Args:
            X: counts `[V, V]`.
            x_max, alpha: as for `glove_weight`.
        """
        return glove_loss(self.w, self.w_ctx, self.b, self.b_ctx, X, x_max, alpha)

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """Return w + w̃ `[V, d]`, the vectors to use, outside the graph."""
        return self.w + self.w_ctx


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
