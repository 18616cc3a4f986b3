"""RoPE's tables of cos and sin, the rotation by them, and both in one module."""

import torch
from torch import Tensor, nn

from lib.checks import (
    check_floating,
    check_integers,
    check_layout,
    check_positions,
    check_size,
)
from lib.device import exact_device, outside_inference
from lib.rope.rotation import at_least_fp32, rotate
from lib.rope_scaling import depends_on_length, scaled_inv_freq


def rope_cos_sin(
    positions: Tensor, inv_freq: Tensor, attention_factor: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Compute the tables cos and sin of position · inv_freq.

    The angles are formed in float64 and rounded once, so that the tables are within
    1e-6 of the true values at any position up to a million and beyond; formed in fp32
    they are off by up to 0.008 at 131,072 (base 10,000, width 128). A device without
    float64 (MPS) gets tables that were formed on the CPU.

    Args:
        positions: integers `[..., T]`, of any sign.
        inv_freq: `[r/2]`, or one row for each sequence, `[B, r/2]`.
        attention_factor: what both tables are multiplied by (YaRN, LongRoPE).

    Returns:
        cos and sin, fp32 `[..., T, r/2]` on the device of the positions.

    Raises:
        TypeError: positions that are not an integer tensor.
        ValueError: shapes that do not fit.

    Source: Su et al. 2021, RoFormer, equation 15.

    Example:
        >>> from lib.rope import rope_inv_freq
        >>> cos, sin = rope_cos_sin(torch.tensor([0, 1]), rope_inv_freq(4, base=100.0))
        >>> cos.tolist()[0], [round(s, 6) for s in sin.tolist()[1]]
        ([1.0, 1.0], [0.841471, 0.099833])
    """
    check_integers("positions", positions)
    if positions.dim() == 0:
        raise ValueError("positions must be [..., T], got a tensor of 0 dimensions")
    check_floating("inv_freq", inv_freq)
    if inv_freq.dim() > 1:
        if positions.shape[:-1] != inv_freq.shape[:-1]:
            raise ValueError(
                f"inv_freq {list(inv_freq.shape)} has one row a sequence, "
                f"positions are {list(positions.shape)}"
            )
        inv_freq = inv_freq.unsqueeze(-2)  # [B, 1, r/2]
    home = exact_device(positions.device)
    with outside_inference():
        place = positions.unsqueeze(-1).to(home, torch.float64)
        angles = place * inv_freq.to(home, torch.float64)  # [..., T, r/2]
        cos, sin = angles.cos(), angles.sin()
        if attention_factor != 1.0:
            cos, sin = cos * attention_factor, sin * attention_factor
        cos, sin = cos.float(), sin.float()
        if home == positions.device:
            return cos, sin
        return cos.to(positions.device), sin.to(positions.device)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor, layout: str = "half") -> Tensor:
    """Rotate queries or keys; features beyond the tables' width pass through untouched.

    The arithmetic is fp32 at least, rounded once to the dtype of x.

    Args:
        x: `[B, H, T, D]`, any floating dtype; `[..., T, D]` with tables `[T, r/2]`.
        cos, sin: `[T, r/2]`, or `[B, T, r/2]` or `[1, T, r/2]`, with r ≤ D. The head
            axis is added here.
        layout: "interleaved" (pairs 2i, 2i + 1) or "half" (pairs i, i + r/2).

    Returns:
        A new tensor with the shape, dtype and device of x.

    Raises:
        ValueError: shapes that do not fit, an unknown layout.
        TypeError: x or a table is not a floating tensor.

    Source: Su et al. 2021, RoFormer, equation 34.

    Example:
        >>> cos, sin = torch.tensor([[0.0]]), torch.tensor([[1.0]])  # a quarter turn
        >>> apply_rope(torch.tensor([[1.0, 2.0, 3.0]]), cos, sin)
        tensor([[-2.,  1.,  3.]])
    """
    _check_shapes(x, cos, sin)
    check_layout(layout)
    return rotate(x, at_least_fp32(cos), at_least_fp32(sin), layout)


def _check_shapes(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    check_floating("x", x)
    check_floating("cos", cos)
    check_floating("sin", sin)
    table, shape = cos.shape, x.shape
    if table != sin.shape:
        raise ValueError(f"cos is {list(table)} and sin {list(sin.shape)}")
    rows_fit = len(table) == 2 or (len(table) == 3 and len(shape) == 4)
    if not rows_fit or len(shape) < 2:
        raise ValueError(
            "needs x [..., T, D] with tables [T, r/2], or x [B, H, T, D] with tables "
            f"[B, T, r/2], got {list(shape)} with {list(table)}"
        )
    if table[-2] != shape[-2]:
        raise ValueError(f"x has {shape[-2]} tokens, the tables have {table[-2]}")
    if not 0 < 2 * table[-1] <= shape[-1]:
        raise ValueError(
            f"tables for {2 * table[-1]} features do not fit a head of {shape[-1]}: "
            "they hold one value a pair"
        )
    if len(table) == 3 and table[0] not in (1, shape[0]):
        raise ValueError(f"tables for {table[0]} sequences, x has {shape[0]}")


class RotaryEmbedding(nn.Module):
    """Rotate queries and keys by their positions; owns nothing but its frequencies.

    The frequencies are a buffer that no checkpoint holds and no cast touches: they stay
    float64 under `.to(torch.bfloat16)` and are rebuilt wherever the module moves, also
    from the meta device. They never change with a call: what depends on the length is
    worked out for that call alone. With "dynamic" and "longrope" a cache must therefore
    hold keys that are not yet rotated.

    Args:
        head_dim: the width of a head, D.
        base: the base of the frequencies; `rope_theta` in the dict beats it.
        partial_rotary_factor: the share of the head that is rotated; the dict beats it.
        rope_parameters: the dict of a published configuration (`scaled_inv_freq`).
        max_position_embeddings: the length in that configuration, where it is needed.
        layout: "interleaved" (pairs 2i, 2i + 1) or "half" (pairs i, i + r/2).

    Attributes:
        inv_freq: the frequencies, float64 `[r/2]`, radians a token; those at the
            configuration's length where they depend on it.
        rotary_dim: features of a head that are rotated, r.
        attention_factor: what cos and sin are multiplied by, a float.

    Raises:
        ValueError: a width without pairs, an unknown layout or type, a number out of
            its range.
        KeyError: a scaling parameter is missing.

    Source: Su et al. 2021, RoFormer; transformers 5.24.0, `LlamaRotaryEmbedding`.

    Example:
        >>> rotary = RotaryEmbedding(head_dim=8)
        >>> q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8)
        >>> rotated_q, rotated_k = rotary(q, k, positions=torch.arange(3))
        >>> torch.equal(rotated_q[:, :, 0], q[:, :, 0])  # position 0 does not turn
        True
    """

    inv_freq: Tensor

    def __init__(
        self,
        head_dim: int,
        base: float = 1e4,
        partial_rotary_factor: float = 1.0,
        rope_parameters: dict | None = None,
        max_position_embeddings: int | None = None,
        layout: str = "half",
    ):
        super().__init__()
        check_layout(layout)
        self.head_dim = check_size("head_dim", head_dim)
        self.max_position_embeddings = max_position_embeddings
        self.layout = layout
        given = {} if rope_parameters is None else rope_parameters
        self.by_length = depends_on_length(given)
        arguments = {
            "rope_theta": base,
            "partial_rotary_factor": partial_rotary_factor,
        }
        missing = {key: v for key, v in arguments.items() if given.get(key) is None}
        self.rope_parameters = {**given, **missing}
        inv_freq, self.attention_factor = self._scaled()
        self.rotary_dim = 2 * inv_freq.shape[-1]
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def _scaled(self, seq_len=None, device=None) -> tuple[Tensor, float]:
        extended = self.max_position_embeddings
        with outside_inference():
            return scaled_inv_freq(
                self.rope_parameters, self.head_dim, extended, seq_len, device
            )

    def reset_parameters(self) -> None:
        """Rebuild the frequencies on the device of their buffer."""
        self.inv_freq, _ = self._scaled(device=self.inv_freq.device)

    def _apply(self, fn, recurse=True):
        """Follow a move to another device, and undo a cast to another dtype."""
        self.inv_freq = self.inv_freq.float()  # where it goes may be no float64
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def cos_sin(
        self, positions: Tensor, seq_len: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the tables for these positions, to share among layers.

        Args:
            positions: integers `[T]` or `[B, T]`.
            seq_len: with "dynamic" and "longrope", the length that chooses the scaling,
                one for all or int64 `[B]`; each row's largest position + 1 if None.

        Returns:
            cos and sin, fp32 `[T, r/2]` or `[B, T, r/2]`.
        """
        check_positions("positions", positions)
        inv_freq = self.inv_freq
        if self.by_length and positions.shape[-1] > 0:
            lengths = positions.amax(dim=-1).long() + 1 if seq_len is None else seq_len
            inv_freq, _ = self._scaled(lengths, inv_freq.device)
        return rope_cos_sin(positions, inv_freq, self.attention_factor)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor,
        seq_len: int | Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Rotate q `[B, Hq, T, D]` and k `[B, Hk, T, D]` by their shared positions.

        Args:
            q, k: with any numbers of heads. A head that is the rotary part alone, of
                width r, is rotated whole.
            positions, seq_len: as for `cos_sin`.

        Returns:
            The rotated q and k, in their own dtypes.
        """
        for x in (q, k):
            if x.shape[-1] not in (self.head_dim, self.rotary_dim):
                raise ValueError(
                    f"a head of width {x.shape[-1]}, neither head_dim {self.head_dim} "
                    f"nor rotary_dim {self.rotary_dim}"
                )
        cos, sin = self.cos_sin(positions, seq_len)
        rotated_q = apply_rope(q, cos, sin, self.layout)
        return rotated_q, apply_rope(k, cos, sin, self.layout)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, layout={self.layout!r}, {self.rope_parameters}"
        )
