"""The three trainers: as the formulas read, the same thing fast, and gensim's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.checks import check_size
from lib.corpus import Vocab
from lib.device import pick_device
from lib.word2vec.blocks import band_masks, block_step, cut_blocks, group_size
from lib.word2vec.models import CBOW, SkipGram
from lib.word2vec.pairs import Text
from lib.word2vec.training import (
    WORD2VEC,
    EpochLog,
    EpochSource,
    Examples,
    OnEpoch,
    Settings,
    TrainingRun,
    evaluation_examples,
)

if TYPE_CHECKING:
    from gensim.models import Word2Vec

GENSIM_SENTENCE = 10_000  # gensim reads no further into a sentence


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
    check_size("batch", batch)
    source = EpochSource(sentences, counts, settings, settings.seed)
    device = torch.device(device or pick_device())
    kind = CBOW if settings.architecture == "cbow" else SkipGram
    sparse = device.type != "mps"  # which has no sparse tensors
    model = kind(len(counts), settings.dim, source.generator, sparse).to(device)
    run = TrainingRun(model.vectors(), model.output.weight.detach())
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch)
    for epoch in range(settings.epochs):
        log.begin()
        _autograd_epoch(model, source, batch, epoch)
        log.stop()
        log.measure()
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
    check_size("block", block)
    check_size("shared", shared)
    source = EpochSource(sentences, counts, settings, settings.seed)
    if group is None:
        group = group_size(counts.cpu() * source.keep, block, settings.lr)
    check_size("group", group)
    device = torch.device(device or pick_device())
    start = SkipGram(len(counts), settings.dim, source.generator).to(device)
    run = TrainingRun(start.vectors(), start.output.weight.detach())
    masks = band_masks(block, settings.window).to(device)
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch)
    for epoch in range(settings.epochs):
        log.begin()
        _block_epoch(run, source, masks, (block, shared, group), epoch)
        log.stop()
        log.measure()
    return run


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
    draw = torch.randint(
        int(source.ends[-1]), (len(words), shared), generator=source.generator
    )
    negatives = torch.searchsorted(source.ends, draw, right=True, out_int32=True)
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


def train_gensim(
    sentences: Sequence[Sequence[str]],
    vocab: Vocab,
    settings: Settings = WORD2VEC,
    *,
    evaluation: Examples | None = None,
    on_epoch: OnEpoch | None = None,
    **options: object,
) -> TrainingRun:
    """Train gensim's Word2Vec; return its vectors in the order of the vocabulary.

    One worker and one seed: gensim then returns the same vectors every time. A second
    worker makes it faster, and no two runs alike.

    Args:
        sentences: lists of words; those that the vocabulary lacks are dropped.
        vocab: the words and their counts.
        settings: as for the other trainers.
        evaluation, on_epoch: as for `train_autograd`.
        options: gensim's own arguments, such as `workers=2` or `hs=1`; they win.

    Returns:
        Vectors, and the loss and the seconds of each epoch; `model` is gensim's own.

    Raises:
        ModuleNotFoundError: gensim is missing; the message gives the command.
        TypeError: a string in place of a list of tokens, or an option that gensim does
            not have, such as `size` and `iter` of gensim 3.
        ValueError: a text without a pair of words, a sentence of more than 10,000
            words, of which gensim would read no more, or no negatives.

    Source: gensim 4.4.0, `Word2Vec` and `word2vec_inner.pyx`.
    """
    if settings.negatives < 1:
        raise ValueError("gensim needs at least 1 negative, got 0")
    ids = vocab.encode_sentences(sentences)
    longest = max(map(len, ids), default=0)
    if longest > GENSIM_SENTENCE:
        raise ValueError(
            f"a sentence has {longest} words, gensim reads {GENSIM_SENTENCE} of them"
        )
    examples = evaluation or evaluation_examples(ids, vocab.counts, settings)
    model = _gensim_model(vocab, len(sentences), settings, options)
    rows = [model.wv.key_to_index[word] for word in vocab.words]
    start = torch.from_numpy(model.wv.vectors[rows])
    run = TrainingRun(start, torch.zeros_like(start), model=model)
    model.train(
        sentences,
        total_examples=len(sentences),
        epochs=settings.epochs,
        callbacks=[_gensim_log(EpochLog(run, examples, on_epoch), rows)],
    )
    return run


def _gensim_model(
    vocab: Vocab, sentences: int, settings: Settings, options: dict[str, object]
) -> "Word2Vec":
    try:
        from gensim.models import Word2Vec
    except ModuleNotFoundError as error:
        message = "train_gensim needs gensim: pip install gensim==4.4.0"
        raise ModuleNotFoundError(message, name="gensim") from error
    chosen: dict[str, object] = {
        "vector_size": settings.dim,
        "window": settings.window,
        "negative": settings.negatives,
        "epochs": settings.epochs,
        "alpha": settings.lr,
        "min_alpha": settings.min_lr,
        "sample": settings.sample,
        "ns_exponent": settings.power,
        "sg": int(settings.architecture == "skipgram"),
        "seed": settings.seed,
        "min_count": 1,
        "workers": 1,
    }
    model = Word2Vec(**{**chosen, **options})
    counts = dict(zip(vocab.words, vocab.counts.tolist(), strict=True))
    model.build_vocab_from_freq(counts, corpus_count=sentences)
    return model


def _gensim_log(log: EpochLog, rows: list[int]):
    """Wrap a log as gensim's callback, which copies the vectors after each epoch."""
    from gensim.models.callbacks import CallbackAny2Vec

    class Callback(CallbackAny2Vec):
        def on_epoch_begin(self, model):
            log.begin()

        def on_epoch_end(self, model):
            log.stop()
            log.run.input = torch.from_numpy(model.wv.vectors[rows])
            log.run.output = torch.from_numpy(model.syn1neg[rows])
            log.measure()

    return Callback()
