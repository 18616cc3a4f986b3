"""What word2vec's trainers share: settings, the drawing of epochs, and one loss."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lib.checks import check_ids, check_size
from lib.word2vec.models import mean_rows, sgns_loss
from lib.word2vec.noise import (
    draw_others,
    keep_probability,
    noise_distribution,
    noise_ends,
)
from lib.word2vec.pairs import Text, bags_of, flatten, neighbours, pairs_of

if TYPE_CHECKING:
    from gensim.models import Word2Vec

Examples = tuple[Tensor, Tensor, Tensor]
OnEpoch = Callable[[int, float], object]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all trainers are told, with the numbers that gensim starts from.

    Attributes:
        dim: width of a vector.
        window: furthest neighbour on each side; each word draws its own from 1 up.
        negatives: noise words for each pair; 0 leaves them out.
        epochs: passes over the text.
        lr, min_lr: the learning rate at the start and at the end, linear between.
        sample: the share above which words are thinned out; 0 keeps all.
        power: exponent of the noise.
        architecture: "skipgram" or "cbow".
        seed: the one source of chance.

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

    def __post_init__(self):
        for name in ("dim", "window", "epochs"):
            check_size(name, getattr(self, name))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed must be an int, got {self.seed!r}")
        if self.negatives != 0:
            check_size("negatives", self.negatives)
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be above 0, got {self.lr}")
        if not 0 <= self.min_lr <= self.lr:
            raise ValueError(f"min_lr must be from 0 to lr, got {self.min_lr}")
        for name in ("sample", "power"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be from 0 on, got {getattr(self, name)}")
        if self.architecture not in ("skipgram", "cbow"):
            raise ValueError(
                f"unknown architecture {self.architecture!r}, "
                "expected 'skipgram' or 'cbow'"
            )

    def rate(self, progress: float) -> float:
        """Return the learning rate at a progress from 0 to 1."""
        return self.lr + (self.min_lr - self.lr) * progress


WORD2VEC = Settings()


@dataclasses.dataclass
class TrainingRun:
    """What a trainer returns.

    Attributes:
        input: the word vectors `[V, d]`.
        output: the vectors of words as neighbours `[V, d]`.
        losses: `mean_loss` after each epoch.
        seconds: training time of each epoch, without preparation and measurement.
        cpu_seconds: the processor time of the same, over all threads; it hardly
            changes when other programs share the machine.
        model: gensim's own model, of `train_gensim` alone.
    """

    input: Tensor
    output: Tensor
    losses: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    model: "Word2Vec | None" = None


class EpochLog:
    """Time each epoch of a run, and measure its loss when the clock stands still."""

    def __init__(self, run: TrainingRun, examples: Examples, on_epoch: OnEpoch | None):
        self.run, self.examples, self.on_epoch = run, examples, on_epoch

    def begin(self) -> None:
        self.clock, self.cpu_clock = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        if self.run.input.device.type != "cpu":
            torch.accelerator.synchronize(self.run.input.device)
        self.run.seconds.append(time.perf_counter() - self.clock)
        self.run.cpu_seconds.append(time.process_time() - self.cpu_clock)

    def measure(self) -> None:
        run = self.run
        loss = mean_loss(run.input, run.output, self.examples)
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} after epoch {len(run.losses)}: "
                "the steps are too long, try a smaller lr or fewer words in a step"
            )
        run.losses.append(loss)
        if self.on_epoch is not None:
            self.on_epoch(len(run.losses) - 1, loss)


class EpochSource:
    """A text and its statistics, from which each epoch draws anew.

    All chance comes from one CPU generator, so that a seed means the same everywhere.
    """

    def __init__(self, sentences: Text, counts: Tensor, settings: Settings, seed: int):
        self.ids, self.lengths = (part.cpu() for part in flatten(sentences))
        check_ids(self.ids, len(counts))
        if not (self.lengths > 1).any():
            raise ValueError("no pair of words: no sentence has two words to pair")
        counts = counts.cpu()
        self.settings = settings
        self.generator = torch.Generator().manual_seed(seed)
        self.ends = noise_ends(noise_distribution(counts, settings.power))
        self.keep = torch.ones(len(counts))
        if settings.sample:
            self.keep = keep_probability(counts, settings.sample)

    def sentence_numbers(self) -> Tensor:
        """Return for each word the number of its sentence, `[N]`."""
        return torch.repeat_interleave(torch.arange(len(self.lengths)), self.lengths)

    def shorten(self, words: int) -> None:
        """Keep only sentences drawn by chance, of about this many words in all."""
        order = torch.randperm(len(self.lengths), generator=self.generator)
        before = self.lengths[order].cumsum(0) - self.lengths[order]
        chosen = torch.zeros(len(order), dtype=torch.bool)
        chosen[order[before < words]] = True
        self.ids = self.ids[chosen[self.sentence_numbers()]]
        self.lengths = self.lengths[chosen]

    def thinned(self) -> tuple[Tensor, Tensor]:
        """Drop occurrences by chance; return what is left as ids and lengths."""
        chance = torch.rand(len(self.ids), generator=self.generator)
        stays = chance < self.keep[self.ids]
        sentence = self.sentence_numbers()[stays]
        return self.ids[stays], torch.bincount(sentence, minlength=len(self.lengths))

    def examples(self) -> tuple[Tensor, Tensor]:
        """Return an epoch's inputs `[N]` (for CBOW `[N, C]`) and targets, shuffled."""
        ids, lengths = self.thinned()
        context = neighbours(ids, lengths, self.settings.window, self.generator)
        if self.settings.architecture == "cbow":
            inputs, targets = bags_of(ids, context)
        else:
            inputs, targets = pairs_of(ids, context).unbind(1)
        order = torch.randperm(len(targets), generator=self.generator)
        return inputs[order], targets[order]

    def negatives(self, positives: Tensor) -> Tensor:
        """Draw negatives `[N, K]` for positives `[N]`."""
        return draw_others(
            self.ends, positives, self.settings.negatives, self.generator
        )


