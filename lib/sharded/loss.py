"""The loss over a vocabulary that processes share, a chunk of rows at a time."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributed.tensor import DTensor

from lib.checks import check_ids
from lib.sharded.ranks import alike, all_reduce, rows_of, shard_of
from lib.tied_head import (
    cast_like,
    check_loss_options,
    chunk_gradients,
    normalise,
    reduce_losses,
    token_losses,
)


@torch.compiler.disable
def vocab_parallel_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    ignore_index: int = -100,
    *,
    bias: Tensor | None = None,
    reduction: str = "mean",
    z_loss: float = 0.0,
    softcap: float | None = None,
    chunk_size: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Compute the cross-entropy of `hidden @ weight.T + bias`, rows over processes.

    Each rank runs over its own rows in chunks, as `tied_cross_entropy` does over all.
    What it finds is, for each token, the largest logit, the sum of the exponentials
    relative to it and the target's logit, if the target is one of its rows; these are
    merged over the ranks by the same rule as over the chunks, with messages of three
    numbers a token. No process ever holds the logits of a token, not even its share of
    them at once. In the backward pass the gradient of the hidden states is summed over
    the ranks, once, in float32 (float64 for float64 inputs) as all sums are.

    Args:
        hidden: `[..., d]`, floating point, the same on all ranks.
        weight: the table, a `DTensor` `[V, d]` split by rows; or this rank's rows as a
            plain tensor, in any split: the ranks then tell each other their numbers
            of rows in every call.
        targets: integer ids of the whole table `[...]`, the same on all ranks.
        ignore_index: the target whose tokens do not count.
        bias: one number a row, split as the rows are: a `DTensor` beside a `DTensor`.
        reduction: "mean" over the tokens that count, "sum", or "none".
        z_loss: weight of (log Z)², added to each token's loss.
        softcap: c in c · tanh(logits / c); None leaves the logits as they are.
        chunk_size: rows at once; None takes 2,048.
        group: the ranks that share a plain tensor; None means all. A `DTensor` knows
            its own.

    Returns:
        A number, or with "none" the losses `[...]`; the same on all ranks.

    Raises:
        RuntimeError: there is no process group.
        TypeError, ValueError: as `tied_cross_entropy`; a table that is not split by
            rows.
        IndexError: a target outside the whole table that is not `ignore_index`.

    Source:
        Shoeybi et al. 2019 (Megatron-LM), section 3: the loss of split logits. Chunks:
        Wijmans et al. 2025. The rule of both: Milakov & Gimelshein 2018, section 3.1.

    Example:
        >>> store = dist.HashStore()
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> hidden, rows = torch.ones(2, 3), torch.zeros(5, 3)
        >>> vocab_parallel_cross_entropy(hidden, rows, torch.tensor([4, -100]))
        tensor(1.6094)
        >>> dist.destroy_process_group()
    """
    size = check_loss_options(reduction, z_loss, softcap, "vocabulary", chunk_size)

    def losses_of(hidden, weight, bias, ids, counted):
        rows, first, total, ranks = shard_of(weight, group)
        check_ids(ids, total, "target")
        bias = _own_bias(bias, weight)
        options = ranks, size, z_loss, softcap
        return _Losses.apply(hidden, rows, bias, ids - first, counted, *options)

    both = alike("hidden states", hidden), alike("targets", targets)
    inputs = both[0], weight, bias, both[1]
    return reduce_losses(losses_of, *inputs, ignore_index, reduction)


def merge_over_ranks(
    own: Tensor, top: Tensor, total: Tensor, group: dist.ProcessGroup | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the ranks' results for each token, by the rule that merges chunks.

    Args:
        own: the target's logit where this rank has it, else 0, `[N]`.
        top: the largest logit of this rank's rows, `[N]`.
        total: the sum of their exponentials relative to it, `[N]`.
        group: the ranks; None means all.

    Returns:
        The same three for the whole vocabulary, after a maximum of N numbers and a sum
        of 2 N.

    Source:
        Milakov & Gimelshein 2018, section 3.1, whose operation is associative and
        commutative.

    Example:
        >>> store = dist.HashStore()
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> merge_over_ranks(*torch.tensor([[1.0], [3.0], [2.0]]))
        (tensor([1.]), tensor([3.]), tensor([2.]))
        >>> dist.destroy_process_group()
    """
    highest = all_reduce(top.clone(), group, largest=True)
    sums = torch.stack([own, total * (top - highest).exp()])  # [2, N]
    own, total = all_reduce(sums, group)
    return own, highest, total


class _Losses(torch.autograd.Function):
    """Loss of every token `[N]` from this rank's rows and the others' results."""

    @staticmethod
    def forward(ctx, hidden, rows, bias, ids, counted, group, size, z_loss, softcap):
        inside = (ids >= 0) & (ids < len(rows))
        own, norm = _of_shard(hidden, rows, bias, ids, size, softcap)
        own, top, total = merge_over_ranks(own, *norm, group)
        own, top = own.where(counted, 0), top.where(counted, 0)
        total = total.where(counted, 1)
        ids = ids.where(inside, 0)
        saved = hidden, rows, bias, ids, counted, own, top, total, inside
        ctx.save_for_backward(*saved)
        ctx.group, ctx.options = group, (len(hidden) or 1, size, z_loss, softcap)
        return token_losses(own, (top, total), z_loss)

    @staticmethod
    @once_differentiable
    def backward(ctx, factor):
        *saved, inside = ctx.saved_tensors
        needed = ctx.needs_input_grad[:3]
        found = chunk_gradients(tuple(saved), factor, needed, ctx.options, inside)
        if needed[0]:
            all_reduce(found[0], ctx.group)
        return *cast_like(found, saved), *[None] * 6


def _own_bias(bias: Tensor | None, weight: Tensor) -> Tensor | None:
    """This rank's part of a bias, which must be split as the table is."""
    if bias is not None and isinstance(bias, DTensor) != isinstance(weight, DTensor):
        kinds = type(bias).__name__, type(weight).__name__
        raise TypeError(
            f"the bias is a {kinds[0]} and the table a {kinds[1]}: both must be "
            "DTensors split by rows, or both this rank's part as a plain tensor"
        )
    return rows_of("the bias", bias) if isinstance(bias, DTensor) else bias


def _of_shard(hidden, rows, bias, ids, size, softcap) -> tuple:
    """What `normalise` finds in this rank's rows; of no rows, nothing."""
    if len(rows):
        own, norm, _ = normalise(hidden, rows, bias, ids, size, softcap)
        return own, norm
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    nothing = torch.zeros_like(ids, dtype=dtype)
    return nothing, (nothing + torch.finfo(dtype).min, nothing)
