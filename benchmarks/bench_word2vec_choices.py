"""What word2vec's choices are worth on the King James text: ten seeds for each.

Every way trains width 50 in three passes over the same shuffled verses, as chapter 3
does, with one thing changed. A change that makes more examples of a pass is taken a
second time with about as many examples. The vectors are asked three public tests, each
on the words that the text has: WordSim-353 and SimLex-999 (Spearman's correlation) and
the analogies of questions-words (the share answered right, inputs left out), the family
section apart from those on grammar. The loss is `lib.word2vec.mean_loss`, for ways that
share its examples alone.

The vectors of the published choices are asked more: single analogies with and without
the offset, and how often WordNet's opposites and words alike are neighbours.

    python -m benchmarks.bench_word2vec_choices          # about eight minutes
"""

import dataclasses
import itertools
import statistics

import torch

from benchmarks import common
from lib.corpus import (
    Vocab,
    load_kjv,
    load_questions_words,
    load_simlex999,
    load_word_pairs,
    load_wordsim353,
)
from lib.geometry import evaluate_analogies, evaluate_similarity, unit_rows
from lib.word2vec import (
    Settings,
    TrainingRun,
    evaluation_examples,
    train_blocks,
    train_gensim,
)

SEEDS = range(1, 11)
SETTINGS = Settings(dim=50, epochs=3)
QUESTIONS = [
    "man he woman she",
    "man king woman queen",
    "day night light darkness",
    "egypt pharaoh babylon nebuchadnezzar",
    "husband wife man woman",
]
ASKED = {  # what of "a is to b as c is to …" is looked near to, and with inputs out
    "b − a + c": (lambda a, b, c: b - a + c, True),
    "b + c": (lambda a, b, c: b + c, True),
    "b alone": (lambda a, b, c: b, True),
    "c alone": (lambda a, b, c: c, True),
    "b − a + c, inputs kept": (lambda a, b, c: b - a + c, False),
}
FREQUENT = 50  # occurrences of a word
CBOW = {"architecture": "cbow"}
BLOCKS = {  # trained by our blocks
    "as published": {},
    "no thinning": {"sample": 0},
    "no thinning, 2 passes": {"sample": 0, "epochs": 2},
    "power 1": {"power": 1},
    "power 0": {"power": 0},
    "window 1": {"window": 1},
    "window 1, 5 passes": {"window": 1, "epochs": 5},
    "window 10": {"window": 10},
}
GENSIM = {
    "gensim": {},
    "gensim, verses in order": {},
    "gensim, CBOW": CBOW,
    "gensim, CBOW, rate 0.05": {**CBOW, "lr": 0.05},  # where word2vec.c starts CBOW
}


class Text:
    """The verses, shuffled once and as they stand, and the tests that they allow."""

    def __init__(self):
        self.in_order = load_kjv()
        chance = torch.Generator().manual_seed(0)
        order = torch.randperm(len(self.in_order), generator=chance)
        self.verses = [self.in_order[i] for i in order]
        self.vocab = Vocab((word for verse in self.verses for word in verse), 5)
        self.ids = self.vocab.encode_sentences(self.verses)
        self.seen = evaluation_examples(self.ids, self.vocab.counts, SETTINGS)
        self.words = load_wordsim353(), load_simlex999()
        self.questions = load_questions_words()


def train(text: Text, way: str, seed: int) -> TrainingRun:
    """Train one way once."""
    changes = {**BLOCKS, **GENSIM}[way]
    settings = dataclasses.replace(SETTINGS, **changes, seed=seed)
    evaluation = None if changes else text.seen
    if way in BLOCKS:
        counts = text.vocab.counts
        return train_blocks(text.ids, counts, settings, evaluation=evaluation)
    verses = text.in_order if "in order" in way else text.verses
    return train_gensim(verses, text.vocab, settings, evaluation=evaluation)


def scores(text: Text, run: TrainingRun) -> dict[str, float]:
    """Ask the tests."""
    index = text.vocab.index
    similar = [evaluate_similarity(run.input, index, words) for words in text.words]
    family = {"family": text.questions["family"]}
    grammar = {name: q for name, q in text.questions.items() if name[:4] == "gram"}
    analogies = [evaluate_analogies(run.input, index, q)[0] for q in (family, grammar)]
    names = ("wordsim353", "simlex999", "family", "grammar")
    asked = zip(names, [*similar, *analogies], strict=True)
    return {name: round(score.value, 4) for name, score in asked}


def nearest(vectors: torch.Tensor, words: int = 2_000, k: int = 10) -> torch.Tensor:
    """The k nearest among all words of each of the most frequent: `[words, k]`."""
    unit = unit_rows(vectors)
    cosine = unit[:words] @ unit.T  # [words, V]
    cosine[:, :words].fill_diagonal_(-2)
    return cosine.topk(k).indices


