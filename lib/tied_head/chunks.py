"""Cross-entropy over chunks of logits, and its gradients: `tied_cross_entropy`'s core.

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

    Returns the targets' logits `[n]`; the largest logit and the sum of the exps above
    it, both `[n]`, so that Z = exp(top) · total; and the last chunk of logits.
    """
    dtype = wide_dtype(hidden)
    top = torch.full_like(ids, torch.finfo(dtype).min, dtype=dtype)  # [n]
    total, own = torch.zeros_like(top), torch.zeros_like(top)
    for rows in _slices(len(weight), size):
        z = logits_of(hidden, weight[rows], _part(bias, rows), softcap)  # [n, v]
        higher = torch.maximum(top, z.amax(1))
        more = (z - higher[:, None]).exp_().sum(1)
        total, top = total * (top - higher).exp() + more, higher
        column, inside = _locate(ids - rows.start, z.shape[1])
        own += z.gather(1, column).squeeze(1).where(inside, 0)
    return own, (top, total), z


def _losses(own: Tensor, norm: tuple[Tensor, Tensor], z_loss: float) -> Tensor:
    top, total = norm
    log_z = top + total.log()
    return total.log() - (own - top) + z_loss * log_z.square()  # [n]


class Recomputed(torch.autograd.Function):
    """Loss of every token; the backward pass computes each chunk of logits again."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, ids, tokens, rows, z_loss, softcap):
        parts = []
        for some in _slices(len(ids), tokens):
            part = hidden[some], weight, bias, ids[some]
            own, norm, _ = normalise(*part, rows, softcap)
            parts.append((own, *norm))
        own, *norm = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, weight, bias, ids, own, *norm)
        ctx.options = tokens, rows, z_loss, softcap
        return _losses(own, norm, z_loss)  # [N]

    @staticmethod
    def backward(ctx, factor):
        _refuse_second_derivatives()
        return *gradients_again(ctx, factor, *ctx.options), *[None] * 5


class Formed(torch.autograd.Function):
    """Weighted sum of the losses; its gradients are formed in the forward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, ids, share, form, size, z_loss, softcap):
        needed = [need and form for need in ctx.needs_input_grad]
        sums = _Sums(hidden, weight, bias, needed, many=True)
        everything, loss, parts = slice(0, len(weight)), share.new_zeros(()), []
        for some in _slices(len(ids), size):
            part = hidden[some], weight, bias, ids[some]
            own, norm, z = normalise(*part, len(weight), softcap)
            loss += share[some] @ _losses(own, norm, z_loss)
            parts.append((own, *norm))
            if any(needed):
                dz = softmax_gradient(z, norm, share[some], z_loss, softcap)
                sums.add(some, everything, dz)
                del dz
            del z  # before the next chunk is allocated
        own, *norm = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.formed = sums.finish(ids, target_gradient(own, share, softcap))
        ctx.save_for_backward(hidden, weight, bias, ids, own, *norm, share)
        ctx.options = size, len(weight), z_loss, softcap
        return loss

    @staticmethod
    def backward(ctx, factor):
        _refuse_second_derivatives()
        # Scaled in place, for a copy would be a table more; so a second backward pass
        # through the same loss has to compute them again.
        formed, ctx.formed = ctx.formed, None
        if formed is None:
            formed = gradients_again(ctx, factor * ctx.saved_tensors[-1], *ctx.options)
        else:
            formed = [x if x is None else x.mul_(factor) for x in formed]
        return *formed, *[None] * 6


def _refuse_second_derivatives() -> None:
    """Raise in a backward pass with `create_graph=True`: this one has no derivative."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "tied_cross_entropy has no second derivative; for one take "
            "F.cross_entropy(hidden @ weight.T, targets)"
        )


def gradients_again(ctx, factor, tokens, rows, z_loss, softcap) -> list[Tensor | None]:
    """Compute the logits again, tile by tile, and from them the three gradients."""
    hidden, weight, bias, ids, own, top, total = ctx.saved_tensors[:7]
    sums = _Sums(hidden, weight, bias, ctx.needs_input_grad, tokens < len(ids))
    for some in _slices(len(ids), tokens):
        norm = top[some], total[some]
        for cut in _slices(len(weight), rows):
            z = logits_of(hidden[some], weight[cut], _part(bias, cut), softcap)
            dz = softmax_gradient(z, norm, factor[some], z_loss, softcap)
            sums.add(some, cut, dz)
    return sums.finish(ids, target_gradient(own, factor, softcap))


class _Sums:
    """The gradients of hidden states, table and bias, summed over tiles."""

    def __init__(self, hidden, weight, bias, needed, many):
        self.inputs, wide = (hidden, weight, bias), wide_dtype(hidden)
        # With one chunk of tokens each row is written once: no wider sum is needed.
        dtypes = (wide, wide if many else weight.dtype, wide)
        self.sums = [
            torch.zeros_like(x, dtype=dtype) if need and x is not None else None
            for x, dtype, need in zip(self.inputs, dtypes, needed, strict=False)
        ]

    def add(self, some: slice, rows: slice, dz: Tensor) -> None:
        """Add a tile's share of the gradient of log Z, from its logits' `[n, v]`."""
        (hidden, weight, _), (to_hidden, to_weight, to_bias) = self.inputs, self.sums
        if to_bias is not None:
            to_bias[rows] += dz.sum(0)
        dz = dz.to(hidden.dtype)
        if to_hidden is not None:
            _add_product(to_hidden[some], dz, weight[rows])
        if to_weight is not None:
            _add_product(to_weight[rows], dz.T, hidden[some])

    def finish(self, ids: Tensor, pull: Tensor) -> list[Tensor | None]:
        """Add `target_gradient`, `[N]`, and cast the sums to the dtypes of the inputs.

        Only now, for one large term among V small ones would cost them their digits.
        """
        (hidden, weight, _), (to_hidden, to_weight, to_bias) = self.inputs, self.sums
        if to_bias is not None:
            to_bias.index_add_(0, ids, pull)
        if to_hidden is not None:
            to_hidden.addcmul_(weight[ids].to(pull.dtype), pull[:, None])
        if to_weight is not None:
            rows, place = ids.unique(return_inverse=True)
            part = to_weight[rows].to(pull.dtype)  # [u, d]
            part.index_add_(0, place, hidden * pull[:, None])
            to_weight[rows] = part.to(to_weight.dtype)
        pairs = zip(self.sums, self.inputs, strict=True)
        return [total if total is None else total.to(x.dtype) for total, x in pairs]


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b


def _locate(ids: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Columns `[n, 1]` to read or write, and whether the id is in this chunk `[n]`."""
    return ids.clamp(0, rows - 1)[:, None], (ids >= 0) & (ids < rows)


def _slices(length: int, size: int) -> list[slice]:
    starts = range(0, length, size) if length else [0]
    return [slice(start, min(start + size, length)) for start in starts]


def _part(bias: Tensor | None, rows: slice) -> Tensor | None:
    return None if bias is None else bias[rows]


def wide_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
