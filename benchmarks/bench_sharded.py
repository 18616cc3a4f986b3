"""A training step of the head over 1, 2 and 4 processes: time and memory of each.

`python -m benchmarks.bench_sharded` prints a table and saves `results/sharded.json`,
from which chapter 16 draws its figure of a process's memory. The processes share the
machine's cores, so times of more processes than cores say nothing of a speed-up.
"""

import statistics
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor.parallel import loss_parallel

from benchmarks.common import (
    interleave,
    keep_freed_memory,
    machine,
    peak_extra_bytes,
    save,
    table,
)
from lib.sharded import (
    Traffic,
    VocabParallelEmbedding,
    VocabParallelHead,
    run_processes,
    step_traffic,
    vocab_parallel_cross_entropy,
)
from lib.tied_head import TiedLMHead, tied_cross_entropy
from lib.token_embedding import TokenEmbedding

VOCABULARY, WIDTH, TOKENS = 32_768, 256, 512
PROCESSES, ROUNDS = (1, 2, 4), 3
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def plain(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(head(hidden), targets)


def chunks(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    return tied_cross_entropy(hidden, head.weight, targets)


def split_logits(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    with loss_parallel():
        return F.cross_entropy(head(hidden), targets)


def split_chunks(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
    return vocab_parallel_cross_entropy(hidden, head.weight, targets)


WHOLE = {"F.cross_entropy": plain, "tied_cross_entropy": chunks}
SPLIT = {"loss_parallel": split_logits, "vocab_parallel_cross_entropy": split_chunks}


class Step:
    """A tied table with one loss: the step is lookup, loss and gradients."""

    def __init__(self, loss: Loss, vocabulary: int = VOCABULARY):
        self.loss = loss
        kind = TokenEmbedding if loss in WHOLE.values() else VocabParallelEmbedding
        head = TiedLMHead if kind is TokenEmbedding else VocabParallelHead
        self.table = kind(vocabulary, WIDTH)
        self.head = head(self.table)
        generator = torch.Generator().manual_seed(0)
        shape = (2, TOKENS)
        self.ids = torch.randint(0, vocabulary, shape, generator=generator)

    def __call__(self) -> None:
        ids, targets = self.ids
        loss = self.loss(self.head, self.table(ids), targets)
        if self.loss is split_logits:
            with loss_parallel():
                loss.backward()
        else:
            loss.backward()


def train(loss: Loss, vocabulary: int = VOCABULARY) -> None:
    """Make a table and take two steps; the second has AdamW's sums from the start."""
    step = Step(loss, vocabulary)
    optimizer = torch.optim.AdamW(step.table.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        step()
        optimizer.step()


def measure() -> dict[str, dict[str, float]]:
    """Peak memory and seconds of each way on this rank, and bytes handed over."""
    torch.set_num_threads(1)
    ways = SPLIT | (WHOLE if dist.get_world_size() == 1 else {})
    found = {}
    for loss in ways.values():  # what is loaded at the first call is not the step's
        train(loss, vocabulary=64)
    keep_freed_memory(False)
    for name, loss in ways.items():
        with Traffic() as traffic:
            peak = peak_extra_bytes(lambda loss=loss: train(loss))
        found[name] = {"bytes": peak, "traffic": sum(traffic.bytes.values()) // 2}
    keep_freed_memory(True)
    steps = {name: Step(loss) for name, loss in ways.items()}
    for name, seconds in interleave(steps, rounds=1).items():
        found[name]["seconds"] = seconds[0]
    return found


def rows() -> list[dict[str, object]]:
    """All numbers of processes in turn, three times; medians, and the largest peak."""
    rounds = [
        (n, run_processes(measure, n, timeout=200))
        for _ in range(ROUNDS)
        for n in PROCESSES
    ]
    found = []
    for n in PROCESSES:
        ranks = [rank for size, results in rounds if size == n for rank in results]
        for name in ranks[0]:
            runs = [rank[name] for rank in ranks]
            found.append(
                {
                    "way": name,
                    "processes": n,
                    "seconds": statistics.median(run["seconds"] for run in runs),
                    "MB of a process": max(run["bytes"] for run in runs) / 1e6,
                    "MB, least": min(run["bytes"] for run in runs) / 1e6,
                    "MB handed over": runs[0]["traffic"] / 1e6,
                }
            )
    return found


def main() -> None:
    found = rows()
    formula = sum(step_traffic(TOKENS, WIDTH, torch.float32).values()) / 1e6
    shape = f"V = {VOCABULARY:,}, width {WIDTH}, {TOKENS:,} tokens, fp32, tied"
    print(f"{shape}, one thread a process\n{table(found)}")
    print(f"handed over by formula: {formula:.3g} MB")
    sizes = {"V": VOCABULARY, "width": WIDTH, "tokens": TOKENS}
    machine_of_ranks = machine() | {"torch_threads": 1}
    payload = {"sizes": sizes, "formula MB": formula, "step": found}
    save("sharded", {"machine": machine_of_ranks, **payload})


if __name__ == "__main__":
    main()