def shared(runs: list[torch.Tensor]) -> float:
    """The share of ten nearest neighbours that two seeds agree on, over all pairs."""
    lists = [nearest(vectors) for vectors in runs]
    pairs = itertools.combinations(lists, 2)
    same = [(a[:, :, None] == b[:, None, :]).any(2).float().mean() for a, b in pairs]
    return round(torch.stack(same).mean().item(), 4)


def ranks(vectors: torch.Tensor, rows: torch.Tensor, way: str) -> torch.Tensor:
    """At which place the answers of questions `[Q, 4]` come, asked one way: `[Q]`."""
    query, leave_out = ASKED[way]
    unit = unit_rows(vectors)
    a, b, c, _ = unit[rows].unbind(1)
    cosine = query(a, b, c) @ unit.T  # [Q, V]
    if leave_out:
        cosine.scatter_(1, rows[:, :3], -torch.inf)
    return (cosine >= cosine.gather(1, rows[:, 3:])).sum(1)


def ask_analogies(text: Text, tables: list[torch.Tensor]) -> dict:
    """Ranks of single answers, and the share of the family section, a seed an entry."""
    vocab = text.vocab
    single = torch.stack([vocab.encode(question.split()) for question in QUESTIONS])
    family = [q for q in text.questions["family"] if all(w in vocab for w in q)]
    section = torch.stack([vocab.encode(question) for question in family])
    found: dict[str, dict] = {"ranks": {q: {} for q in QUESTIONS}, "family": {}}
    for way in ASKED:
        places = torch.stack([ranks(v, single, way) for v in tables], dim=1)  # [Q, S]
        for question, row in zip(QUESTIONS, places.tolist(), strict=True):
            found["ranks"][question][way] = row
        first = [(ranks(v, section, way) == 1).float().mean().item() for v in tables]
        found["family"][way] = [round(share, 4) for share in first]
    return found


def ask_relations(text: Text, tables: list[torch.Tensor]) -> list[dict]:
    """How often one of two related words is among the other's ten nearest."""
    rows, vocab = [], text.vocab
    for relation in ("antonyms", "synonyms"):
        known = [p for p in load_word_pairs(relation) if all(w in vocab for w in p)]
        pairs = torch.stack([vocab.encode(pair) for pair in known])  # [n, 2]
        for least in (1, FREQUENT):
            some = pairs[(vocab.counts[pairs] >= least).all(1)]
            near = [near_share(vectors, some) for vectors in tables]
            row = {"relation": relation, "least": least, "pairs": len(some)}
            rows.append({**row, "near": near})
    return rows


def near_share(vectors: torch.Tensor, pairs: torch.Tensor, k: int = 10) -> float:
    """The share of pairs `[n, 2]` with one among the k nearest of the other."""
    unit = unit_rows(vectors)
    near = torch.zeros(len(pairs), dtype=torch.bool)
    for word, other in (pairs.unbind(1), pairs.flip(1).unbind(1)):
        cosine = (unit[word] @ unit.T).scatter(1, word[:, None], -torch.inf)
        place = (cosine >= cosine.gather(1, other[:, None])).sum(1)
        near |= place <= k
    return round(near.float().mean().item(), 4)


def measure(text: Text, way: str) -> dict:
    """Train one way from every seed; one row: a list of each score, a seed an entry."""
    row: dict[str, object] = {"way": way, "changes": {**BLOCKS, **GENSIM}[way]}
    lists: dict[str, list[float]] = {}
    tables = []
    for seed in SEEDS:
        run = train(text, way, seed)
        found = {"loss": round(run.losses[-1], 4), **scores(text, run)}
        tables.append(run.input.cpu())
        for name, value in found.items():
            lists.setdefault(name, []).append(value)
    if row["changes"]:
        del lists["loss"]  # measured on other examples
    print(way, {k: statistics.mean(v) for k, v in lists.items()}, flush=True)
    row |= {"shared neighbours": shared(tables), "scores": lists}
    if way == "as published":
        row["analogies"] = ask_analogies(text, tables)
        row["relations"] = ask_relations(text, tables)
    return row


def covered(text: Text) -> dict[str, int]:
    """How many items of each test have all their words in the text."""
    index, blank = text.vocab.index, torch.eye(len(text.vocab), 2)
    counts = [evaluate_similarity(blank, index, words).covered for words in text.words]
    _, parts = evaluate_analogies(blank, index, text.questions)
    grammar = sum(part.covered for name, part in parts.items() if name[:4] == "gram")
    names = ("wordsim353", "simlex999", "family", "grammar")
    return dict(zip(names, [*counts, parts["family"].covered, grammar], strict=True))


def main() -> None:
    """Train, ask and save."""
    torch.set_num_threads(1)
    text = Text()
    payload = {
        "machine": common.machine("gensim", "numpy", "scipy"),
        "settings": dataclasses.asdict(SETTINGS),
        "seeds": list(SEEDS),
        "covered": covered(text),
        "rows": [measure(text, way) for way in (*BLOCKS, *GENSIM)],
    }
    print(f"saved to {common.save('word2vec_choices', payload)}")


if __name__ == "__main__":
    main()
