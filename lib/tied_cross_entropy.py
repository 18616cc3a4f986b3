"""The loss over a whole vocabulary without ever holding all of its logits."""

import torch
from torch import Tensor

from lib.token_embedding import INTEGER_DTYPES, check_ids, check_size

CHUNK_SIZES = {"vocabulary": 2_048, "tokens": 256}
REDUCTIONS = ("mean", "sum", "none")


def tied_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    ignore_index: int = -100,
    *,
    bias: Tensor | None = None,
    reduction: str = "mean",
    z_loss: float = 0.0,
    softcap: float | None = None,
    chunk_by: str = "vocabulary",
    chunk_size: int | None = None,
) -> Tensor:
    """Compute the cross-entropy of `hidden @ weight.T + bias`, a chunk at a time.

    The N × V logits never exist at once, in either pass. By vocabulary, a running
    maximum and sum replace them, and the backward pass computes each chunk again: the
    least memory, N × chunk_size, for a fourth matrix product. By tokens, each chunk's
    gradients are formed in the forward pass, which spares that product and holds
    chunk_size × V; reduction "none" computes again there too, because the weights of
    the tokens are not yet known. Losses and sums over chunks are float32, float64 for
    float64 inputs. Under autocast the inputs are cast as a linear layer's would be.

    Args:
        hidden: `[..., d]`, floating point.
        weight: the table `[V, d]`, of the same dtype.
        targets: integer ids `[...]`, one for each hidden state.
        ignore_index: the target whose tokens do not count; it may be any integer.
        bias: one number a row, `[V]`.
        reduction: "mean" over the tokens that count, "sum", or "none".
        z_loss: weight of (log Z)², added to each token's loss; Z is the sum of exps.
        softcap: c in c · tanh(logits / c); None leaves the logits as they are.
        chunk_by: "vocabulary" or "tokens".
        chunk_size: rows or tokens at once; None takes 2,048 rows or 256 tokens.

    Returns:
        A number, or with "none" the losses `[...]`, zero at ignored tokens. If no token
        counts, the mean is zero, and so is its gradient.

    Raises:
        TypeError: hidden states that are not floating point, a table or bias of another
            dtype, targets that are not integers.
        ValueError: widths or shapes that do not match, an unknown reduction or
            chunk_by, a chunk size below 1, a softcap not above 0, a negative z_loss.
        IndexError: a target outside the table that is not `ignore_index`.
        RuntimeError: a backward pass with `create_graph=True`.

    Source:
        The running sum: Milakov & Gimelshein 2018, algorithm 3. By vocabulary: the idea
        of Wijmans et al. 2024 (Cut Cross-Entropy). By tokens: Hsu et al. 2024 (Liger),
        section 3.2. z-loss: Chowdhery et al. 2022, section 5. Soft cap: Gemma 2.

    Example:
        >>> hidden, table = torch.ones(2, 3), torch.zeros(5, 3)
        >>> tied_cross_entropy(hidden, table, torch.tensor([4, -100]))
        tensor(1.6094)
    """
    _check_tensors(hidden, weight, bias, targets)
    _check_options(reduction, z_loss, softcap, chunk_by)
    size = CHUNK_SIZES[chunk_by] if chunk_size is None else chunk_size
    check_size("chunk_size", size)
    counted = targets.reshape(-1) != ignore_index  # [N]
    ids = check_ids(targets.reshape(-1).where(counted, 0), len(weight), "target")
    tensors = (hidden.reshape(-1, hidden.shape[-1]), weight, bias)
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        tensors = tuple(x if x is None else x.to(dtype) for x in tensors)
    share = counted.to(_wide(tensors[0]))
    if reduction == "mean":
        share = share / share.sum().clamp(min=1)
    with torch.autocast(hidden.device.type, enabled=False):
        if chunk_by == "tokens" and reduction != "none":
            form = torch.is_grad_enabled()
            return _Formed.apply(*tensors, ids, share, form, size, z_loss, softcap)
        by_rows = chunk_by == "vocabulary"
        sizes = (len(ids) or 1, size) if by_rows else (size, len(weight))
        losses = _Recomputed.apply(*tensors, ids, *sizes, z_loss, softcap)  # [N]
        losses = losses.where(counted, 0) * share
    return losses.view(targets.shape) if reduction == "none" else losses.sum()


