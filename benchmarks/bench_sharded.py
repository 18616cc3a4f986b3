"""A training step of the head over 1, 2 and 4 processes: time and memory of each.

`python -m benchmarks.bench_sharded` prints a table and saves `results/sharded.json`,
from which chapter 16 draws its figure of a process's memory. Time is the processor's,
of one process, for lookup, loss and gradients after two calls that do not count. Memory
is measured twice: of such a call, and of two steps with AdamW from the table on.
"""

import statistics
import time
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
PROCESSES, STARTS, ROUNDS = (1, 2, 4), 2, 5
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
    """A tied table with one loss: the step is lookup, loss and gradients.

    It notes the processor time of every call.
    """

    def __init__(self, loss: Loss, vocabulary: int = VOCABULARY):
        self.loss = loss
        kind = TokenEmbedding if loss in WHOLE.values() else VocabParallelEmbedding
        head = TiedLMHead if kind is TokenEmbedding else VocabParallelHead
        self.table = kind(vocabulary, WIDTH)
        self.head = head(self.table)
        generator = torch.Generator().manual_seed(0)
        shape = (2, TOKENS)
        self.ids = torch.randint(0, vocabulary, shape, generator=generator)
        self.processor: list[float] = []

    def __call__(self) -> None:
        self.table.zero_grad()
        begin = time.process_time()
        self.run()
        self.processor.append(time.process_time() - begin)

    def run(self) -> None:
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
        step.run()
        optimizer.step()


def measure() -> dict[str, dict]:
    """Memory and processor time of each way on this rank, and bytes handed over."""
    torch.set_num_threads(1)
    ways = SPLIT | (WHOLE if dist.get_world_size() == 1 else {})
    found = {}
    for loss in ways.values():  # what is loaded at the first call is not the step's
        train(loss, vocabulary=64)
    keep_freed_memory(False)
    for name, loss in ways.items():
        with Traffic() as traffic:
            peak = peak_extra_bytes(lambda loss=loss: train(loss))
        once = peak_extra_bytes(Step(loss).run)
        found[name] = {"bytes": peak, "once": once}
        found[name]["traffic"] = sum(traffic.bytes.values()) // 2
    keep_freed_memory(True)
    steps = {name: Step(loss) for name, loss in ways.items()}
    interleave(steps, rounds=ROUNDS, warmup=2)
    for name, step in steps.items():
        found[name]["processor"] = step.processor[-ROUNDS:]
    return found


def rows() -> list[dict[str, object]]:
    """Start all numbers of processes in turn, and put what they found together."""
    starts = [
        (n, run_processes(measure, n, timeout=300))
        for _ in range(STARTS)
        for n in PROCESSES
    ]
    found = []
    for n in PROCESSES:
        ranks = [rank for size, results in starts if size == n for rank in results]
        found += [row_of(name, n, [rank[name] for rank in ranks]) for name in ranks[0]]
    return found


def row_of(name: str, processes: int, runs: list[dict]) -> dict[str, object]:
    """Medians and extremes of processor time, and the largest of the peaks."""
    processor = [seconds for run in runs for seconds in run["processor"]]
    return {
        "way": name,
        "processes": processes,
        "processor s": statistics.median(processor),
        "least s": min(processor),
        "most s": max(processor),
        "MB of loss and gradients": max(run["once"] for run in runs) / 1e6,
        "MB of two steps": max(run["bytes"] for run in runs) / 1e6,
        "MB of two steps, least": min(run["bytes"] for run in runs) / 1e6,
        "MB handed over": runs[0]["traffic"] / 1e6,
    }


def main() -> None:
    found = rows()
    formula = sum(step_traffic(TOKENS, WIDTH, torch.float32).values()) / 1e6
    shape = f"V = {VOCABULARY:,}, width {WIDTH}, {TOKENS:,} tokens, fp32, tied"
    print(f"{shape}, one thread a process\n{table(found)}")
    print(f"{STARTS} starts, {ROUNDS} warm calls each, all ranks together")
    print(f"handed over by formula: {formula:.3g} MB")
    sizes = {"V": VOCABULARY, "width": WIDTH, "tokens": TOKENS}
    machine_of_ranks = machine() | {"torch_threads": 1}
    payload = {"sizes": sizes, "formula MB": formula, "step": found}
    save("sharded", {"machine": machine_of_ranks, **payload})


if __name__ == "__main__":
    main()
