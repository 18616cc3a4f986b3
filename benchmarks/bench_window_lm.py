"""What a tie gains and costs: small models of four words, tied and untied.

`python -m benchmarks.bench_window_lm` trains them and saves `results/window_lm.json`,
from which chapter 15 reads. Some fifteen minutes on one processor core.
"""

import statistics

import torch
from torch import Tensor, nn

from benchmarks.common import save, table
from lib.corpus import Vocab, load_kjv
from lib.geometry import unit_rows
from lib.tied_head import TiedLMHead, count_parameters
from lib.window_lm import WindowLM, train

WIDTH, EVERY, WORDS = 64, 60, 300
STEPS, SEEDS = 600, 3  # of the starts; the races run longer, until each loss rises
ONE, OWN = {"std": 1.0}, {"std": 1.0, "tied": False}
STARTS = {
    "0.02": {},
    "0.125": {"std": 0.125},
    "0.25": {"std": 0.25},
    "0.5": {"std": 0.5},
    "1": ONE,
    "1, head times 1/8": {**ONE, "scale": 0.125},
    "1, own head, copied": OWN,
    "1, own head, drawn anew": {**OWN, "head_std": 1.0},
    "1, own head of 0.02": {**OWN, "head_std": 0.02},
}
WIDE = {"1/576": 1 / 576, "0.02": 0.02, "1/24": 1 / 24}  # width 576


class Text:
    """Windows of five words from the first verses; the last tenth is held out."""

    def __init__(self, verses: int, min_count: int):
        words = [word for verse in load_kjv()[:verses] for word in verse]
        vocab = Vocab(words, min_count=min_count)
        self.ids = vocab.encode([word for word in words if word in vocab])
        windows = self.ids.unfold(0, 5, 1)
        self.seen, held_out = windows.tensor_split([len(windows) * 9 // 10])
        self.held_out, self.vocab = held_out[:5_000], len(vocab)

    def size(self, width: int, tied: bool) -> int:
        """Parameters of a model."""
        return count_parameters(WindowLM(self.vocab, width, tied=tied))

    def narrower(self) -> int:
        """The width at which an untied model is no larger than the tied one."""
        width, target = WIDTH, self.size(WIDTH, True)
        while self.size(width, False) > target:
            width -= 1
        return width

    def run(
        self,
        seed: int,
        steps: int,
        width: int = WIDTH,
        tied: bool = True,
        std: float = 0.02,
        scale: float = 1.0,
        head_std: float | None = None,
        lr: float = 3e-3,
        every: int = EVERY,
    ) -> tuple[WindowLM, list[float]]:
        """Train one model: the model, and its held-out loss now and then."""
        torch.manual_seed(seed)
        model = WindowLM(self.vocab, width, tied=tied, std=std)
        if scale != 1.0:
            model.head = TiedLMHead(model.table, scale=scale)
        if head_std is not None:  # a head of its own, which is no copy of the table
            nn.init.normal_(model.head.weight, std=head_std)
        batches = torch.Generator().manual_seed(seed)
        data = self.seen, self.held_out, steps, batches
        losses = train(model, *data, every=every, lr=lr)
        return model, [round(loss, 4) for loss in losses]

    def losses(self, seeds: int, steps: int, **options) -> list[list[float]]:
        """Held-out losses of one kind of model, a list for each seed."""
        found = [self.run(seed, steps, **options)[1] for seed in range(seeds)]
        print(options, *(f"{min(x)} {x[-1]}" for x in found), sep="\n  ", flush=True)
        return found


def race(text: Text, seeds: int, tied: int, untied: int, *explain: int) -> dict:
    """Losses of tied and untied models; tied ones of more widths with three seeds."""
    both = [(w, t, seeds) for w in (WIDTH, text.narrower()) for t in (True, False)]
    found = {}
    for width, is_tied, runs in (*both, *((w, True, SEEDS) for w in explain)):
        steps = tied if is_tied else untied
        found[f"{'tied' if is_tied else 'untied'} {width}"] = {
            "width": width,
            "tied": is_tied,
            "parameters": text.size(width, is_tied),
            "losses": text.losses(runs, steps, width=width, tied=is_tied),
        }
    return {"words": len(text.ids), "vocabulary": text.vocab, "models": found}


def starts(text: Text) -> dict:
    """Losses of width 64 from nine starts, and of width 576 from three."""
    wide = {"width": 576, "lr": 1e-3, "every": 120}
    return {
        "64": {name: text.losses(SEEDS, STEPS, **how) for name, how in STARTS.items()},
        "576": {
            name: text.losses(SEEDS, 120, std=std, **wide) for name, std in WIDE.items()
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
        tied, _ = text.run(seed, steps)
        untied, _ = text.run(seed, steps, tied=False)
        tables["tied"].append(tied.table.weight.detach()[:WORDS])
        tables["head"].append(untied.head.weight.detach()[:WORDS])
        tables["input"].append(untied.table.weight.detach()[:WORDS])
    torch.manual_seed(seeds)
    tables["random"] = [torch.randn(WORDS, WIDTH) for _ in range(seeds)]
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
    genesis, more = Text(verses=1_533, min_count=2), Text(verses=6_000, min_count=3)
    races = {
        "Genesis": race(genesis, 5, 1_200, 1_200, 32),
        "more text": race(more, SEEDS, 3_600, 2_400),
    }
    for name, found in races.items():
        best = {k: [min(x) for x in m["losses"]] for k, m in found["models"].items()}
        print(f"\n{name}, best\n{spread(best)}")
    begun = starts(genesis)
    for width, runs in begun.items():
        ends = {name: [x[-1] for x in losses] for name, losses in runs.items()}
        print(f"\nstarts, width {width}, end\n{spread(ends)}")
    alike = structure(genesis)
    for name in ("as they are", "without frequency"):
        print(f"\n{name}\n{spread(alike[name])}")
    payload = {"every": EVERY, "race": races, "starts": begun, "structure": alike}
    print(save("window_lm", payload))


if __name__ == "__main__":
    main()
