"""Cross-entropy over chunks of logits: what `tied_cross_entropy` does in each of them.

A tile is some tokens against some rows of the table, n × v. Logits, losses and sums
over tiles are float32, or float64 for float64 inputs.
"""

import torch
from torch import Tensor


def logits_of(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, softcap: float | None
) -> Tensor:
    """Logits of some tokens for some rows, in the dtype that sums are kept in."""
    z = (hidden @ weight.T).to(wide_dtype(hidden))  # [n, v]
    if bias is not None:
        z += bias
    return z if softcap is None else z.div_(softcap).tanh_().mul_(softcap)


def softmax_gradient(
    z: Tensor, norm: tuple[Tensor, Tensor], factor: Tensor, z_loss: float, softcap
) -> Tensor:
    """Turn logits `[n, v]`, in place, into the gradient of log Z and the z-loss.

    `norm` is as `normalise` returns it, `factor` the gradient of each token's loss. The
    term at the target is left to `target_gradient`.

    Args:
        z: logits `[n, v]` of one chunk of rows; they are overwritten.
        norm: largest logit and sum of exps, as `normalise` returns them.
        factor: the gradient of each token's loss, `[n]`.
        z_loss: the weight of the squared log Z.
        softcap: the bound of the logits, or None.
    """
    slope = None if softcap is None else 1 - (z / softcap).square()
    top, total = norm
    scale = factor * (1 + 2 * z_loss * (top + total.log())) / total
    gradient = z.sub_(top[:, None]).exp_().mul_(scale[:, None])  # [n, v]
    return gradient if slope is None else gradient.mul_(slope)


def target_gradient(own: Tensor, factor: Tensor, softcap: float | None) -> Tensor:
    """Gradient of the losses at the targets' logits, `[n]`, without log Z's share."""
    return -factor if softcap is None else factor * ((own / softcap).square() - 1)


def normalise(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, size: int, softcap
) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """Run over the rows, `size` at a time, with a running maximum and sum.

    Returns the targets' logits `[n]`; the largest logit and the sum of the exps
    relative to it, both `[n]`, so that Z = exp(top) · total; and the last chunk of
    logits.

    Args:
        hidden: `[n, d]`.
        weight: rows of the table, `[V, d]`.
        bias: `[V]`, or None.
        ids: targets, int64 `[n]`.
        size: rows of a chunk.
        softcap: the bound of the logits, or None.
    """
    dtype = wide_dtype(hidden)
    top = torch.full_like(ids, torch.finfo(dtype).min, dtype=dtype)  # [n]
    total, own = torch.zeros_like(top), torch.zeros_like(top)
    for rows in slices_of(len(weight), size):
        z = logits_of(hidden, weight[rows], part_of(bias, rows), softcap)  # [n, v]
        higher = torch.maximum(top, z.amax(1))
        more = (z - higher[:, None]).exp_().sum(1)
        total, top = total * (top - higher).exp() + more, higher
        column, inside = _locate(ids - rows.start, z.shape[1])
        own += z.gather(1, column).squeeze(1).where(inside, 0)
    return own, (top, total), z


def token_losses(own: Tensor, norm: tuple[Tensor, Tensor], z_loss: float) -> Tensor:
    """Losses `[n]` from what `normalise` returns.

    Args:
        own: the targets' logits `[n]`.
        norm: largest logit and sum of exps, as `normalise` returns them.
        z_loss: the weight of the squared log Z.
    """
    top, total = norm
    losses = total.log() - (own - top)  # [n]
    if z_loss == 0:  # for 0 times the square of a large log Z may be 0 times infinity
        return losses
    return losses + z_loss * (top + total.log()).square()


def _locate(ids: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Columns `[n, 1]` to read or write, and whether the id is in this chunk `[n]`."""
    return ids.clamp(0, rows - 1)[:, None], (ids >= 0) & (ids < rows)


def slices_of(length: int, size: int) -> list[slice]:
    starts = range(0, length, size) if length else [0]
    return [slice(start, min(start + size, length)) for start in starts]


def part_of(bias: Tensor | None, rows: slice) -> Tensor | None:
    return None if bias is None else bias[rows]


def wide_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