def evaluation_examples(
    sentences: Text,
    counts: Tensor,
    settings: Settings,
    size: int = 20_000,
    seed: int = 0,
) -> Examples:
    """Draw the fixed examples on which trainers are compared.

    They are drawn as training draws its own, from sentences picked by chance: words
    thinned out, windows shrunk at random, negatives from the noise.

    Args:
        sentences: a text of ids; held-out sentences measure what carries over.
        counts: occurrences of each word in the whole corpus, `[V]`.
        settings: window, negatives, sample, power and architecture are used.
        size: how many examples; fewer if the text is short.
        seed: not the training's, so that runs with different seeds meet here.

    Returns:
        inputs int64 `[N]` (for CBOW contexts `[N, 2 · window]`), positives `[N]` and
        negatives `[N, K]`.

    Raises:
        ValueError: the text has no pair of words, or subsampling leaves none.
    """
    check_size("size", size)
    source = EpochSource(sentences, counts, settings, seed)
    source.shorten(4 * size)  # enough, and far less than a long text
    inputs, positives = source.examples()
    if not len(positives):
        raise ValueError(
            f"no pair of words is left after subsampling {len(source.ids)} words "
            f"with sample={settings.sample}; 0 keeps them all"
        )
    inputs, positives = inputs[:size], positives[:size]
    return inputs, positives, source.negatives(positives)


@torch.no_grad()
def mean_loss(table_in: Tensor, table_out: Tensor, examples: Examples) -> float:
    """Measure the loss of word vectors on fixed examples.

    It is `sgns_loss`, the mean over examples, and the same number whichever trainer
    the vectors come from. (gensim adds up a running loss of its own, in float32: it
    rounds ever more coarsely as it grows and stands still from 2²⁴ on.)

    Args:
        table_in, table_out: `[V, d]`.
        examples: as `evaluation_examples` gives them.

    Returns:
        The mean loss in nats.

    Example:
        >>> zeros = torch.zeros(3, 2)
        >>> pair = (torch.tensor([0]), torch.tensor([1]), torch.tensor([[2, 2]]))
        >>> round(mean_loss(zeros, zeros, pair), 4)  # −3 log ½
        2.0794
    """
    total = 0.0
    for part in zip(*(column.split(4_096) for column in examples), strict=True):
        inputs, positives, negatives = (ids.to(table_in.device) for ids in part)
        lookup = table_in.__getitem__
        center = mean_rows(lookup, inputs) if inputs.dim() == 2 else lookup(inputs)
        loss = sgns_loss(center, table_out[positives], table_out[negatives])
        total += loss.item() * len(positives)
    return total / len(examples[1])
