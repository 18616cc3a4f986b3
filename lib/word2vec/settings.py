"""What all trainers of word2vec are told."""

import dataclasses

from lib.checks import check_integer, check_size, number


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all trainers are told, with the numbers that gensim starts from.

    Attributes:
        dim: width of a vector.
        window: furthest neighbour on each side; each word draws its own from 1 up.
        negatives: noise words for each pair; 0 leaves them out.
        epochs: passes over the text.
        lr: the learning rate at the start; it falls in a straight line.
        min_lr: the learning rate at the end.
        sample: t of `keep_probability`: words of a share above 2.618 · t are thinned
            out; 0 keeps all.
        power: exponent of the noise.
        architecture: "skipgram" or "cbow".
        seed: the one source of chance.
        start: the first word vectors are uniform within ± start / dim: 0.5 as in
            word2vec.c, 1 as gensim always does. It matters where a text is short.

    Raises:
        TypeError: a size or a seed that is not an int.
        ValueError: a number out of range, or another architecture.
    """

    dim: int = 100
    window: int = 5
    negatives: int = 5
    epochs: int = 5
    lr: float = 0.025
    min_lr: float = 1e-4
    sample: float = 1e-3
    power: float = 0.75
    architecture: str = "skipgram"
    seed: int = 1
    start: float = 0.5

    def __post_init__(self):
        for name in ("dim", "window", "epochs"):
            self._keep(name, check_size(name, getattr(self, name)))
        self._keep("negatives", check_size("negatives", self.negatives, at_least=0))
        self._keep("seed", check_integer("seed", self.seed))
        for name in ("lr", "start"):
            self._keep(name, number(name, getattr(self, name), above=0))
        for name in ("min_lr", "sample", "power"):
            self._keep(name, number(name, getattr(self, name), at_least=0))
        if self.min_lr > self.lr:
            raise ValueError(f"min_lr must be from 0 to lr, got {self.min_lr}")
        if self.architecture not in ("skipgram", "cbow"):
            raise ValueError(
                f"unknown architecture {self.architecture!r}, "
                "expected 'skipgram' or 'cbow'"
            )

    def _keep(self, name: str, value: float) -> None:
        """Set a field of this frozen class to Python's own number."""
        object.__setattr__(self, name, value)

    def rate(self, progress: float) -> float:
        """Return the learning rate at a progress from 0 to 1.

        Args:
            progress: the share of the training that is done, from 0 to 1.
        """
        return self.lr + (self.min_lr - self.lr) * progress


WORD2VEC = Settings()
