"""The loss over chunks as functions of autograd, of two kinds.

`Recomputed` is one that `torch.func` can transform. `Formed` keeps gradients from its
forward to its backward pass, which a transform cannot.
"""

from typing import NoReturn

import torch
from torch import Tensor

from lib.checks import check_ids
from lib.tied_head.chunks import (
    normalise,
    slices_of,
    softmax_gradient,
    target_gradient,
    token_losses,
    wide_dtype,
)
from lib.tied_head.gradients import Sums, cast_like, chunk_gradients


class _OneByOne(torch.autograd.Function):
    """A function that `torch.func.vmap` applies to one sample after another."""

    @classmethod
    def vmap(cls, info, in_dims, *inputs):
        results = []
        for sample in range(info.batch_size):
            one = list(inputs)
            for place, (x, dim) in enumerate(zip(inputs, in_dims, strict=True)):
                if isinstance(x, Tensor) and dim is not None:
                    one[place] = x.select(dim, sample)
            results.append(cls.apply(*one))
        columns = zip(*results, strict=True)
        stacked = [None if part[0] is None else torch.stack(part) for part in columns]
        return tuple(stacked), tuple(None if x is None else 0 for x in stacked)

    @staticmethod
    def jvp(ctx, *tangents):
        _refuse("forward-mode")


class Recomputed(_OneByOne):
    """Loss of every token; the backward pass computes each chunk of logits again.

    Tokens that are not counted have the loss 0, whatever their hidden states hold.
    """

    @staticmethod
    def forward(hidden, weight, bias, ids, counted, tokens, rows, z_loss, softcap, _):
        check_ids(ids, len(weight), "target")
        parts = []
        for some in slices_of(len(ids), tokens):
            part = hidden[some], weight, bias, ids[some]
            own, norm, _ = normalise(*part, rows, softcap)
            parts.append((own, *norm))
        own, top, total = (torch.cat(part) for part in zip(*parts, strict=True))
        own, top = own.where(counted, 0), top.where(counted, 0)
        total = total.where(counted, 1)
        return token_losses(own, (top, total), z_loss), own, top, total  # [N] each

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs[:5], *output[1:])
        *ctx.options, ctx.transformed = inputs[5:]

    @staticmethod
    def backward(ctx, factor, *_):
        # Under `torch.func` there always is a graph, which need not be followed.
        if torch.is_grad_enabled() and not ctx.transformed:  # with create_graph=True
            _refuse("second")
        needed = ctx.needs_input_grad[:3]
        found = _Gradients.apply(*ctx.saved_tensors, factor, needed, *ctx.options)
        return *found, *[None] * 7


class _Gradients(_OneByOne):
    """`chunk_gradients` as a function: `torch.func` asks for its derivative."""

    @staticmethod
    def forward(*inputs):
        factor, needed, *options = inputs[8:]
        found = chunk_gradients(inputs[:8], factor, needed, tuple(options))
        return tuple(cast_like(found, inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        _refuse("second")


class Formed(torch.autograd.Function):
    """Sum of the losses counted; its gradients are formed in the forward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, ids, counted, form, size, z_loss, softcap):
        check_ids(ids, len(weight), "target")
        needed = [need and form for need in ctx.needs_input_grad[:3]]
        factor = counted.to(wide_dtype(hidden))  # 1 a token, see `backward`
        sums, parts = Sums(hidden, weight, bias, needed, many=True), []
        for some in slices_of(len(ids), size):
            part = hidden[some].where(counted[some, None], 0)  # [n, d]
            chunk = part, weight, bias, ids[some]
            own, norm, z = normalise(*chunk, len(weight), softcap)
            parts.append((own, *norm))
            if any(needed):
                dz = softmax_gradient(z, norm, factor[some], z_loss, softcap)
                sums.add(some, slice(0, len(weight)), dz, part)
                del dz
            del z  # before the next chunk is allocated
        own, *norm = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.formed = sums.finish(ids, counted, target_gradient(own, factor, softcap))
        ctx.save_for_backward(hidden, weight, bias, ids, counted, own, *norm)
        ctx.options = size, len(weight), z_loss, softcap
        return token_losses(own, norm, z_loss).where(counted, 0).sum()

    @staticmethod
    def backward(ctx, factor):
        if torch.is_grad_enabled():  # with create_graph=True
            _refuse("second")
        # The sums are still wide and as long as the losses' own gradients: a share of
        # 1/N, or a loss scale, comes before they are rounded. They are scaled in place,
        # for a copy would be a table more; so a second backward pass through the same
        # loss has to compute them again.
        formed, ctx.formed = ctx.formed, None
        if formed is None:
            one = ctx.saved_tensors[4].to(factor.dtype)  # [N], 1 for what is counted
            needed = ctx.needs_input_grad[:3]
            formed = chunk_gradients(ctx.saved_tensors, one, needed, ctx.options)
        scaled = [x if x is None else x.mul_(factor) for x in formed]
        return *cast_like(scaled, ctx.saved_tensors), *[None] * 6

    jvp = _OneByOne.jvp


def _refuse(kind: str) -> NoReturn:
    raise RuntimeError(
        f"tied_cross_entropy has no {kind} derivative; for one take "
        "F.cross_entropy(hidden @ weight.T, targets)"
    )
