"""What `python -m lib.word2vec` does: read a folder, train, save, say how it goes."""

import argparse
import dataclasses
import pathlib
import sys
import tempfile
from typing import NoReturn

from lib.word2vec.block_trainer import train_blocks
from lib.word2vec.folder import FolderText, StoredText
from lib.word2vec.progress import Progress
from lib.word2vec.saving import check_suffix, save_vectors
from lib.word2vec.settings import WORD2VEC, Settings
from lib.word2vec.training import TrainingRun
from lib.word2vec.with_gensim import train_gensim
from lib.word_page import write_page

NAME = "python -m lib.word2vec"
ABOUT = """\
Train word vectors on the text files of a folder and all below it. A line is a
sentence; it is cut into lower-case words of letters, and apostrophes inside them;
digits and punctuation are dropped. Skip-gram is trained in blocks, CBOW by gensim.
Memory does not grow with the length of the text: while the command runs, a file in the
temporary folder (TMPDIR) holds four bytes a word.
Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C, which leaves the vectors of
the last whole epoch."""
BAD_INPUT, STOPPED = 2, 130
SHOWN = 20_000  # words on the page, the most frequent


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{NAME}: {' '.join(message.split())}\n")


def parser() -> OneLineParser:
    """Build the options of the command."""
    parsed = OneLineParser(
        prog=NAME,
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parsed.add_argument
    add("folder", type=pathlib.Path, help="folder of text files")
    add("--out", type=pathlib.Path, required=True, metavar="FILE",
        help="where the vectors go: .kv for gensim's KeyedVectors.load, .txt or .bin "
        "for word2vec's formats")  # fmt: skip
    for field in dataclasses.fields(Settings):
        default = getattr(WORD2VEC, field.name)
        name = "--" + field.name.replace("_", "-")
        more = {"choices": CHOICES} if field.name == "architecture" else {}
        add(name, type=type(default), default=default, help=HELP[field.name], **more)
    add("--min-count", type=int, default=5, metavar="N",
        help="leave out words that occur less often (5)")  # fmt: skip
    add("--workers", type=int, default=1, metavar="N",
        help="threads (1); with more, no two runs are alike")  # fmt: skip
    add("--encoding", default="utf-8", help="of the files (utf-8)")
    add("--page", type=pathlib.Path, metavar="FILE",
        help="write a page to explore the vectors offline")  # fmt: skip
    return parsed


CHOICES = ("skipgram", "cbow")
HELP = {
    "dim": "width of a vector (100)",
    "window": "furthest neighbour on each side (5)",
    "negatives": "noise words for each pair (5)",
    "epochs": "passes over the text (5)",
    "lr": "learning rate at the start (0.025)",
    "min_lr": "and at the end (0.0001)",
    "sample": "thin out words whose share of the text is above 2.6 times this (0.001); "
    "0 keeps all",
    "power": "exponent of the noise (0.75)",
    "architecture": "skipgram or cbow (skipgram)",
    "seed": "the source of chance (1)",
    "start": "first vectors are within ± this / dim (0.5)",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: what follows the command's name; `sys.argv` if None.

    Returns:
        The exit status: 0, 2 for bad input with one line on stderr, 130 after Ctrl-C.
    """
    options = parser().parse_args(arguments)
    progress = Progress(sys.stderr)
    try:
        _train(options, progress)
    except KeyboardInterrupt:
        saved = progress.saved
        kept = f"{options.out} has epoch {saved}" if saved else "nothing was saved"
        progress.say(f"{NAME}: stopped, {kept}")
        return STOPPED
    except (OSError, ArithmeticError, ImportError, LookupError, ValueError) as error:
        progress.say(f"{NAME}: {_one_line(error)}")
        return BAD_INPUT
    return 0


def _one_line(error: Exception) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) else str(error)
    return " ".join(text.split())


def _train(options: argparse.Namespace, progress: Progress) -> None:
    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: getattr(options, name) for name in names})
    _check(options)
    text = FolderText(options.folder, options.encoding)
    with tempfile.TemporaryDirectory(prefix="word2vec-") as folder:
        progress.say(f"reading {len(text.files)} files")
        stored = StoredText(text, pathlib.Path(folder, "ids"), options.min_count)
        vocab = stored.vocab
        if len(vocab) < 2:
            raise ValueError(f"too few words: {vocab.words[0]!r} is the only one")
        words = int(vocab.counts.sum())
        progress.say(f"{words:,} words, {len(vocab):,} different")
        progress.begin(words, settings.epochs)

        def keep(run: TrainingRun) -> None:
            save_vectors(options.out, vocab.words, run.input, vocab.counts)
            progress.epoch(run.losses[-1], run.seconds[-1])

        run = _run(stored, settings, options.workers, progress, keep)
    if options.page:
        shown = vocab.words[:SHOWN]
        title = f"Words of {options.folder.resolve().name}"
        write_page(options.page, shown, run.input[: len(shown)].cpu(), title=title)


def _check(options: argparse.Namespace) -> None:
    """Complain of what would otherwise fail after the training."""
    check_suffix(options.out)
    for path in (options.out, options.page):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {path.parent}")
    if options.workers < 1:
        raise ValueError(f"workers must be at least 1, got {options.workers}")


def _run(
    stored: StoredText, settings: Settings, workers: int, progress: Progress, keep
) -> TrainingRun:
    if settings.architecture == "cbow":
        spelled, vocab = stored.spelled(), stored.vocab
        return train_gensim(spelled, vocab, settings, workers=workers, checkpoint=keep)
    return train_blocks(
        stored,
        stored.vocab.counts,
        settings,
        workers=workers,
        device="cpu",
        on_progress=progress.show,
        checkpoint=keep,
    )
