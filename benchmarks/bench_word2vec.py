"""Skip-gram by gensim, autograd and blocks, on one torch thread or two workers.

The King James text, with width 100, window 5, 5 negatives and 5 epochs for all; every
twentieth verse is held out. Gensim and the blocks read the sentences in the order of
the text, autograd shuffles its pairs. Then generated texts with large vocabularies, see
`word2vec_sizes`. Words per second count the words of the text, before subsampling, over
the seconds of the epochs alone, by the clock on the wall and by the processor's, which
hardly minds other programs; the loss is `lib.word2vec.mean_loss` on the same examples
for all.

    python -m benchmarks.bench_word2vec          # all parts, some 40 minutes:
    python -m benchmarks.bench_word2vec verses   # the King James text
    python -m benchmarks.bench_word2vec pace     # times and peaks at each size
    python -m benchmarks.bench_word2vec losses   # three seeds at each size
    python -m benchmarks.bench_word2vec stream   # memory while a text streams by
"""

import dataclasses
import statistics
import sys

import torch
import torch.nn.functional as F

from benchmarks import common, word2vec_sizes
from lib.corpus import Vocab, load_kjv, load_questions_words, load_wordsim353
from lib.geometry import evaluate_analogies, evaluate_similarity
from lib.word2vec import (
    Settings,
    TrainingRun,
    evaluation_examples,
    mean_loss,
    train_autograd,
    train_blocks,
    train_gensim,
)

ROUNDS = 3
BATCH = 1_024  # of autograd; small batches are slower
SETTINGS = Settings()
REFERENCE = "gensim, 1 worker"


class Text:
    """The verses to train on and to measure on, as words and as ids."""

    def __init__(self):
        verses = load_kjv()
        self.vocab = Vocab((word for verse in verses for word in verse), min_count=5)
        self.words = [verse for row, verse in enumerate(verses) if row % 20]
        self.ids = self.vocab.encode_sentences(self.words)
        held_out = self.vocab.encode_sentences(verses[::20])
        counts = self.vocab.counts
        self.seen = evaluation_examples(self.ids, counts, SETTINGS, size=50_000)
        self.unseen = evaluation_examples(held_out, counts, SETTINGS, size=50_000)

    def __len__(self) -> int:
        return sum(map(len, self.ids))


def trainers(text: Text) -> dict:
    """Name → a function of settings that trains on the whole text."""
    ids, counts = text.ids, text.vocab.counts

    def gensim(workers: int):
        return lambda settings: train_gensim(
            text.words, text.vocab, settings, evaluation=text.seen, workers=workers
        )

    def blocks(workers: int, order: str = "text"):
        return lambda settings: train_blocks(
            ids, counts, settings, order=order, workers=workers, evaluation=text.seen
        )

    return {
        REFERENCE: gensim(1),
        "gensim, 2 workers": gensim(2),
        "ours, blocks": blocks(1),
        "ours, blocks, 2 workers": blocks(2),
        "ours, autograd": lambda s: train_autograd(
            ids, counts, s, batch=BATCH, evaluation=text.seen
        ),
    }


def time_all(text: Text, ways: dict) -> tuple[dict[str, list[tuple]], dict]:
    """Train in turn; return the paces of each round, and the last runs.

    Autograd is too slow to train in every round: it reads a tenth of the text once.
    """
    paces: dict[str, list[tuple]] = {name: [] for name in ways}
    runs: dict[str, TrainingRun] = {}
    tenth, counts = text.ids[::10], text.vocab.counts
    once = dataclasses.replace(SETTINGS, epochs=1)

    def whole(name: str) -> None:
        runs[name] = ways[name](SETTINGS)
        paces[name].append(pace(runs[name], len(text) * SETTINGS.epochs))

    def part(name: str) -> None:
        run = train_autograd(tenth, counts, once, batch=BATCH, evaluation=text.seen)
        paces[name].append(pace(run, sum(map(len, tenth))))

    functions = {
        name: lambda name=name: (part if "autograd" in name else whole)(name)
        for name in ways
    }
    common.interleave(functions, ROUNDS)
    return paces, runs