def _logits(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, softcap: float | None
) -> Tensor:
    """Logits of some tokens for some rows, in the dtype that sums are kept in."""
    z = (hidden @ weight.T).to(_wide(hidden))  # [n, v]
    if bias is not None:
        z += bias
    return z if softcap is None else z.div_(softcap).tanh_().mul_(softcap)


def _logit_gradient(
    z: Tensor, norm: tuple[Tensor, Tensor], ids: Tensor, factor: Tensor, z_loss, softcap
) -> Tensor:
    """Turn logits `[n, v]`, in place, into the gradient with respect to them.

    `norm` is as `_normalise` returns it. `ids` count from the first row of this chunk
    and may lie outside it; `factor` is the gradient of each token's loss.
    """
    slope = None if softcap is None else 1 - (z / softcap).square()
    top, total = norm
    scale = factor * (1 + 2 * z_loss * (top + total.log())) / total
    gradient = z.sub_(top[:, None]).exp_().mul_(scale[:, None])
    column, inside = _locate(ids, z.shape[1])
    gradient.scatter_add_(1, column, torch.where(inside, -factor, 0)[:, None])
    return gradient if slope is None else gradient.mul_(slope)


def _normalise(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor, size: int, softcap
) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """Run over the rows, `size` at a time, with a running maximum and sum.

    Returns the targets' logits `[n]`; the largest logit and the sum of the exps above
    it, both `[n]`, so that Z = exp(top) · total; and the last chunk of logits.
    """
    dtype = _wide(hidden)
    top = torch.full_like(ids, torch.finfo(dtype).min, dtype=dtype)  # [n]
    total, own = torch.zeros_like(top), torch.zeros_like(top)
    for rows in _slices(len(weight), size):
        z = _logits(hidden, weight[rows], _part(bias, rows), softcap)  # [n, v]
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


class _Recomputed(torch.autograd.Function):
    """Loss of every token; the backward pass computes each chunk of logits again."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, ids, tokens, rows, z_loss, softcap):
        parts = []
        for some in _slices(len(ids), tokens):
            part = hidden[some], weight, bias, ids[some]
            own, norm, _ = _normalise(*part, rows, softcap)
            parts.append((own, *norm))
        own, *norm = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, weight, bias, ids, *norm)
        ctx.options = tokens, rows, z_loss, softcap
        return _losses(own, norm, z_loss)  # [N]

    @staticmethod
    def backward(ctx, factor):
        _refuse_second_derivatives()
        return *_gradients(ctx, factor, *ctx.options), *[None] * 5


class _Formed(torch.autograd.Function):
    """Weighted sum of the losses; its gradients are formed in the forward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, ids, share, form, size, z_loss, softcap):
        needed = [need and form for need in ctx.needs_input_grad]
        sums = _Sums(hidden, weight, bias, needed, many=True)
        everything, loss, norms = slice(0, len(weight)), share.new_zeros(()), []
        for some in _slices(len(ids), size):
            part = hidden[some], weight, bias, ids[some]
            own, norm, z = _normalise(*part, len(weight), softcap)
            loss += share[some] @ _losses(own, norm, z_loss)
            norms.append(norm)
            if any(needed):
                factor = share[some]
                dz = _logit_gradient(z, norm, ids[some], factor, z_loss, softcap)
                sums.add(some, everything, dz)
        norm = (torch.cat(part) for part in zip(*norms, strict=True))
        ctx.save_for_backward(hidden, weight, bias, ids, *norm, share)
        ctx.formed, ctx.options = sums.cast(), (size, len(weight), z_loss, softcap)
        return loss

    @staticmethod
    def backward(ctx, factor):
        _refuse_second_derivatives()
        # Scaled in place, for a copy would be a table more; so a second backward pass
        # through the same loss has to compute them again.
        formed, ctx.formed = ctx.formed, None
        if formed is None:
            formed = _gradients(ctx, factor * ctx.saved_tensors[-1], *ctx.options)
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


