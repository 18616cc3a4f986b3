"""What a one-hot product costs beside the lookup, and a training step by optimiser.

`python -m benchmarks.bench_one_hot` prints two tables and saves `results/one_hot.json`,
from which chapter 2 draws its figures.
"""

import torch
from torch import Tensor

from benchmarks.common import interleave, medians, peak_extra_bytes, save, table
from lib.one_hot import one_hot_lookup, sparse_one_hot
from lib.token_embedding import TokenEmbedding

TOKENS, WIDTH = 512, 256
VOCABULARIES = (1_000, 4_000, 16_000, 64_000, 128_256)
STEP_VOCABULARY, STEP_TOKENS, STEP_WIDTH = 128_256, 4_096, 1_024


def lookups(vocabulary: int) -> list[dict]:
    """Time the lookup and both one-hot products at one vocabulary size."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(vocabulary, WIDTH, generator=generator)
    ids = torch.randint(0, vocabulary, (TOKENS,), generator=generator)
    ways = {
        "lookup": lambda: torch.nn.functional.embedding(ids, weight),
        "sparse one-hot": lambda: sparse_one_hot(ids, vocabulary) @ weight,
        "dense one-hot": lambda: one_hot_lookup(ids, weight),
    }
    assert all(torch.equal(way(), weight[ids]) for way in ways.values())
    seconds = medians(interleave(ways, rounds=5, warmup=1))
    return [
        {
            "V": vocabulary,
            "way": name,
            "microseconds": seconds[name] * 1e6,
            "times the lookup": seconds[name] / seconds["lookup"],
            "one-hot bytes": one_hot_bytes(name, vocabulary),
        }
        for name in ways
    ]


def one_hot_bytes(way: str, vocabulary: int) -> int:
    """Count the bytes of the one-hot matrix: fp32 ones, int64 indices."""
    sizes = {"lookup": 0, "sparse one-hot": 4 + 2 * 8, "dense one-hot": 4 * vocabulary}
    return TOKENS * sizes[way]


class Step:
    """One training step of a token table: forward, backward, update."""

    def __init__(self, optimiser: str, sparse: bool, **options):
        self.table = TokenEmbedding(STEP_VOCABULARY, STEP_WIDTH, sparse=sparse)
        kind = getattr(torch.optim, optimiser)
        self.optimiser = kind(self.table.parameters(), lr=1e-3, **options)

    def __call__(self, ids: Tensor, gradient: Tensor) -> None:
        self.table(ids).backward(gradient)
        self.optimiser.step()
        self.optimiser.zero_grad()


class AddRows:
    """The same SGD step written by hand: add to the rows that were looked up."""

    def __init__(self):
        self.weight = torch.randn(STEP_VOCABULARY, STEP_WIDTH)

    def __call__(self, ids: Tensor, gradient: Tensor) -> None:
        self.weight.index_add_(0, ids, gradient, alpha=-1e-3)


STEPS = {
    "index_add_": AddRows,
    "SGD, sparse gradient": lambda: Step("SGD", True),
    "SparseAdam": lambda: Step("SparseAdam", True),
    "SGD, dense gradient": lambda: Step("SGD", False),
    "Adam, fused": lambda: Step("Adam", False, fused=True),
    "Adam": lambda: Step("Adam", False, foreach=False),
}


def steps() -> list[dict]:
    """Time one step and take its extra memory, each way on a table of its own."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, STEP_VOCABULARY, (STEP_TOKENS,), generator=generator)
    gradient = torch.randn(STEP_TOKENS, STEP_WIDTH, generator=generator)
    bound, peaks = {}, {}
    for name, make in STEPS.items():
        step = make()
        bound[name] = lambda step=step: step(ids, gradient)
        # The first step also allocates what the optimiser keeps.
        peaks[name] = peak_extra_bytes(bound[name])
    seconds = medians(interleave(bound, rounds=5, warmup=1))
    return [
        {
            "step": name,
            "milliseconds": seconds[name] * 1e3,
            "times index_add_": seconds[name] / seconds["index_add_"],
            "extra MB": peaks[name] / 1e6,
        }
        for name in bound
    ]


def main() -> None:
    lookup_rows = [row for size in VOCABULARIES for row in lookups(size)]
    print(f"{TOKENS} tokens, width {WIDTH}, fp32\n{table(lookup_rows)}\n")
    step_rows = steps()
    print(
        f"V = {STEP_VOCABULARY:,}, {STEP_TOKENS:,} tokens, width {STEP_WIDTH:,}, fp32\n"
        f"{table(step_rows)}"
    )
    save("one_hot", {"lookup": lookup_rows, "step": step_rows})


if __name__ == "__main__":
    main()
