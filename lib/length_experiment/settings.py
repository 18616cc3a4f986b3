"""How long, how large and how often: all that the experiment holds equal."""

from dataclasses import dataclass, replace

from lib.checks import check_size, number
from lib.transformer import PRESETS, TransformerConfig

# A start of 1/√d for all weights, and tokens as large as waves: with the preset's 0.02
# sines and cosines drown the tokens, and every encoding learns more slowly.
SMALL = replace(PRESETS["tiny"], std=1 / 8, embedding_scale=8.0)


@dataclass(frozen=True)
class Setting:
    """What every encoding of one comparison shares.

    Args:
        model: sizes of the transformer; its `position` and `max_positions` are set by
            the experiment.
        length: characters of a training row, L.
        factors: the lengths of the test, as multiples of L, ascending from 1.
        batch: rows a step; every second one hides a digit.
        steps: steps of Adam.
        rate: learning rate at its peak, after a tenth of the steps.
        answer_weight: what the loss of the hidden digits counts beside the mean loss.
        test_tokens: characters that are scored, the same ones at every length.
        questions: rows in which a digit is to be recalled.

    Raises:
        ValueError: a size below 1, a length below 4, factors that do not ascend from 1,
            or test_tokens that the longest rows do not divide.
        TypeError: a size that is not an integer.

    Example:
        >>> Setting(length=16).lengths
        (16, 32, 64, 128)
    """

    model: TransformerConfig = SMALL
    length: int = 32
    factors: tuple[int, ...] = (1, 2, 4, 8)
    batch: int = 32
    steps: int = 300
    rate: float = 6e-3
    answer_weight: float = 2.0
    test_tokens: int = 32_768
    questions: int = 256

    def __post_init__(self):
        check_size("length", self.length, at_least=4)
        check_size("batch", self.batch, at_least=2)
        for name in ("steps", "test_tokens", "questions"):
            check_size(name, getattr(self, name))
        number("rate", self.rate, above=0)
        number("answer_weight", self.answer_weight, at_least=0)
        factors = [check_size("a factor", factor) for factor in self.factors]
        if factors[:1] != [1] or factors != sorted(set(factors)):
            raise ValueError(f"factors must ascend from 1, got {self.factors}")
        for length in self.lengths:
            if self.test_tokens % length:
                raise ValueError(
                    f"test_tokens must be a multiple of every length, so that all "
                    f"score the same tokens: {self.test_tokens} is not one of {length}"
                )

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the test, in characters."""
        return tuple(self.length * factor for factor in self.factors)

    @property
    def config(self) -> TransformerConfig:
        """The model's configuration, without an encoding, for rows of `length`."""
        return replace(self.model, position="none", max_positions=self.length)


SETTINGS = {
    # The one that is stored: some eight seconds an encoding on one processor core.
    "cpu": Setting(),
    # 4.9 million weights: for a graphics card.
    "gpu": Setting(
        model=replace(
            SMALL,
            d_model=256,
            num_layers=6,
            num_heads=8,
            num_kv_heads=8,
            d_hidden=704,
            std=1 / 16,
            embedding_scale=16.0,
        ),
        length=256,
        batch=64,
        steps=3_000,
        rate=1e-3,
        test_tokens=131_072,
    ),
}
