"""The rotation of RoPE twice over: as the formula says, and with less memory traffic.

Both compute in fp32 at least, round once to the dtype of x, and agree but for the last
bit. Every function here takes

    x: `[..., T, D]`; the `turn_*` see only the r features that are rotated
    cos, sin: `[T, r/2]`, or with x `[B, H, T, D]` also `[B, 1, T, r/2]`, fp32 at least
    table: cos + i sin, complex, of the same shape
    tables: cos and sin for the layout "half", a table for "interleaved"
"""

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active as is_transforming
from torch.compiler import is_compiling

PIECE = 2**18  # elements that a CPU core rotates at a time: 1 MiB of fp32, in its cache
WIDE = (torch.float32, torch.float64)


def turn_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + r/2) as the formula says: (a, b) → (a cos − b sin, …).

    Each part is rounded before they are joined, which saves compiled code a pass.

    Example:
        >>> quarter = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> turn_half(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter)
        tensor([[-3., -4.,  1.,  2.]])
    """
    a, b = at_least_fp32(x).chunk(2, dim=-1)  # [..., T, r/2]
    first = (a * cos - b * sin).type_as(x)
    second = (b * cos + a * sin).type_as(x)
    return torch.cat((first, second), dim=-1)


def turn_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (2i, 2i + 1) as the formula says: (a, b) → (a cos − b sin, …).

    Example:
        >>> quarter = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> turn_interleaved(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter)
        tensor([[-2.,  1., -4.,  3.]])
    """
    a, b = at_least_fp32(x).unflatten(-1, (-1, 2)).unbind(-1)  # [..., T, r/2]
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return turned.flatten(-2).type_as(x)


DEFINITIONS = {"half": turn_half, "interleaved": turn_interleaved}


def turn_half_fused(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Do as `turn_half` in fewer steps, which is felt when decoding single tokens."""
    a, b = at_least_fp32(x).chunk(2, dim=-1)
    first = torch.addcmul(a * cos, b, sin, value=-1)  # a cos − b sin
    second = torch.addcmul(b * cos, a, sin)  # b cos + a sin
    return torch.cat((first, second), dim=-1)


def turn_half_in_place(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Do as `turn_half` in two passes: a product, then sums in place."""
    wide = at_least_fp32(x)
    out = wide * torch.cat((cos, cos), dim=-1)  # [a cos, b cos]
    (a, b), (first, second) = wide.chunk(2, dim=-1), out.chunk(2, dim=-1)
    first.addcmul_(b, sin, value=-1)  # a cos − b sin
    second.addcmul_(a, sin)  # b cos + a sin
    return out


def turn_complex(x: Tensor, table: Tensor) -> Tensor:
    """Do as `turn_interleaved` in one pass: neighbours are a complex number."""
    wide = x if x.dtype in WIDE else x.to(table.dtype.to_real())
    try:
        numbers = torch.view_as_complex(wide.view(*wide.shape[:-1], -1, 2))
    except RuntimeError:  # an odd stride
        return turn_interleaved(wide, table.real, table.imag)
    if wide is x:
        return torch.view_as_real(numbers * table).view(x.shape)
    numbers.mul_(table)  # in the copy
    return wide


def complex_table(cos: Tensor, sin: Tensor) -> Tensor:
    """Join cos + i sin; where the two are the parts of a table, it is that table."""
    table = cos._base
    if (
        table is not None
        and table is sin._base
        and table.is_complex()
        and table.shape == cos.shape
        and cos.stride() == sin.stride() == tuple([2 * n for n in table.stride()])
        and cos.storage_offset() == 2 * table.storage_offset()
        and sin.storage_offset() == cos.storage_offset() + 1
        and not (cos.is_neg() or sin.is_neg())
    ):
        return table
    return torch.complex(cos, sin)


def side_by_side(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Make cos and sin the parts of one complex table, for `complex_table` to find.

    Example:
        >>> complex_table(*side_by_side(torch.tensor([[0.6]]), torch.tensor([[0.8]])))
        tensor([[0.6000+0.8000j]])
    """
    cos, sin = torch.view_as_real(torch.complex(cos, sin)).unbind(-1)
    return cos, sin


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate in the way that suits x; features from r on stay as they are.

    Here the tables of x `[B, H, T, D]` may be `[B, T, r/2]`.
    """
    by_definition = (
        is_compiling()  # which fuses the definition by itself
        or is_transforming()  # under vmap, torch.func.grad, jvp
        or cos.requires_grad  # learned tables, whose gradients the definition gives
        or sin.requires_grad
        or not (x.is_cpu or x.is_cuda)
    )
    if by_definition:
        turn, tables = DEFINITIONS[layout], (cos, sin)
    elif layout == "half":
        turn, tables = turn_half_fused, (cos, sin)
    else:
        turn, tables = turn_complex, (complex_table(cos, sin),)
    if cos.dim() == 3 and cos.shape[0] > 1:
        tables = [table.unsqueeze(1) for table in tables]  # [B, 1, T, r/2]
    if by_definition or x.numel() <= PIECE:
        return _rotate_with(turn, x, *tables)
    return _rotate_long(x, *tables)


def _rotate_with(turn, x: Tensor, *tables: Tensor) -> Tensor:
    rotary_dim = 2 * tables[0].shape[-1]
    if rotary_dim == x.shape[-1]:
        return turn(x, *tables).type_as(x)
    turned = turn(x[..., :rotary_dim], *tables).type_as(x)
    return torch.cat((turned, x[..., rotary_dim:]), dim=-1)


def _rotate_long(x: Tensor, *tables: Tensor) -> Tensor:
    if x.requires_grad and torch.is_grad_enabled():
        return Rotation.apply(x, *tables)
    turn = turn_complex if tables[0].is_complex() else turn_half_in_place
    one_pass = turn is turn_complex and x.dtype in WIDE
    if x.is_cpu and not one_pass:
        return _rotate_in_pieces(turn, x, *tables)
    return _rotate_with(turn, x, *tables)


class Rotation(torch.autograd.Function):
    """Rotate a long input; the gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx, x: Tensor, *tables: Tensor) -> Tensor:
        ctx.save_for_backward(*tables)
        ctx.save_for_forward(*tables)
        return _rotate_long(x, *tables)

    @staticmethod
    def backward(ctx, grad: Tensor):
        *cos, last = tables = ctx.saved_tensors
        back = last.conj() if last.is_complex() else -last
        return _rotate_long(grad, *cos, back), *[None for _ in tables]

    @staticmethod
    def jvp(ctx, tangent: Tensor, *_):
        return Rotation.apply(tangent, *ctx.saved_tensors)


def _rotate_in_pieces(turn, x: Tensor, *tables: Tensor) -> Tensor:
    """Rotate some tokens at a time, so that a CPU's cache holds what lies between."""
    rotary_dim = 2 * tables[0].shape[-1]
    out = torch.empty_like(x)
    widths = (rotary_dim, x.shape[-1] - rotary_dim)
    (turned, rest), (to_turn, others) = (t.split(widths, dim=-1) for t in (out, x))
    rest.copy_(others)
    piece = PIECE * torch.get_num_threads()
    tokens = max(1, piece * x.shape[-2] // x.numel())
    split = (t.split(tokens, dim=-2) for t in (turned, to_turn, *tables))
    for turned_i, *arguments in zip(*split, strict=True):
        turned_i.copy_(turn(*arguments))
    return out


def at_least_fp32(x: Tensor) -> Tensor:
    """Widen bf16 and fp16 to fp32; fp32 and float64 stay the tensors they are."""
    return x if x.dtype in WIDE else x.float()
