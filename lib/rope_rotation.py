"""The rotation of RoPE twice over: as the formula says, and with less memory traffic.

Both compute in fp32 at least, round once to the dtype of x, and agree but for the last
bit. Every function here takes

    x: `[..., T, D]`; the `turn_*` see only the r features that are rotated
    cos, sin: `[T, r/2]`, or with x `[B, H, T, D]` also `[B, 1, T, r/2]`, fp32 at least
"""

import torch
from torch import Tensor

PIECE = 2**18  # elements that a CPU core rotates at a time: 1 MiB of fp32, in its cache
WIDE = (torch.float32, torch.float64)


def turn_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + r/2) as the formula says: (a, b) → (a cos − b sin, …).

    `addcmul` saves one operation a half, which is felt when decoding single tokens.

    Example:
        >>> quarter = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> turn_half(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter)
        tensor([[-3., -4.,  1.,  2.]])
    """
    a, b = x.chunk(2, dim=-1)  # [..., T, r/2]
    first = torch.addcmul(a * cos, b, sin, value=-1)  # a cos − b sin
    second = torch.addcmul(b * cos, a, sin)  # b cos + a sin
    return torch.cat((first, second), dim=-1)


def turn_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (2i, 2i + 1) as the formula says: (a, b) → (a cos − b sin, …).

    Example:
        >>> quarter = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> turn_interleaved(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter)
        tensor([[-2.,  1., -4.,  3.]])
    """
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)  # [..., T, r/2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def turn_half_in_place(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Do as `turn_half` in two passes: a product, then sums in place."""
    out = x * torch.cat((cos, cos), dim=-1)  # [a cos, b cos]
    (a, b), (first, second) = x.chunk(2, dim=-1), out.chunk(2, dim=-1)
    first.addcmul_(b, sin, value=-1)  # a cos − b sin
    second.addcmul_(a, sin)  # b cos + a sin
    return out


def turn_complex(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Do as `turn_interleaved` in one pass: neighbours are a complex number."""
    pairs = x.unflatten(-1, (-1, 2))  # [..., T, r/2, 2]
    steps = (pairs.storage_offset(), *pairs.stride()[:-1])
    if pairs.stride(-1) != 1 or any(step % 2 for step in steps):
        pairs = pairs.clone(memory_format=torch.contiguous_format)
    turned = torch.view_as_complex(pairs) * torch.complex(cos, sin)
    return torch.view_as_real(turned).flatten(-2)


DEFINITIONS = {"half": turn_half, "interleaved": turn_interleaved}
SHORTCUTS = {"half": turn_half_in_place, "interleaved": turn_complex}


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate in the way that suits x; features from r on stay as they are."""
    if (
        torch.compiler.is_compiling()  # which fuses the definition by itself
        or cos.requires_grad  # learned tables, whose gradients the definition gives
        or sin.requires_grad
        or not (x.is_cpu or x.is_cuda)
    ):
        return _rotate_with(DEFINITIONS[layout], x, cos, sin)
    if x.numel() > PIECE:
        return _rotate_long(x, cos, sin, layout)
    turn = turn_half if layout == "half" else turn_complex
    return _rotate_with(turn, x, cos, sin)


def _rotate_with(turn, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    rotary_dim = 2 * cos.shape[-1]
    if rotary_dim == x.shape[-1]:
        return turn(at_least_fp32(x), cos, sin).type_as(x)
    turned = turn(at_least_fp32(x[..., :rotary_dim]), cos, sin).type_as(x)
    return torch.cat((turned, x[..., rotary_dim:]), dim=-1)


def _rotate_long(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    if x.requires_grad and torch.is_grad_enabled():
        return Rotation.apply(x, cos, sin, layout)
    one_pass = layout == "interleaved" and x.dtype in WIDE
    if x.is_cpu and not one_pass:
        return _rotate_in_pieces(SHORTCUTS[layout], x, cos, sin)
    return _rotate_with(SHORTCUTS[layout], x, cos, sin)


class Rotation(torch.autograd.Function):
    """Rotate a long input; the gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
        return _rotate_long(x, cos, sin, layout)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin, ctx.layout = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor):
        cos, sin = ctx.saved_tensors
        return _rotate_long(grad, cos, -sin, ctx.layout), None, None, None

    @staticmethod
    def jvp(ctx, tangent: Tensor, *_):
        return Rotation.apply(tangent, *ctx.saved_tensors, ctx.layout)


def _rotate_in_pieces(turn, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate some tokens at a time, so that a CPU's cache holds what lies between."""
    rotary_dim = 2 * cos.shape[-1]
    out = torch.empty_like(x)
    out[..., rotary_dim:] = x[..., rotary_dim:]
    piece = PIECE * torch.get_num_threads()
    tokens = max(1, piece * x.shape[-2] // x.numel())
    tensors = (x[..., :rotary_dim], cos, sin, out[..., :rotary_dim])
    split = (tensor.split(tokens, dim=-2) for tensor in tensors)
    for x_i, cos_i, sin_i, out_i in zip(*split, strict=True):
        out_i.copy_(turn(at_least_fp32(x_i), cos_i, sin_i))
    return out


def at_least_fp32(x: Tensor) -> Tensor:
    """Widen bf16 and fp16 to fp32; fp32 and float64 stay the tensors they are."""
    return x if x.dtype in WIDE else x.float()
