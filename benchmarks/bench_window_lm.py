"""What a tie gains and costs: small models of four words, tied and untied.

`python -m benchmarks.bench_window_lm` trains them and saves `results/window_lm.json`,
from which chapter 15 reads. Some five minutes on one processor core.
"""

import statistics

import torch
from torch import Tensor

from benchmarks.common import save, table
from lib.corpus import Vocab, load_kjv
from lib.geometry import unit_rows
from lib.tied_head import TiedLMHead, count_parameters
from lib.window_lm import WindowLM, train

WIDTH, EVERY, WORDS = 64, 60, 300
GENESIS = {"verses": 1_533, "min_count": 2, "steps": 600, "seeds": 5}
MORE = {"verses": 6_000, "min_count": 3, "steps": 1_200, "seeds": 3}
STARTS = ((0.02, 1.0), (1 / WIDTH, 1.0), (WIDTH**-0.5, 1.0), (1.0, 1.0), (1.0, 0.125))


class Text:
    """Windows of five words from the first verses; the last tenth is held out."""

    def __init__(self, verses: int, min_count: int, steps: int, seeds: int):
        words = [word for verse in load_kjv()[:verses] for word in verse]
        vocab = Vocab(words, min_count=min_count)
        self.ids = vocab.encode([word for word in words if word in vocab])
        windows = self.ids.unfold(0, 5, 1)
        self.seen, held_out = windows.tensor_split([len(windows) * 9 // 10])
        self.held_out, self.vocab = held_out[:5_000], len(vocab)
        self.steps, self.seeds = steps, range(seeds)

    def kinds(self) -> dict[str, tuple[int, bool]]:
        """Width and tie of the three; the narrower is no larger than the tied one."""
        narrow, target = WIDTH, count_parameters(WindowLM(self.vocab, WIDTH))
        while count_parameters(WindowLM(self.vocab, narrow, tied=False)) > target:
            narrow -= 1
        untied = {"untied": (WIDTH, False), "untied, narrower": (narrow, False)}
        return {"tied": (WIDTH, True), **untied}

    def run(self, width, tied, seed, steps=None, std=0.02, scale=1.0):
        """Train one model: the model, and its held-out loss every 60 steps."""
        torch.manual_seed(seed)
        model = WindowLM(self.vocab, width, tied=tied, std=std)
        if scale != 1.0:
            model.head = TiedLMHead(model.table, scale=scale)
        batches = torch.Generator().manual_seed(seed)
        steps = self.steps if steps is None else steps
        data = self.seen, self.held_out, steps, batches
        losses = train(model, *data, every=EVERY)
        return model, [round(loss, 4) for loss in losses]


def race(text: Text) -> dict:
    """Losses of the three kinds over all seeds."""
    kinds = text.kinds()
    return {
        "words": len(text.ids),
        "vocabulary": text.vocab,
        "width": {kind: width for kind, (width, _) in kinds.items()},
        "parameters": {
            kind: count_parameters(WindowLM(text.vocab, width, tied=tied))
            for kind, (width, tied) in kinds.items()
        },
        "losses": {
            kind: [text.run(*both, seed)[1] for seed in text.seeds]
            for kind, both in kinds.items()
        },
    }


def pair_cosines(rows: Tensor, counts: Tensor, without_frequency: bool) -> Tensor:
    """Cosine of every two rows, with or without what log-frequency predicts of them."""
    if without_frequency:
        known = torch.stack([torch.ones(len(rows)), counts.log()], 1)
        rows = rows - known @ torch.linalg.lstsq(known, rows).solution
    units = unit_rows(rows)
    first, second = torch.triu_indices(len(rows), len(rows), 1)
    return (units @ units.T)[first, second]


def structure(text: Text, steps: int = 300, seeds: int = 3) -> dict:
    """Correlate the cosines of two tables, always of two seeds: nothing is shared."""
    tables: dict[str, list[Tensor]] = {"tied": [], "head": [], "input": []}
    for seed in range(seeds):
        tied, _ = text.run(WIDTH, True, seed, steps)
        untied, _ = text.run(WIDTH, False, seed, steps)
        tables["tied"].append(tied.table.weight.detach()[:WORDS])
        tables["head"].append(untied.head.weight.detach()[:WORDS])
        tables["input"].append(untied.table.weight.detach()[:WORDS])
    torch.manual_seed(seeds)
    tables["untrained"] = [torch.randn(WORDS, WIDTH) for _ in range(seeds)]
    counts = text.ids.bincount()[:WORDS].float()
    found: dict[str, object] = {"words": WORDS, "steps": steps}
    for name, without in (("as they are", False), ("without frequency", True)):
        cosines = {
            kind: [pair_cosines(rows, counts, without) for rows in some]
            for kind, some in tables.items()
        }
        found[name] = correlations(cosines)
    return found


def correlations(cosines: dict[str, list[Tensor]]) -> dict[str, list[float]]:
    """Pearson's correlation for each two kinds, over each two seeds."""
    kinds, found = list(cosines), {}
    for place, a in enumerate(kinds):
        for b in kinds[place:]:
            values = [
                torch.corrcoef(torch.stack([x, y]))[0, 1].item()
                for i, x in enumerate(cosines[a])
                for j, y in enumerate(cosines[b])
                if (i < j if a == b else i != j)
            ]
            found[f"{a} and {b}"] = [round(value, 3) for value in values]
    return found


def spread(named: dict[str, list[float]]) -> str:
    """One row a name: the mean, the lowest and the highest."""
    rows = [
        {"": name, "mean": statistics.fmean(v), "lowest": min(v), "highest": max(v)}
        for name, v in named.items()
    ]
    return table(rows)


def main() -> None:
    genesis = Text(**GENESIS)
    races = {"Genesis": race(genesis), "more text": race(Text(**MORE))}
    for name, found in races.items():
        losses = found["losses"].items()
        print(f"{name}, best\n{spread({k: [min(x) for x in v] for k, v in losses})}\n")
        print(f"{name}, end\n{spread({k: [x[-1] for x in v] for k, v in losses})}\n")
    starts = [
        {
            "std": std,
            "scale": scale,
            "losses": [
                genesis.run(WIDTH, True, seed, std=std, scale=scale)[1]
                for seed in range(3)
            ],
        }
        for std, scale in STARTS
    ]
    print(table([{**s, "losses": [x[-1] for x in s["losses"]]} for s in starts]))
    alike = structure(genesis)
    for name in ("as they are", "without frequency"):
        print(f"\n{name}\n{spread(alike[name])}")
    payload = {"every": EVERY, "race": races, "starts": starts, "structure": alike}
    print(save("window_lm", payload))


if __name__ == "__main__":
    main()
