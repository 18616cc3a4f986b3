"""Gensim and blocks from 5,000 × 100 to 1,000,000 × 300, and a text that streams.

The texts are those of `generated_text`, one epoch each; both trainers read them in the
order of the text, with three seeds. Both have the counts of the whole language, and
start from vectors of the same length, gensim's.
"""

import dataclasses
import gc
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import common, generated_text
from lib.corpus import Vocab
from lib.word2vec import (
    Settings,
    TrainingRun,
    evaluation_examples,
    train_blocks,
    train_gensim,
)

SEEDS = (1, 2, 3)
ROUNDS = 3
PACE_WORDS = 300_000  # of the text, for times and peaks
STREAMED = (10_000_000, 100_000_000, 1_000_000_000)  # bytes
MB = 1e6


@dataclasses.dataclass(frozen=True)
class Size:
    """A vocabulary, a width, and how much of the language is read.

    `shared` is what `train_blocks` chooses for all of the text: times are taken on a
    part of it, for which it would choose more.
    """

    vocabulary: int
    dim: int
    words: int
    shared: int

    def __str__(self) -> str:
        return f"{self.vocabulary:,} × {self.dim}"


SIZES = (
    Size(5_000, 100, 2_000_000, 16),
    Size(200_000, 300, 2_500_000, 16),
    Size(1_000_000, 300, 3_000_000, 32),
)


class GeneratedText:
    """The first words of a language, as words and as ids."""

    def __init__(self, size: Size, vocab: Vocab, words: int):
        self.vocab, self.settings = vocab, Settings(dim=size.dim, epochs=1, start=1)
        rows = generated_text.sentences(vocab.counts, words)
        self.ids = list(rows)
        self.words = [[vocab.words[word] for word in row] for row in rows.tolist()]
        counts = vocab.counts
        self.seen = evaluation_examples(self.ids, counts, self.settings, size=50_000)

    def gensim(self, seed: int = 1, workers: int = 1) -> TrainingRun:
        settings = dataclasses.replace(self.settings, seed=seed)
        return train_gensim(
            self.words, self.vocab, settings, evaluation=self.seen, workers=workers
        )

    def blocks(
        self, seed: int = 1, workers: int = 1, shared: int | None = None
    ) -> TrainingRun:
        settings = dataclasses.replace(self.settings, seed=seed)
        return train_blocks(
            self.ids,
            self.vocab.counts,
            settings,
            shared=shared,
            order="text",
            workers=workers,
            evaluation=self.seen,
        )

    def __len__(self) -> int:
        return sum(map(len, self.ids))


def measure(part: str) -> Iterator[dict]:
    """Measure a part size by size; after each, give all that there is, to be saved."""
    rows = []
    for size in STREAMED if part == "stream" else SIZES:
        rows += PARTS[part](size)
        print(common.table(rows, digits=4), flush=True)
        yield {f"sizes: {part}": rows}


def losses(size: Size) -> list[dict]:
    """Train both ways with three seeds."""
    vocab = generated_text.language(size.vocabulary)
    text = GeneratedText(size, vocab, size.words)
    found = {
        "gensim": [text.gensim(seed).losses[-1] for seed in SEEDS],
        "ours, blocks": [text.blocks(seed).losses[-1] for seed in SEEDS],
    }
    theirs, rows = statistics.mean(found["gensim"]), []
    for way, values in found.items():
        mean = statistics.mean(values)
        row = {"size": str(size), "words": len(text), "way": way}
        row["loss"] = round(mean, 4)
        row["above gensim, %"] = round(100 * (mean / theirs - 1), 2)
        row["seeds"] = [round(value, 4) for value in values]
        rows.append(row)
    return rows


def paces(size: Size) -> list[dict]:
    """Time both ways in turn, with one worker and two, then take their peaks."""
    vocab = generated_text.language(size.vocabulary)
    text = GeneratedText(size, vocab, PACE_WORDS)

    def blocks(workers: int) -> TrainingRun:
        return text.blocks(workers=workers, shared=size.shared)

    ways = {
        "gensim, 1 worker": lambda: text.gensim(workers=1),
        "gensim, 2 workers": lambda: text.gensim(workers=2),
        "ours, blocks": lambda: blocks(1),
        "ours, blocks, 2 workers": lambda: blocks(2),
    }
    found = {name: [] for name in ways}

    def timed(name: str) -> None:
        run = ways[name]()
        found[name].append((sum(run.seconds), sum(run.cpu_seconds)))
        del run
        gc.collect()  # gensim's model and its callback hold each other

    common.interleave({name: lambda n=name: timed(n) for name in ways}, ROUNDS)
    peaks = {
        name: common.peak_extra_bytes(ways[name])
        for name in ("gensim, 1 worker", "ours, blocks")
    }
    pace = {
        name: [
            len(text) / statistics.median(column) for column in zip(*times, strict=True)
        ]
        for name, times in found.items()
    }
    return [
        {
            "size": str(size),
            "way": name,
            "words/s": round(wall),
            "× gensim, s": round(wall / pace[f"gensim, {_workers(name)}"][0], 2),
            "words/CPU s": round(cpu),
            "× gensim, CPU s": round(cpu / pace[f"gensim, {_workers(name)}"][1], 2),
            "peak, MB": round(peaks[name] / MB) if name in peaks else "",
            "rounds, s": [round(wall, 2) for wall, _ in found[name]],
        }
        for name, (wall, cpu) in pace.items()
    ]


def _workers(name: str) -> str:
    return "2 workers" if "2 workers" in name else "1 worker"


def stream(size: int) -> list[dict]:
    """Run the command on a folder of so many bytes; measure its peak of memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = folder / "texts"
        texts.mkdir()
        words = generated_text.write_folder(texts, 200_000, size)
        command = [sys.executable, "-m", "lib.word2vec", texts]
        command += ["--out", folder / "v.kv", "--epochs", "1"]
        command += ["--dim", "50", "--window", "3"]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # of any yet
    row = {"text, MB": round(size / MB), "million words": round(words / 1e6)}
    return [{**row, "peak, MB": round(peak / MB), "s": round(seconds)}]


PARTS = {"pace": paces, "losses": losses, "stream": stream}
