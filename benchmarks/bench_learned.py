"""What a learned table is worth, and what lies past its end: chapter 9's small model.

Five seeds train it with its table learned, and with the table held at noise of several
widths. Then the learned ones read held-out pieces of twice the trained length.

    python -m benchmarks.bench_learned           # some five minutes on one core
"""

import statistics

import torch
from torch import Tensor, nn

from benchmarks.common import machine, save, table
from lib.corpus import load_kjv
from lib.table_lm import TableLM, loss_of, random_pieces, train

SEEDS, STEPS, LENGTH, LAST = range(5), 400, 64, 50
HELD = (0.02, 0.1, 0.3, 1.0)  # standard deviations of a table that does not learn


class Text:
    """Characters of the first 3,000 verses; the last tenth is held out."""

    def __init__(self):
        text = " ".join(" ".join(verse) for verse in load_kjv()[:3000])
        letters = sorted(set(text))
        ids = torch.tensor([letters.index(letter) for letter in text])
        self.seen, self.held_out = ids.tensor_split([len(ids) * 9 // 10])
        self.vocab = len(letters)

    def run(self, seed: int, held: float | None = None) -> tuple[TableLM, float]:
        """Train one model; its loss is the mean over the last fifty steps."""
        torch.manual_seed(seed)
        model = TableLM(self.vocab, LENGTH)
        if held is not None:
            nn.init.normal_(model.places.weight, std=held)
            model.places.requires_grad_(False)
        losses = train(model, self.seen, STEPS, torch.Generator().manual_seed(seed))
        return model, statistics.mean(losses[-LAST:])


@torch.no_grad()
def past_the_end(model: TableLM, pieces: Tensor, counts: Tensor) -> dict[str, float]:
    """Losses on the second half of pieces of 128, by the ways around the end."""
    positions = torch.arange(2 * LENGTH)
    query, key = positions[:, None], positions[None, :]
    future = (query >= LENGTH) & (key < LENGTH) & (key > query - LENGTH)
    allowed = (~future).expand(len(pieces), -1, -1)
    wrapped = positions % LENGTH
    losses = {
        "clamp": loss_of(model, pieces, positions.clamp(max=LENGTH - 1)),
        "wrap": loss_of(model, pieces, wrapped),
        "wrap, later rows hidden": loss_of(model, pieces, wrapped, allowed),
    }
    found = {way: loss[:, LENGTH:].mean().item() for way, loss in losses.items()}
    found["inside"] = losses["wrap"][:, :LENGTH].mean().item()
    found["afresh"] = (
        loss_of(model, pieces[:, LENGTH:], positions[:LENGTH]).mean().item()
    )
    shares = counts / counts.sum()
    found["letters alone"] = -shares.log()[pieces[:, LENGTH + 1 :]].mean().item()
    return found


def main() -> None:
    """Train, print and save."""
    torch.set_num_threads(1)
    text = Text()
    generator = torch.Generator().manual_seed(0)
    pieces = random_pieces(text.held_out, 400, 2 * LENGTH, generator)
    counts = torch.bincount(text.seen, minlength=text.vocab).float()
    losses: dict[str, list[float]] = {"learned": []}
    past, widths = [], []
    for seed in SEEDS:
        model, loss = text.run(seed)
        losses["learned"].append(round(loss, 4))
        widths.append(
            [round(t.weight.std().item(), 4) for t in (model.places, model.letters)]
        )
        past.append(
            {k: round(v, 4) for k, v in past_the_end(model, pieces, counts).items()}
        )
        for held in HELD:
            row = losses.setdefault(f"held at {held}", [])
            row.append(round(text.run(seed, held)[1], 4))
    rows = [
        {"table": name, "mean": statistics.mean(r), "lowest": min(r), "highest": max(r)}
        for name, r in losses.items()
    ]
    print(table(rows, digits=4), past, widths, sep="\n")
    payload = {"losses": losses, "past the end": past, "std of places, letters": widths}
    print(f"saved to {save('learned', {**payload, 'machine': machine()})}")


if __name__ == "__main__":
    main()
