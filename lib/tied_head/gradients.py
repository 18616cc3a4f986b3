"""The gradients of the loss over chunks, summed over tiles in a wide dtype."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lib.tied_head.chunks import (
    logits_of,
    part_of,
    slices_of,
    softmax_gradient,
    target_gradient,
    wide_dtype,
)


def chunk_gradients(
    saved: tuple[Tensor | None, ...],
    factor: Tensor,
    needed: Sequence[bool],
    options: tuple[int, int, float, float | None],
    inside: Tensor | None = None,
) -> list[Tensor | None]:
    """Compute the logits again, tile by tile, and from them the three gradients, wide.

    Args:
        saved: hidden states `[N, d]`, table, bias, ids `[N]`, which of them are
            counted, and what `normalise` made of them, three times `[N]`.
        factor: the gradient of each token's loss, `[N]`.
        needed: which of the three gradients are wanted.
        options: tokens and rows of a tile, z_loss and softcap.
        inside: whether a target is a row of this table, `[N]`; None means all. The
            table may be a part of a larger one whose sums are in `saved`; the id of a
            target elsewhere is 0.
    """
    hidden, weight, bias, ids, counted, own, top, total = saved
    tokens, rows, z_loss, softcap = options
    many = tokens < len(ids) or rows == len(weight)
    sums = Sums(hidden, weight, bias, needed, many)
    factor = factor.where(counted, 0)
    for some in slices_of(len(ids), tokens):
        part = hidden[some].where(counted[some, None], 0)  # [n, d]
        norm, ignored = (top[some], total[some]), ~counted[some, None]
        for cut in slices_of(len(weight), rows):
            z = logits_of(part, weight[cut], part_of(bias, cut), softcap)
            dz = softmax_gradient(z, norm, factor[some], z_loss, softcap)
            sums.add(some, cut, dz.masked_fill_(ignored, 0), part)
            del z, dz  # before the next tile is allocated
        del part
    pull = target_gradient(own, factor, softcap)
    if inside is not None:
        pull = pull.where(inside, 0)
    return sums.finish(ids, counted, pull) if len(weight) else sums.sums


def cast_like(sums: Sequence[Tensor | None], inputs: Sequence) -> list[Tensor | None]:
    """Cast the sums to the dtypes of hidden states, table and bias.

    Args:
        sums: gradients, or None where none is wanted.
        inputs: the tensors whose dtypes they take, in the same order.
    """
    pairs = zip(sums, inputs, strict=False)
    return [total if total is None else total.to(x.dtype) for total, x in pairs]


class Sums:
    """The gradients of hidden states, table and bias, summed over tiles."""

    def __init__(self, hidden, weight, bias, needed, many):
        self.inputs, wide = (hidden, weight, bias), wide_dtype(hidden)
        # With one chunk of tokens each row is written once: no wider sum is needed.
        dtypes = (wide, wide if many else weight.dtype, wide)
        self.sums = [
            torch.zeros_like(x, dtype=dtype) if need and x is not None else None
            for x, dtype, need in zip(self.inputs, dtypes, needed, strict=False)
        ]

    def add(self, some: slice, rows: slice, dz: Tensor, part: Tensor) -> None:
        """Add a tile's share of the gradient of log Z, from its logits' `[n, v]`.

        `part` is `hidden[some]`, with zeros for the tokens that are not counted.
        """
        (_, weight, _), (to_hidden, to_weight, to_bias) = self.inputs, self.sums
        if to_bias is not None:
            to_bias[rows] += dz.sum(0)
        dz = dz.to(part.dtype)
        if to_hidden is not None:
            _add_product(to_hidden[some], dz, weight[rows])
        if to_weight is not None:
            _add_product(to_weight[rows], dz.T, part)

    def finish(self, ids: Tensor, counted: Tensor, pull: Tensor) -> list[Tensor | None]:
        """Add `target_gradient`, `[N]`, and return the sums, still wide.

        Only now, for one large term among V small ones would cost them their digits.
        """
        (hidden, weight, _), (to_hidden, to_weight, to_bias) = self.inputs, self.sums
        if to_bias is not None:
            to_bias.index_add_(0, ids, pull)
        if to_hidden is not None:
            to_hidden.addcmul_(weight[ids].to(pull.dtype), pull[:, None])
        if to_weight is not None:
            pulls = (hidden * pull[:, None]).masked_fill_(~counted[:, None], 0)
            _add_to_rows(to_weight, ids, pulls)
        return self.sums


def _add_to_rows(total: Tensor, ids: Tensor, pulls: Tensor) -> None:
    """Add `[N, d]` to the rows of ids, rounding each row once where `total` is narrow.

    What is added to one row is summed at one place, that of its first token in order of
    ids. All tokens of a row then write the same sum, so that no size depends on values.
    """
    if total.dtype == pulls.dtype:
        total.index_add_(0, ids, pulls)
        return
    ids, order = ids.sort(stable=True)
    begins = ids.diff(prepend=ids.new_full((1,), -1)) != 0
    place = begins.cumsum(0) - 1  # [N], the number of a token's row among those of ids
    sums = torch.zeros_like(pulls).index_add_(0, place, pulls[order])
    total[ids] = (total[ids].to(pulls.dtype) + sums[place]).to(total.dtype)


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b