def pace(run: TrainingRun, words: int) -> tuple[int, int]:
    """Words per second, and words per second of processor time."""
    return round(words / sum(run.seconds)), round(words / sum(run.cpu_seconds))


def neighbours(vectors: torch.Tensor, words: int = 2_000, k: int = 10) -> torch.Tensor:
    """The k nearest among all words of each of the most frequent: `[words, k]`."""
    unit = F.normalize(vectors, dim=1)
    cosine = unit[:words] @ unit.T  # [words, V]
    cosine[:, :words].fill_diagonal_(-2)
    return cosine.topk(k).indices


def overlap(a: torch.Tensor, b: torch.Tensor) -> float:
    """The share of the 10 nearest neighbours that two sets have in common."""
    same = neighbours(a)[:, :, None] == neighbours(b)[:, None, :]
    return same.any(dim=2).float().mean().item()


def quality(text: Text, run: TrainingRun, reference: TrainingRun) -> dict:
    """The columns that say what a run's vectors are worth."""
    unseen = mean_loss(run.input, run.output, text.unseen)
    index, family = text.vocab.index, {"family": load_questions_words()["family"]}
    similar = evaluate_similarity(run.input, index, load_wordsim353())
    analogies, _ = evaluate_analogies(run.input, index, family)
    return {
        "loss": round(run.losses[-1], 4),
        "loss, held-out verses": round(unseen, 4),
        "wordsim353": str(similar),
        "family analogies": str(analogies),
        "overlap@10": round(overlap(run.input, reference.input), 3),
    }


def table_rows(text: Text, paces: dict, runs: dict) -> list[dict]:
    """One row a way of training: its speed, where it was timed, and its quality."""
    columns = {name: zip(*rounds, strict=True) for name, rounds in paces.items()}
    middle = {name: [*map(statistics.median, both)] for name, both in columns.items()}
    rows = []
    for name, run in runs.items():
        row: dict[str, object] = {"way": name}
        for i, unit in enumerate(("s", "CPU s")):
            timed = name in middle
            row[f"words/{unit}"] = middle[name][i] if timed else ""
            ratio = round(middle[name][i] / middle[REFERENCE][i], 2) if timed else ""
            row[f"× gensim, {unit}"] = ratio
        rows.append({**row, **quality(text, run, runs[REFERENCE])})
    return rows


def king_james() -> dict:
    """Time all ways in turn on the King James text, and judge their vectors."""
    text = Text()
    ways = trainers(text)
    paces, runs = time_all(text, ways)
    runs["ours, autograd"] = ways["ours, autograd"](SETTINGS)
    another = dataclasses.replace(SETTINGS, seed=2)
    runs[f"{REFERENCE}, another seed"] = ways[REFERENCE](another)
    runs["ours, blocks, shuffled"] = train_blocks(
        text.ids, text.vocab.counts, SETTINGS, evaluation=text.seen
    )
    rows = table_rows(text, paces, runs)
    print(common.table(rows, digits=4))
    return {
        "text": {"words": len(text), "vocabulary": len(text.vocab), "rounds": ROUNDS},
        "settings": dataclasses.asdict(SETTINGS),
        "rows": rows,
        "rounds: words per second, per CPU second": paces,
    }


def main(parts: list[str]) -> None:
    """Run the parts, print their tables, and save them with what is there already."""
    torch.set_num_threads(1)
    path = common.RESULTS / "word2vec.json"
    payload = common.load("word2vec") if path.exists() else {}
    for part in parts or ["verses", *word2vec_sizes.PARTS]:
        found = [king_james()] if part == "verses" else word2vec_sizes.measure(part)
        for columns in found:
            payload |= columns
            payload["machine"] = common.machine("gensim", "numpy", "scipy")
            print(f"saved to {common.save('word2vec', payload)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
