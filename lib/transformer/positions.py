"""How a token's place enters a transformer: three seams, and the kinds that use them.

A kind adds rows to the tokens, turns queries and keys, or sets a price on the scores.
The transformer knows these three seams and nothing else of what happens there.
"""

from torch import Tensor, nn

from lib.alibi import alibi_attention, alibi_bias, alibi_slopes
from lib.attention import causal_attention
from lib.checks import Range, unchecked
from lib.learned import LearnedPositionalEmbedding
from lib.rope import RotaryEmbedding, apply_rope
from lib.sinusoidal import SinusoidalPositionalEncoding
from lib.t5_bias import T5RelativeBias
from lib.transformer.config import OWN, TransformerConfig
from lib.transformer.places import Places


class Position(nn.Module):
    """How a token's place enters a transformer; this base of all kinds tells none.

    Override one of its three seams, and `Transformer(config, position=...)` trains,
    decodes with a cache, pads and generates with your encoding:

    - `add` puts rows on the tokens before the first block;
    - `turn` changes queries and keys, in every block, before they meet;
    - `price` is a bias on the scores, the same in every block.

    Who sees whom is not theirs to say: that goes by the order of the tokens.

    Attributes:
        late: whether keys are cached as they are and turned each time that they are
            used, for a turn that changes with the length. `turn` then gets the tables
            of all tokens so far, of which q and k are the last; k is the cache's own
            memory, so write nothing into it.
        layout: "half" or "interleaved", for a `turn` that takes features in pairs.

    Weights and tables are drawn anew by a method `reset_parameters`, which a model on
    the meta device needs; a whole has the last word on its parts. A bias is added after
    the scores were scaled by 1/√D. A cast such as `.to(torch.bfloat16)` casts buffers
    too; the kinds of this library rebuild theirs. The seams are called by name, so a
    forward hook on an encoding does not fire.

    Example:
        A learned price for each distance, and a model that learns to say the token
        before by it:

        >>> class Steps(Position):
        ...     def __init__(self, heads, reach=8):
        ...         super().__init__()
        ...         self.cost = nn.Parameter(torch.zeros(heads, reach))
        ...
        ...     def price(self, places):
        ...         far = places.queries[:, :, None] - places.keys[:, None, :]
        ...         steps = far.clamp(0, self.cost.shape[1] - 1)  # [1 or B, T, keys]
        ...         return self.cost[:, steps].movedim(0, 1)  # [1 or B, H, T, keys]
        >>> import torch
        >>> from dataclasses import replace
        >>> from torch.nn.functional import cross_entropy
        >>> from lib.transformer import PRESETS, Transformer
        >>> _ = torch.manual_seed(0)
        >>> config = replace(PRESETS["tiny"], num_layers=1, std=0.1)
        >>> model = Transformer(config, position=Steps(heads=4))
        >>> adam = torch.optim.Adam(model.parameters(), lr=0.01)
        >>> for _ in range(80):
        ...     rows = torch.stack([torch.randperm(16)[:8] for _ in range(32)])
        ...     logits, before = model(rows)[:, 1:], rows[:, :-1]
        ...     loss = cross_entropy(logits.flatten(0, 1), before.flatten())
        ...     adam.zero_grad()
        ...     loss.backward()
        ...     adam.step()
        >>> loss.item() < 0.1
        True
    """

    late = False
    layout: str | None = None

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add rows to the tokens.

        Args:
            x: `[B, T, d_model]`.
            positions: int64 `[1 or B, T]`.

        Returns:
            `[B, T, d_model]`.
        """
        return x

    def tables(self, positions: Tensor):
        """Work out, once a call, what `turn` needs of positions `[1 or B, T]`.

        Args:
            positions: integers `[1 or B, T]`.

        Returns:
            Anything; here the positions as they are.
        """
        return positions

    def turn(self, q: Tensor, k: Tensor, tables) -> tuple[Tensor, Tensor]:
        """Turn queries `[B, H, T, D]` and keys `[B, Hk, T, D]`; same shapes.

        Args:
            q: queries `[B, H, T, D]`.
            k: keys `[B, Hk, T, D]`.
            tables: what `tables` has worked out for these tokens.
        """
        return q, k

    def price(self, places: Places) -> Tensor | None:
        """Set a price, once a call: a bias `[1 or B, H, T, all]`, or None.

        `all` counts every token so far, those that a cache has dropped included; so
        does `places.keys` here.

        Args:
            places: where the tokens stand.
        """
        return None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, places: Places, price: Tensor | None
    ) -> Tensor:
        """Attend at the price; override it where a fused attention needs no bias.

        Args:
            q, k, v: `[B, H, T, D]`, and `[B, Hk, keys, D]` twice.
            places: of the keys that are there.
            price: what `price` returned, of these keys.

        Returns:
            `[B, H, T, D]`.
        """
        return causal_attention(q, k, v, places.mask, price)

    def ranges(self, positions: Tensor) -> tuple[Range, ...]:
        """Say which positions `[1 or B, T]` are allowed, for the one check a call.

        Args:
            positions: integers `[1 or B, T]`.
        """
        return ()


class Sinusoidal(Position, SinusoidalPositionalEncoding):
    """Add sines and cosines (chapter 8)."""

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        with unchecked():  # any position will do: none need be read
            return self(x, positions)


class Learned(Position, LearnedPositionalEmbedding):
    """Add a trained row (chapter 9)."""

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        with unchecked():  # the model has checked `ranges`
            return x + self(positions)

    def ranges(self, positions: Tensor) -> tuple[Range, ...]:
        return (self.allowed(positions),)


class RoPE(Position, RotaryEmbedding):
    """Rotate queries and keys (chapters 10 and 11)."""

    @property
    def late(self) -> bool:
        return self.by_length

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos_sin(positions)

    def turn(self, q: Tensor, k: Tensor, tables) -> tuple[Tensor, Tensor]:
        return self._rotate(q, *tables), self._rotate(k, *tables)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        tokens = x.shape[2]
        return apply_rope(x, cos[..., -tokens:, :], sin[..., -tokens:, :], self.layout)


class ALiBi(Position):
    """Charge each head its own price of distance, before or after (chapter 13).

    Where positions ascend with the tokens, fused attention does without the bias.
    """

    slopes: Tensor

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.register_buffer("slopes", alibi_slopes(num_heads), persistent=False)

    def reset_parameters(self) -> None:
        """Rebuild the slopes on their device."""
        self.slopes = alibi_slopes(self.num_heads).to(self.slopes.device)

    def _apply(self, fn, recurse=True):
        """Follow a move to another device, but not a cast to another dtype."""
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def price(self, places: Places) -> Tensor | None:
        if not places.given:
            return None
        return alibi_bias(self.slopes, places.queries, places.keys, causal=False)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, places: Places, price: Tensor | None
    ) -> Tensor:
        if price is not None:
            return super().attend(q, k, v, places, price)
        if places.mask is None:
            return alibi_attention(q, k, v, self.slopes)
        here = places.queries, places.keys, places.mask
        return alibi_attention(q, k, v, self.slopes, *here, in_order=True)


class T5(Position, T5RelativeBias):
    """Add a learned number for each bucket of distances (chapter 13).

    T5 itself leaves out 1/√D and starts its queries smaller by as much. Here scores are
    scaled as with every other kind, so that kinds differ in nothing else.
    """

    def price(self, places: Places) -> Tensor:
        return self(places.queries, places.keys)


def make_position(config: TransformerConfig) -> Position:
    """Build the kind that a configuration names."""
    rows, width, kind = config.max_positions, config.d_model, config.position
    if kind == OWN:
        raise ValueError(
            f"config.position is {OWN!r}: hand the encoding over, "
            "Transformer(config, position=...)"
        )
    makers = {
        "none": Position,
        "sinusoidal": lambda: Sinusoidal(width, rows),
        "learned": lambda: Learned(rows, width, std=config.std),
        "rope": lambda: RoPE(
            config.head_dim,
            config.rope_base,
            rope_parameters=config.rope_parameters,
            max_position_embeddings=rows,
            layout=config.rope_layout,
        ),
        "alibi": lambda: ALiBi(config.num_heads),
        "t5": lambda: T5(config.num_heads, std=config.std),
    }
    return makers[kind]()
