"""Skip-gram on the King James text: gensim, autograd and blocks, on one torch thread.

Every trainer has the same settings (width 100, window 5, 5 negatives, 5 epochs) and the
same sentences; every twentieth verse is held out. Words per second count the words of
the text, before subsampling, over the seconds of the epochs alone; the loss is
`lib.word2vec.mean_loss` on the same examples for all.

    python -m benchmarks.bench_word2vec          # about five minutes
"""

import dataclasses
import statistics

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr

from benchmarks import common
from lib.corpus import Vocab, load_kjv, load_wordsim353
from lib.word2vec import (
    Settings,
    TrainingRun,
    evaluation_examples,
    mean_loss,
    train_autograd,
    train_blocks,
    train_gensim,
)

ROUNDS = 5
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

    return {
        REFERENCE: gensim(1),
        "gensim, 2 workers": gensim(2),
        "ours, blocks": lambda s: train_blocks(ids, counts, s, evaluation=text.seen),
        "ours, autograd": lambda s: train_autograd(
            ids, counts, s, evaluation=text.seen
        ),
    }


def time_all(text: Text, ways: dict) -> tuple[dict[str, list[float]], dict]:
    """Train in turn; return words per second of each round, and the last runs.

    Autograd is too slow to train in every round: it reads a tenth of the text once.
    """
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    runs: dict[str, TrainingRun] = {}
    tenth = text.ids[::10]
    once = dataclasses.replace(SETTINGS, epochs=1)

    def whole(name: str) -> None:
        runs[name] = ways[name](SETTINGS)
        words = len(text) * SETTINGS.epochs
        speeds[name].append(words / sum(runs[name].seconds))

    def part(name: str) -> None:
        counts = text.vocab.counts
        run = train_autograd(tenth, counts, once, batch=BATCH, evaluation=text.seen)
        speeds[name].append(sum(map(len, tenth)) / sum(run.seconds))

    functions = {
        name: lambda name=name: (part if "autograd" in name else whole)(name)
        for name in ways
    }
    common.interleave(functions, ROUNDS)
    return speeds, runs


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


def wordsim(vectors: torch.Tensor, vocab: Vocab) -> tuple[float, int]:
    """Spearman's correlation with wordsim353, and how many of its pairs are covered."""
    rows = [row for row in load_wordsim353() if row[0] in vocab and row[1] in vocab]
    a, b = (vectors[vocab.encode([row[i] for row in rows])] for i in (0, 1))
    found = F.cosine_similarity(a, b).tolist()
    return float(spearmanr(found, [score for *_, score in rows]).statistic), len(rows)


def quality(text: Text, run: TrainingRun, reference: TrainingRun) -> dict:
    """The columns that say what a run's vectors are worth."""
    correlation, covered = wordsim(run.input, text.vocab)
    return {
        "loss": round(run.losses[-1], 4),
        "loss, held-out verses": round(
            mean_loss(run.input, run.output, text.unseen), 4
        ),
        "wordsim353": round(correlation, 3),
        "of its 353 pairs": covered,
        "overlap@10": round(overlap(run.input, reference.input), 3),
    }


def table_rows(text: Text, speeds: dict, runs: dict) -> list[dict]:
    """One row a way of training: its speed, where it was timed, and its quality."""
    pace = {name: statistics.median(rounds) for name, rounds in speeds.items()}
    rows = []
    for name, run in runs.items():
        speed = {"words/s": "", "× gensim": ""}
        if name in pace:
            ratio = pace[name] / pace[REFERENCE]
            speed = {"words/s": round(pace[name]), "× gensim": round(ratio, 2)}
        rows.append({"way": name, **speed, **quality(text, run, runs[REFERENCE])})
    return rows


def main() -> None:
    """Run, print the table and save it."""
    torch.set_num_threads(1)
    text = Text()
    ways = trainers(text)
    speeds, runs = time_all(text, ways)
    runs["ours, autograd"] = ways["ours, autograd"](SETTINGS)
    another = dataclasses.replace(SETTINGS, seed=2)
    runs[f"{REFERENCE}, another seed"] = ways[REFERENCE](another)
    rows = table_rows(text, speeds, runs)
    print(common.table(rows, digits=4))
    payload = {
        "machine": common.machine("gensim", "numpy", "scipy"),
        "text": {"words": len(text), "vocabulary": len(text.vocab), "rounds": ROUNDS},
        "settings": dataclasses.asdict(SETTINGS),
        "rows": rows,
        "words_per_second": {n: [round(x) for x in xs] for n, xs in speeds.items()},
    }
    print(f"saved to {common.save('word2vec', payload)}")


if __name__ == "__main__":
    main()
