"""Two trainers of our own: as the formulas read, and the same thing fast."""

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.checks import check_size
from lib.device import pick_device
from lib.word2vec.blocks import band_masks, block_step, cut_blocks, group_size
from lib.word2vec.models import CBOW, SkipGram
from lib.word2vec.pairs import Text
from lib.word2vec.settings import WORD2VEC, Settings
from lib.word2vec.training import (
    EpochLog,
    EpochSource,
    Examples,
    OnEpoch,
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
) -> TrainingRun:
    """Train `SkipGram` or `CBOW` with autograd and plain gradient descent.

    Each step goes down the loss summed over a batch, which is what word2vec does one
    pair at a time.

    Args:
        sentences: a text of ids, see `flatten`.
        counts: occurrences `[V]`; they set the noise and the subsampling.
        settings: sizes, rates and the seed.
        batch: pairs (for CBOW words) of one step.
        device: `pick_device()` if None.
        evaluation: where the loss is measured; examples of the text itself if None.
        on_epoch: called with the epoch's number, from 0, and its loss.

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
    model = kind(len(counts), settings.dim, source.generator, sparse).to(device)
    run = TrainingRun(model.vectors(), model.output.weight.detach())
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch)
    log.train(settings.epochs, lambda e: _autograd_epoch(model, source, batch, e))
    return run


def _autograd_epoch(
    model: SkipGram | CBOW, source: EpochSource, batch: int, epoch: int
) -> None:
    settings, device = source.settings, model.input.weight.device
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    inputs, targets = source.examples()
    for start in range(0, len(targets), batch):
        progress = (epoch + start / len(targets)) / settings.epochs
        optimizer.param_groups[0]["lr"] = settings.rate(progress)
        positives = targets[start : start + batch]
        batch_inputs = inputs[start : start + batch]
        arguments = batch_inputs, positives, source.negatives(positives)
        loss = model(*(ids.to(device) for ids in arguments))
        optimizer.zero_grad()
        (loss * len(positives)).backward()
        optimizer.step()


def train_blocks(
    sentences: Text,
    counts: Tensor,
    settings: Settings = WORD2VEC,
    *,
    block: int = 16,
    shared: int = 16,
    group: int | None = None,
    device: torch.device | str | None = None,
    evaluation: Examples | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainingRun:
    """Train skip-gram in blocks: the trainer to use.

    It goes down the same loss as the others, see `blocks.py`. An epoch is
    drawn as a whole, at about 100 bytes a word.

    Args:
        sentences, counts, settings, device, evaluation, on_epoch: as for
            `train_autograd`.
        block: words of a block.
        shared: negatives that a block shares.
        group: blocks of an update; `group_size` chooses if None.

    Returns:
        Vectors, and the loss and the seconds of each epoch. Two processes with the same
        seed and as many threads return the same bits on one machine.

    Raises:
        TypeError, ValueError, IndexError: as for `train_autograd`, and for CBOW.
    """
    if settings.architecture != "skipgram":
        raise ValueError(f"blocks are for skipgram, not {settings.architecture!r}")
    source = EpochSource(sentences, counts, settings, settings.seed)
    sizes = _block_sizes(block, shared, group, source, counts)
    device = torch.device(device or pick_device())
    start = SkipGram(len(counts), settings.dim, source.generator).to(device)
    run = TrainingRun(start.vectors(), start.output.weight.detach())
    masks = band_masks(sizes[0], settings.window).to(device)
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch)
    log.train(settings.epochs, lambda e: _block_epoch(run, source, masks, sizes, e))
    return run


def _block_sizes(
    block: int, shared: int, group: int | None, source: EpochSource, counts: Tensor
) -> tuple[int, int, int]:
    """Check the sizes of `train_blocks`, and choose the group if it is None."""
    block, shared = check_size("block", block), check_size("shared", shared)
    if group is None:
        group = group_size(counts.cpu() * source.keep, block, source.settings.lr)
    return block, shared, check_size("group", group)


def _block_epoch(
    run: TrainingRun,
    source: EpochSource,
    masks: Tensor,
    sizes: tuple[int, int, int],
    epoch: int,
) -> None:
    settings, device = source.settings, masks.device
    block, shared, group = sizes
    text = source.thinned()
    words, rows = cut_blocks(*text, block, settings.window, source.generator)
    negatives = source.shared_negatives(len(words), shared)
    words, rows, negatives = (ids.to(device) for ids in (words, rows, negatives))
    for start in range(0, len(words), group):
        progress = (epoch + start / len(words)) / settings.epochs
        part = slice(start, start + group)
        block_step(
            run.input,
            run.output,
            words[part],
            F.embedding(rows[part], masks),
            negatives[part],
            settings.negatives,
            settings.rate(progress),
        )
