"""Word2vec as the formulas read: autograd goes down the loss of each batch."""

import torch
from torch import Tensor

from lib.checks import check_size
from lib.device import pick_device
from lib.word2vec.models import CBOW, SkipGram
from lib.word2vec.pairs import Text
from lib.word2vec.settings import WORD2VEC, Settings
from lib.word2vec.source import EpochSource
from lib.word2vec.training import (
    EpochLog,
    Examples,
    OnEpoch,
    OnProgress,
    OnRun,
    TrainingRun,
    evaluation_examples,
)


def train_autograd(
    sentences: Text,
    counts: Tensor,
    settings: Settings = WORD2VEC,
    *,
    batch: int = 256,
    device: torch.device | str | None = None,
    evaluation: Examples | None = None,
    on_epoch: OnEpoch | None = None,
    on_progress: OnProgress | None = None,
    checkpoint: OnRun | None = None,
) -> TrainingRun:
    """Train `SkipGram` or `CBOW` with autograd and plain gradient descent.

    Each step goes down the loss summed over a batch, which is what word2vec does one
    pair at a time.

    Args:
        sentences: a text of ids, see `flatten`; any object whose `__iter__` starts anew
            will do, and is read in pieces.
        counts: occurrences `[V]`; they set the noise and the subsampling.
        settings: sizes, rates and the seed.
        batch: pairs (for CBOW words) of one step.
        device: `pick_device()` if None.
        evaluation: where the loss is measured; examples of the text itself if None.
        on_epoch: called with the epoch's number, from 0, and its loss.
        on_progress: called after each step with the share of the training that is done.
        checkpoint: called with the run after each epoch, as `on_epoch`, but before it.

    Returns:
        Vectors, and the loss and the seconds of each epoch.

    Raises:
        TypeError, ValueError, IndexError: a text without a pair of words, ids outside
            the counts, counts that are none.
        FloatingPointError: the vectors have overflowed. Every word of a batch takes all
            its steps from the same place, and with few different words too many fall
            on each.
    """
    batch = check_size("batch", batch)
    source = EpochSource(sentences, counts, settings, settings.seed)
    device = torch.device(device or pick_device())
    kind = CBOW if settings.architecture == "cbow" else SkipGram
    sparse = device.type != "mps"  # which has no sparse tensors
    sizes = len(counts), settings.dim
    model = kind(*sizes, source.generator, sparse, settings.start).to(device)
    run = TrainingRun(model.vectors(), model.output.weight.detach())
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch, checkpoint)
    log.train(
        settings.epochs,
        lambda epoch: _autograd_epoch(model, source, batch, epoch, on_progress),
    )
    return run


def _autograd_epoch(
    model: SkipGram | CBOW,
    source: EpochSource,
    batch: int,
    epoch: int,
    on_progress: OnProgress | None,
) -> None:
    settings, device = source.settings, model.input.weight.device
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    for piece in source.pieces():
        inputs, targets = source.examples(piece)
        for start in range(0, len(targets), batch):
            done = piece.before + piece.share * (start / len(targets))
            progress = (epoch + done) / settings.epochs
            optimizer.param_groups[0]["lr"] = settings.rate(progress)
            positives = targets[start : start + batch]
            batch_inputs = inputs[start : start + batch]
            arguments = batch_inputs, positives, source.negatives(positives)
            loss = model(*(ids.to(device) for ids in arguments))
            optimizer.zero_grad()
            (loss * len(positives)).backward()
            optimizer.step()
            if on_progress is not None:
                on_progress(progress)
