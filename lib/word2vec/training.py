"""What word2vec's trainers share: what they return, and one loss."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lib.checks import check_size
from lib.word2vec.models import mean_rows, sgns_loss
from lib.word2vec.pairs import Text
from lib.word2vec.settings import Settings
from lib.word2vec.source import EpochSource

if TYPE_CHECKING:
    from gensim.models import Word2Vec

Examples = tuple[Tensor, Tensor, Tensor]
OnEpoch = Callable[[int, float], object]
OnProgress = Callable[[float], object]
OnRun = Callable[["TrainingRun"], object]


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

    def __init__(
        self,
        run: TrainingRun,
        examples: Examples,
        on_epoch: OnEpoch | None,
        checkpoint: OnRun | None = None,
    ):
        self.run, self.examples = run, examples
        self.on_epoch, self.checkpoint = on_epoch, checkpoint

    def train(self, epochs: int, train_one: Callable[[int], None]) -> None:
        for epoch in range(epochs):
            self.begin()
            train_one(epoch)
            self.stop()
            self.measure()

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
        if self.checkpoint is not None:
            self.checkpoint(run)
        if self.on_epoch is not None:
            self.on_epoch(len(run.losses) - 1, loss)


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
        TypeError: a generator of sentences.
        ValueError: the text has no pair of words, or subsampling leaves none.
    """
    size = check_size("size", size)
    source = EpochSource(sentences, counts, settings, seed)
    part = source.sample(4 * size)  # enough, and far less than a long text
    inputs, positives = source.examples(part)
    if not len(positives):
        raise ValueError(
            f"no pair of words is left after subsampling {len(part.ids)} words "
            f"with sample={settings.sample}; 0 keeps them all"
        )
    inputs, positives = inputs[:size], positives[:size]
    return inputs, positives, source.negatives(positives)


@torch.no_grad()
def mean_loss(table_in: Tensor, table_out: Tensor, examples: Examples) -> float:
    """Measure the loss of word vectors on fixed examples.

    It is `sgns_loss`, the mean over examples, and the same number whichever trainer
    the vectors come from. (gensim adds up a running loss of its own, in float32, which
    rounds ever more coarsely: much is lost from 2²⁴ on, and from 2²⁷ it stands still.)

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
