"""Skip-gram in blocks, from the text to the vectors; `blocks.py` makes one update."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.checks import check_size
from lib.device import pick_device
from lib.word2vec.blocks import (
    band_masks,
    block_step,
    cut_blocks,
    group_size,
    shared_size,
)
from lib.word2vec.models import SkipGram
from lib.word2vec.pairs import Text
from lib.word2vec.settings import WORD2VEC, Settings
from lib.word2vec.source import EpochSource, Piece
from lib.word2vec.training import (
    EpochLog,
    Examples,
    OnEpoch,
    OnProgress,
    OnRun,
    TrainingRun,
    evaluation_examples,
)


def train_blocks(
    sentences: Text,
    counts: Tensor,
    settings: Settings = WORD2VEC,
    *,
    block: int = 16,
    shared: int | None = None,
    group: int | None = None,
    order: str = "shuffled",
    workers: int = 1,
    device: torch.device | str | None = None,
    evaluation: Examples | None = None,
    on_epoch: OnEpoch | None = None,
    on_progress: OnProgress | None = None,
    checkpoint: OnRun | None = None,
) -> TrainingRun:
    """Train skip-gram in blocks: the trainer to use.

    It goes down the same loss as the others, see `blocks.py`. The text is read and
    drawn in pieces of about a million words, some 100 MB, however long it is.

    Its loss ends within 1 % of gensim's or below it, from 5,000 words to a million
    (generated texts, three seeds; `benchmarks/results/word2vec.json`).

    Args:
        sentences, counts, settings, device, evaluation: as for `train_autograd`.
        on_epoch, on_progress, checkpoint: as for `train_autograd`; several workers
            call `on_progress` from threads of their own.
        block: words of a block.
        shared: negatives that a block shares; `shared_size` chooses if None.
        group: blocks of an update; `group_size` chooses if None.
        order: "shuffled" takes the blocks of each piece in random order, "text" as
            they stand, which is what gensim does with sentences.
        workers: threads that make updates at the same time on the same tables, without
            waiting for each other; with more than one, no two runs are alike.

    Returns:
        Vectors, and the loss and the seconds of each epoch. Two processes with the same
        seed and as many threads of torch return the same bits on one machine.

    Raises:
        TypeError, ValueError, IndexError: as for `train_autograd`, and for CBOW or an
            unknown order.

    Source: Recht et al. 2011, arXiv:1106.5730, for workers that do not wait.
    """
    if settings.architecture != "skipgram":
        raise ValueError(f"blocks are for skipgram, not {settings.architecture!r}")
    source = EpochSource(sentences, counts, settings, settings.seed)
    plan = Plan.of(source, counts, block, shared, group, order, workers)
    device = torch.device(device or pick_device())
    sizes = len(counts), settings.dim
    start = SkipGram(*sizes, source.generator, start=settings.start).to(device)
    run = TrainingRun(start.vectors(), start.output.weight.detach())
    masks = band_masks(plan.block, settings.window).to(device)
    examples = evaluation or evaluation_examples(sentences, counts, settings)
    log = EpochLog(run, examples, on_epoch, checkpoint)
    epoch = BlockEpoch(run, source, masks, plan, on_progress)
    log.train(settings.epochs, epoch.train)
    return run


# Visits of a word as a negative, below which they are spread evenly and push midway.
RARELY = 64


@dataclasses.dataclass(frozen=True)
class Plan:
    """How `train_blocks` cuts a text into updates."""

    block: int
    shared: int
    group: int
    shuffle: bool
    workers: int
    rarely: bool

    @classmethod
    def of(
        cls,
        source: EpochSource,
        counts: Tensor,
        block: int,
        shared: int | None,
        group: int | None,
        order: str,
        workers: int,
    ) -> "Plan":
        """Check what the caller has chosen, and choose the rest."""
        if order not in ("shuffled", "text"):
            raise ValueError(f"unknown order {order!r}, expected 'shuffled' or 'text'")
        block, settings = check_size("block", block), source.settings
        counts = counts.cpu()
        kept = counts * source.keep  # [V]
        if group is None:
            group = group_size(kept, block, settings.lr)
        words = settings.epochs * source.words * (kept.sum() / counts.sum()).item()
        words /= int((counts > 0).sum())  # for each of the vocabulary
        if shared is None:
            shared = shared_size(words, block)
        return cls(
            block,
            check_size("shared", shared),
            check_size("group", group),
            order == "shuffled",
            check_size("workers", workers),
            rarely=words * shared / block < RARELY,
        )


class BlockEpoch:
    """An epoch of `train_blocks`: each piece is cut, and its groups are updates."""

    def __init__(
        self,
        run: TrainingRun,
        source: EpochSource,
        masks: Tensor,
        plan: Plan,
        on_progress: OnProgress | None,
    ):
        self.run, self.source, self.masks, self.plan = run, source, masks, plan
        self.on_progress = on_progress

    def train(self, epoch: int) -> None:
        for piece in self.source.pieces():
            ids, lengths = self.source.thinned(piece)
            if not len(ids):
                continue
            drawn = self.draw(ids, lengths)
            starts = range(0, len(drawn[0]), self.plan.group)
            step = functools.partial(self.step, epoch, piece, drawn)
            run_in_threads(step, starts, self.plan.workers)

    def draw(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cut a thinned-out piece into blocks, and draw their negatives."""
        source, plan = self.source, self.plan
        words, rows = cut_blocks(
            ids,
            lengths,
            plan.block,
            source.settings.window,
            source.generator,
            shuffle=plan.shuffle,
        )
        negatives = source.shared_negatives(len(words), plan.shared, plan.rarely)
        device = self.masks.device
        return words.to(device), rows.to(device), negatives.to(device)

    def step(
        self, epoch: int, piece: Piece, drawn: tuple[Tensor, ...], start: int
    ) -> None:
        """Make one update, with the blocks from `start` on."""
        settings = self.source.settings
        words, rows, negatives = (
            part[start : start + self.plan.group] for part in drawn
        )
        done = piece.before + piece.share * (start / len(drawn[0]))
        progress = (epoch + done) / settings.epochs
        block_step(
            self.run.input,
            self.run.output,
            words,
            F.embedding(rows, self.masks),
            negatives,
            settings.negatives,
            settings.rate(progress),
            midway=self.plan.rarely,
        )
        if self.on_progress is not None:
            self.on_progress(progress)


def run_in_threads(
    step: Callable[[int], None], starts: Sequence[int], workers: int
) -> None:
    """Call a step for each start, shared out among threads that do not wait.

    Torch lets other threads run while it computes. Each of several workers computes
    with one thread of torch; an error or Ctrl-C stops them all after the step at hand.
    """
    if workers == 1:
        for start in starts:
            step(start)
        return
    stop = threading.Event()

    def work(first: int) -> None:
        try:
            for start in starts[first::workers]:
                if stop.is_set():
                    return
                step(start)
        except BaseException:
            stop.set()
            raise

    with _one_thread_each(), ThreadPoolExecutor(workers) as pool:
        try:
            for future in [pool.submit(work, n) for n in range(workers)]:
                future.result()
        finally:
            stop.set()


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
