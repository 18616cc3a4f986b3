"""The sizes and options of `lib.transformer`, and presets of them."""

from dataclasses import dataclass

from lib.checks import check_layout, check_size, number

POSITIONS = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")
OWN = "own"  # what a model's configuration says if it was handed a `Position`


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes and options of a transformer.

    Args:
        vocab_size: tokens, V.
        d_model: width of a token.
        num_layers: blocks, L.
        num_heads: query heads; each has d_model / num_heads features.
        num_kv_heads: heads of keys and values, a divisor of num_heads.
        d_hidden: width inside SwiGLU.
        position: "none", "sinusoidal", "learned", "rope", "alibi" or "t5"; "own" in a
            model that was handed a `Position`.
        max_positions: rows of a learned table; with RoPE the trained length, which some
            scalings need. It limits nothing else.
        rope_base: base of RoPE's frequencies; `rope_theta` in the dict beats it.
        rope_parameters: RoPE's scaling, the dict of a published configuration.
        rope_layout: "half" or "interleaved", the order in which q and k hold the pairs.
        tied: whether the head uses the token table.
        embedding_scale: factor on the looked-up rows; Vaswani et al. take √d_model,
            so that sines and cosines do not drown the tokens.
        norm_eps: what RMSNorm adds to the mean square.
        std: standard deviation of the start.

    Raises:
        ValueError: a size below 1, sizes that do not divide, an unknown position or
            layout, a negative norm_eps or std, a factor that is not finite.
        TypeError: a size that is not an integer, a factor that is not a number, a
            `tied` that is no bool.

    Example:
        >>> TransformerConfig(256, 64, 2, num_heads=4, num_kv_heads=2, d_hidden=176)
        TransformerConfig(vocab_size=256, d_model=64, num_layers=2, num_heads=4,
        num_kv_heads=2, d_hidden=176, position='rope', max_positions=2048,
        rope_base=10000.0, rope_parameters=None, rope_layout='half', tied=True,
        embedding_scale=None, norm_eps=1e-05, std=0.02)
    """

    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    d_hidden: int
    position: str = "rope"
    max_positions: int = 2048
    rope_base: float = 1e4
    rope_parameters: dict | None = None
    rope_layout: str = "half"
    tied: bool = True
    embedding_scale: float | None = None
    norm_eps: float = 1e-5
    std: float = 0.02

    def __post_init__(self):
        sizes = "vocab_size d_model num_layers num_heads num_kv_heads d_hidden"
        for name in [*sizes.split(), "max_positions"]:
            size = check_size(name, getattr(self, name))
            object.__setattr__(self, name, size)  # an int, also where NumPy's was given
        number("norm_eps", self.norm_eps, at_least=0)
        number("std", self.std, at_least=0)
        if self.embedding_scale is not None:
            number("embedding_scale", self.embedding_scale)
        if not isinstance(self.tied, bool):
            raise TypeError(f"tied must be True or False, got {self.tied!r}")
        d_model, heads, kv_heads = self.d_model, self.num_heads, self.num_kv_heads
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        if heads % kv_heads:
            raise ValueError(f"{heads} heads cannot share {kv_heads} kv heads evenly")
        check_layout(self.rope_layout)
        if self.position not in (*POSITIONS, OWN):
            known = ", ".join(POSITIONS)
            raise ValueError(f"position must be one of {known}, got {self.position!r}")

    @property
    def head_dim(self) -> int:
        """Features of one head, D."""
        return self.d_model // self.num_heads


PRESETS = {
    # As its GGUF file states it, which interleaves the pairs of q and k.
    "SmolLM2-135M": TransformerConfig(
        vocab_size=49_152,
        d_model=576,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        d_hidden=1_536,
        max_positions=8_192,
        rope_base=1e5,
        rope_layout="interleaved",
    ),
    # For experiments that train in seconds; vary it with `dataclasses.replace`.
    "tiny": TransformerConfig(
        vocab_size=256,
        d_model=64,
        num_layers=2,
        num_heads=4,
        num_kv_heads=4,
        d_hidden=176,
        max_positions=64,
    ),
}