def _gradients(ctx, factor, tokens, rows, z_loss, softcap) -> list[Tensor | None]:
    """Compute the logits again, tile by tile, and from them the three gradients."""
    hidden, weight, bias, ids, *norm = ctx.saved_tensors[:6]
    sums = _Sums(hidden, weight, bias, ctx.needs_input_grad, tokens < len(ids))
    for some in _slices(len(ids), tokens):
        top, total = (x[some] for x in norm)
        for cut in _slices(len(weight), rows):
            z = _logits(hidden[some], weight[cut], _part(bias, cut), softcap)
            near = ids[some] - cut.start
            dz = _logit_gradient(z, (top, total), near, factor[some], z_loss, softcap)
            sums.add(some, cut, dz)
    return sums.cast()


class _Sums:
    """The gradients of hidden states, table and bias, summed over chunks."""

    def __init__(self, hidden, weight, bias, needed, many):
        wide = _wide(hidden)
        self.inputs = hidden, weight, bias
        # With one chunk of tokens each row is written once: no wider sum is needed.
        dtypes = (wide, wide if many else weight.dtype, wide)
        self.sums = [
            torch.zeros_like(x, dtype=dtype) if need and x is not None else None
            for x, dtype, need in zip(self.inputs, dtypes, needed, strict=False)
        ]

    def add(self, some: slice, rows: slice, dz: Tensor) -> None:
        (hidden, weight, _), (to_hidden, to_weight, to_bias) = self.inputs, self.sums
        if to_bias is not None:
            to_bias[rows] += dz.sum(0)
        dz = dz.to(hidden.dtype)  # [n, v]
        if to_hidden is not None:
            _add_product(to_hidden[some], dz, weight[rows])
        if to_weight is not None:
            _add_product(to_weight[rows], dz.T, hidden[some])

    def cast(self) -> list[Tensor | None]:
        """The sums in the dtypes of their inputs."""
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


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _check_tensors(hidden, weight, bias, targets) -> None:
    if not hidden.is_floating_point():
        raise TypeError(f"hidden states must be floating point, got {hidden.dtype}")
    if weight.dim() != 2 or hidden.dim() == 0 or hidden.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"hidden states {tuple(hidden.shape)} do not fit a table "
            f"{tuple(weight.shape)}: both end in the width d"
        )
    if targets.dtype not in INTEGER_DTYPES:
        raise TypeError(f"targets must be integers, got a tensor of {targets.dtype}")
    if targets.shape != hidden.shape[:-1]:
        raise ValueError(
            f"needs one target for each hidden state: targets {tuple(targets.shape)}, "
            f"hidden states {tuple(hidden.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias {tuple(bias.shape)} does not fit a table of {len(weight)} rows"
        )
    autocast = torch.is_autocast_enabled(hidden.device.type)
    for name, x in {"table": weight, "bias": bias}.items():
        if x is not None and x.dtype != hidden.dtype and not autocast:
            raise TypeError(f"hidden states are {hidden.dtype}, the {name} {x.dtype}")


def _check_options(reduction, z_loss, softcap, chunk_by) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}")
    if chunk_by not in CHUNK_SIZES:
        raise ValueError(
            f"chunk_by must be one of {tuple(CHUNK_SIZES)}, got {chunk_by!r}"
        )
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap must be above 0, got {softcap}")
    if not z_loss >= 0:
        raise ValueError(f"z_loss must not be negative, got {z_loss}")
