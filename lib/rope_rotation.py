"""The rotation of RoPE twice over: as the formula says, and with less memory traffic.

Both compute in fp32 at least and round once to the dtype of x, and agree but for the
last bit. Every function takes

    x: `[..., T, D]`; features from r on stay as they are
    cos, sin: `[T, r/2]`, or with x `[B, H, T, D]` also `[B, 1, T, r/2]`, fp32 at least
    layout: "interleaved" or "half"
"""

import torch
from torch import Tensor

PIECE = 2**18  # elements that a CPU core rotates at a time: 1 MiB of fp32, in its cache


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate in the way that suits x."""
    by_definition = (
        torch.compiler.is_compiling()  # which fuses the definition by itself
        or x.numel() <= PIECE
        or x.device.type not in ("cpu", "cuda")
        or cos.requires_grad  # learned tables need the gradients of the definition
        or sin.requires_grad
    )
    way = rotate_by_definition if by_definition else Rotation.apply
    return way(x, cos, sin, layout)


def rotate_by_definition(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate as the formula says: (a, b) → (a cos − b sin, b cos + a sin).

    Example:
        >>> quarter_turn = torch.tensor([[0.0]]), torch.tensor([[1.0]])
        >>> rotate_by_definition(torch.tensor([[1.0, 2.0]]), *quarter_turn, "half")
        tensor([[-2.,  1.]])
    """
    rotary_dim = 2 * cos.shape[-1]
    wide = at_least_fp32(x[..., :rotary_dim])
    if layout == "half":
        a, b = wide.chunk(2, dim=-1)
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    else:
        a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    out = out.to(x.dtype)
    if rotary_dim == x.shape[-1]:
        return out
    return torch.cat((out, x[..., rotary_dim:]), dim=-1)


class Rotation(torch.autograd.Function):
    """Rotate in pieces; the gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
        return rotate_in_pieces(x, cos, sin, layout)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin, ctx.layout = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor):
        cos, sin = ctx.saved_tensors
        return Rotation.apply(grad, cos, -sin, ctx.layout), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, cos, sin, layout):
        each = torch.vmap(lambda *xs: rotate_by_definition(*xs, layout), in_dims[:3])
        return each(x, cos, sin), 0


def rotate_in_pieces(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate some tokens at a time, so that a CPU's cache holds what lies between."""
    rotary_dim, tokens = 2 * cos.shape[-1], x.shape[-2]
    out = torch.empty_like(x)
    out[..., rotary_dim:] = x[..., rotary_dim:]
    source, target = x[..., :rotary_dim], out[..., :rotary_dim]
    direct = at_least_fp32(x) is x and _holds_pairs(source) and _holds_pairs(target)
    if x.device.type == "cpu" and not (direct and layout == "interleaved"):
        tokens = max(1, PIECE * torch.get_num_threads() * tokens // x.numel())
    split = (tensor.split(tokens, dim=-2) for tensor in (source, cos, sin, target))
    for x_i, cos_i, sin_i, out_i in zip(*split, strict=True):
        if direct:
            _rotate_into(out_i, x_i, cos_i, sin_i, layout)
            continue
        wide = at_least_fp32(x_i)
        if not _holds_pairs(wide):
            wide = wide.clone(memory_format=torch.contiguous_format)
        scratch = torch.empty_like(wide)
        out_i.copy_(_rotate_into(scratch, wide, cos_i, sin_i, layout))
    return out


def _rotate_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str):
    """Rotate x into out, both `[..., T, r]` of one dtype, fp32 at least."""
    if layout == "interleaved":  # a pair is a complex number, which turns by a product
        torch.mul(_as_complex(x), torch.complex(cos, sin), out=_as_complex(out))
        return out
    torch.mul(x, torch.cat((cos, cos), dim=-1), out=out)
    (a, b), (first, second) = x.chunk(2, dim=-1), out.chunk(2, dim=-1)
    first.addcmul_(b, sin, value=-1)  # a cos − b sin
    second.addcmul_(a, sin)  # b cos + a sin
    return out


def _as_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _holds_pairs(x: Tensor) -> bool:
    """Tell whether neighbours lie in memory as the parts of complex numbers do."""
    steps = (x.storage_offset(), *x.stride()[:-1])
    return x.stride(-1) == 1 and all(step % 2 == 0 for step in steps)


def at_least_fp32(x: Tensor) -> Tensor:
    """Widen bf16 and fp16 to fp32; fp32 and float64 stay the tensors they are."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
