"""The encodings that are compared: what is trained, and what changes at the test."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from lib.learned import LearnedPositionalEmbedding
from lib.length_experiment.windows import Windowed, alibi_windows
from lib.transformer import Position, Transformer, TransformerConfig

Maker = Callable[[TransformerConfig], Position]


@dataclass(frozen=True)
class Encoding:
    """An encoding under test.

    Args:
        make: builds the `Position` that is trained, from the model's configuration,
            whose `max_positions` is the trained length.
        at_test: what is done to the trained model before it reads rows of a length,
            `(model, length) → model`; None leaves it as it is. Encodings with the same
            `make` share their trained weights.

    Raises:
        TypeError: something that cannot be called.

    Example:
        >>> from lib.transformer import Position
        >>> nothing = Encoding(lambda config: Position())
        >>> nothing.at_test is None
        True
    """

    make: Maker
    at_test: Callable[[Transformer, int], Transformer] | None = None

    def __post_init__(self):
        for name, function in (("make", self.make), ("at_test", self.at_test)):
            if not callable(function) and (name, function) != ("at_test", None):
                raise TypeError(f"{name} must be a function, got {function!r}")


class Clamped(Position, LearnedPositionalEmbedding):
    """Add a trained row; past the end of the table, its last one.

    Args:
        max_positions, d_model, offset, std, device, dtype: as for
            `LearnedPositionalEmbedding`.

    Example:
        >>> import torch
        >>> position = Clamped(4, 8)
        >>> rows = position.add(torch.zeros(1, 6, 8), torch.arange(6)[None])
        >>> torch.equal(rows[0, 3], rows[0, 5])
        True
    """

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the rows of positions, the last row from the end of the table on.

        Args:
            x: tokens `[B, T, d_model]`.
            positions: integers `[1 or B, T]`, none negative.
        """
        return x + self(positions.clamp(max=len(self.weight) - 1))


def make_learned(config: TransformerConfig) -> Position:
    """Build a table for the trained length."""
    return Clamped(config.max_positions, config.d_model, std=config.std)


def make_near_t5(config: TransformerConfig) -> Position:
    """Build T5's buckets with the last one from distance 24 on, in place of 128.

    A row of 32 characters then has keys in every bucket.
    """
    position = T5(config)
    position.max_distance = 24
    return position


def maker(kind: str) -> Maker:
    """Make a function that builds a kind of `lib.transformer`."""

    def make(config: TransformerConfig) -> Position:
        return Transformer(replace(config, position=kind)).position

    return make


def scaled(**parameters: Any) -> Callable[[Transformer, int], Transformer]:
    """Make a function that rescales RoPE by length / trained length."""

    def at_test(model: Transformer, length: int) -> Transformer:
        trained = model.config.max_positions
        rope = {**parameters, "original_max_position_embeddings": trained}
        rope["factor"] = max(1.0, length / trained)
        return model.with_options(position="rope", rope_parameters=rope)

    return at_test


def with_ntk(model: Transformer, length: int) -> Transformer:
    """Raise RoPE's base until its slowest pair is slowed by length / trained."""
    factor, width = max(1.0, length / model.config.max_positions), model.config.head_dim
    base = model.config.rope_base * factor ** (width / (width - 2))
    return model.with_options(position="rope", rope_base=base)


def cut_at_trained_length(model: Transformer, length: int) -> Transformer:
    """Let no head see farther back than a training row was long."""
    config = model.config
    windows = [config.max_positions] * config.num_heads
    return model.with_options(position=Windowed(model.position, windows))


def with_alibi_windows(make: Maker) -> Maker:
    """Train an encoding with a hard end to what each head sees: ALiBi's reach."""

    def windowed(config: TransformerConfig) -> Position:
        return Windowed(make(config), alibi_windows(config.num_heads))

    return windowed


NONE, SINUSOIDAL, ROPE = maker("none"), maker("sinusoidal"), maker("rope")
ALIBI, T5 = maker("alibi"), maker("t5")
ENCODINGS = {
    "none": Encoding(NONE),
    "sinusoidal": Encoding(SINUSOIDAL),
    "learned": Encoding(make_learned),
    "RoPE": Encoding(ROPE),
    "ALiBi": Encoding(ALIBI),
    "T5": Encoding(T5),
    "T5, 24": Encoding(make_near_t5),
    # The weights of RoPE, other frequencies at the test.
    "RoPE + PI": Encoding(ROPE, scaled(rope_type="linear")),
    "RoPE + NTK": Encoding(ROPE, with_ntk),
    "RoPE + YaRN": Encoding(ROPE, scaled(rope_type="yarn")),
    "RoPE + YaRN, fitted": Encoding(
        ROPE, scaled(rope_type="yarn", beta_fast=1.0, beta_slow=0.25)
    ),
    # The same weights, and at the test no sight beyond the trained length.
    "none, cut": Encoding(NONE, cut_at_trained_length),
    "sinusoidal, cut": Encoding(SINUSOIDAL, cut_at_trained_length),
    "learned, cut": Encoding(make_learned, cut_at_trained_length),
    "RoPE, cut": Encoding(ROPE, cut_at_trained_length),
    "ALiBi, cut": Encoding(ALIBI, cut_at_trained_length),
    "T5, cut": Encoding(T5, cut_at_trained_length),
    # Trained and tested with a hard end at ALiBi's reach, head by head.
    "none, ALiBi's windows": Encoding(with_alibi_windows(NONE)),
    "RoPE, ALiBi's windows": Encoding(with_alibi_windows(ROPE)),
}


def pick_encodings(*names: str) -> dict[str, Encoding]:
    """Pick some of `ENCODINGS`, in the order in which they are named.

    Args:
        names: keys of `ENCODINGS`.

    Raises:
        KeyError: no such encoding; the message lists the known ones.

    Example:
        >>> list(pick_encodings("RoPE", "ALiBi"))
        ['RoPE', 'ALiBi']
    """
    for name in names:
        if name not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise KeyError(f"no encoding {name!r}; known are {known}")
    return {name: ENCODINGS[name] for name in names}
