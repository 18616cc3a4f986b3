"""The loss over a whole vocabulary without ever holding all of its logits."""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.checks import (
    check_floating,
    check_integer,
    check_integers,
    check_size,
    is_watched,
    number,
)
from lib.device import without_autocast
from lib.tied_head.functions import Formed, Recomputed

CHUNK_SIZES = {"vocabulary": 2_048, "tokens": 256}
REDUCTIONS = ("mean", "sum", "none")


@torch.compiler.disable
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
    the tokens are not yet known, and so does `torch.func`. Losses and sums over chunks
    are float32, float64 for float64 inputs; gradients are cast to the inputs' dtype
    when a loss scale has had its say. Under autocast the inputs are cast as a linear
    layer's would be; in a compiled model it runs as it is, for its loop would be
    unrolled.

    Args:
        hidden: `[..., d]`, floating point.
        weight: the table `[V, d]`, of the same dtype.
        targets: integer ids `[...]`, one for each hidden state.
        ignore_index: the target whose tokens do not count, whatever their hidden states
            hold; it may be any integer.
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
        RuntimeError: a second derivative (a backward pass with `create_graph=True`),
            one in forward mode, or many at once (`is_grads_batched`).

    Source:
        The running sum: Milakov & Gimelshein 2018, algorithm 3. By vocabulary: the idea
        of Wijmans et al. 2025 (Cut Cross-Entropy). By tokens: Hsu et al. 2024 (Liger),
        section 3.2. z-loss: Chowdhery et al. 2022, section 5. Soft cap: Gemma 2.

    Example:
        >>> hidden, table = torch.ones(2, 3), torch.zeros(5, 3)
        >>> tied_cross_entropy(hidden, table, torch.tensor([4, -100]))
        tensor(1.6094)
    """
    size = check_loss_options(reduction, z_loss, softcap, chunk_by, chunk_size)

    def losses_of(*inputs):
        watched = is_watched(*[x for x in inputs if x is not None])
        form = chunk_by == "tokens" and reduction != "none" and not watched
        return _losses(inputs, form, watched, chunk_by, (size, z_loss, softcap))

    inputs = hidden, weight, bias, targets
    return reduce_losses(losses_of, *inputs, ignore_index, reduction)


def reduce_losses(
    losses_of: Callable[..., Tensor],
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    ignore_index: int,
    reduction: str,
) -> Tensor:
    """Check and cast what a loss is given, compute it, and reduce it.

    Args:
        losses_of: makes the losses `[N]`, or their sum, of hidden states `[N, d]`,
            table, bias, ids `[N]` and which of them are counted `[N]`; the id of a
            token that is not counted is 0. Autocast is off in it.
        hidden, weight, bias, targets, ignore_index, reduction: those of
            `tied_cross_entropy`.

    Returns:
        A number, or with "none" the losses in the shape of the targets.
    """
    _check_tensors(hidden, weight, bias, targets)
    ids = targets.reshape(-1).long()
    counted = ids != check_integer("ignore_index", ignore_index)  # [N]
    tensors = _as_cast(hidden.reshape(-1, hidden.shape[-1]), weight, bias)
    with without_autocast(hidden.device.type):
        losses = losses_of(*tensors, ids.where(counted, 0), counted)
    if reduction == "none":
        return losses.view(targets.shape)
    count = counted.sum().clamp(min=1) if reduction == "mean" else 1
    return losses.sum() / count


def _losses(inputs, form, watched, chunk_by, options) -> Tensor:
    """Losses of all tokens `[N]`; their sum, if its gradients are to be formed now."""
    hidden, weight = inputs[:2]
    if form:
        return Formed.apply(*inputs, torch.is_grad_enabled(), *options)
    size, *rest = options
    tile = (len(hidden) or 1, size), (size, len(weight))
    rest = *tile[chunk_by == "tokens"], *rest, watched
    return Recomputed.apply(*inputs, *rest)[0]


def _as_cast(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """Cast what autocast would cast for a linear layer, all but float64."""
    kind = tensors[0].device.type
    if not _autocasts(kind) or tensors[0].dtype == torch.float64:
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(x if x is None else x.to(dtype) for x in tensors)


def _autocasts(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _check_tensors(hidden, weight, bias, targets) -> None:
    check_floating("hidden states", hidden)
    check_integers("targets", targets)
    check_floating("the table", weight)
    if weight.dim() != 2 or hidden.dim() == 0 or hidden.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"hidden states {tuple(hidden.shape)} do not fit a table "
            f"{tuple(weight.shape)}: both end in the width d"
        )
    if targets.shape != hidden.shape[:-1]:
        raise ValueError(
            f"needs one target for each hidden state: targets {tuple(targets.shape)}, "
            f"hidden states {tuple(hidden.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias {tuple(bias.shape)} does not fit a table of {len(weight)} rows"
        )
    autocast = _autocasts(hidden.device.type)
    for name, x in {"table": weight, "bias": bias}.items():
        if x is not None and x.dtype != hidden.dtype and not autocast:
            raise TypeError(f"hidden states are {hidden.dtype}, the {name} {x.dtype}")


def check_loss_options(reduction, z_loss, softcap, chunk_by, chunk_size) -> int:
    """Check the options of `tied_cross_entropy`; returns the size of a chunk.

    Args:
        reduction, z_loss, softcap, chunk_by, chunk_size: as for `tied_cross_entropy`.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}")
    if chunk_by not in CHUNK_SIZES:
        raise ValueError(
            f"chunk_by must be one of {tuple(CHUNK_SIZES)}, got {chunk_by!r}"
        )
    if softcap is not None:
        number("softcap", softcap, above=0)
    number("z_loss", z_loss, at_least=0)
    size = CHUNK_SIZES[chunk_by] if chunk_size is None else chunk_size
    return check_size("chunk_size", size)
