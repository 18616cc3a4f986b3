"""A training step of two processes beside one of one, as a table.

`torchrun --nproc-per-node 2 -m lib.sharded`, or `python -m lib.sharded`, which starts
two processes itself.
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F

from lib.sharded import (
    PeakMemory,
    Traffic,
    VocabParallelEmbedding,
    VocabParallelHead,
    run_processes,
    step_traffic,
    vocab_parallel_cross_entropy,
)

V, D, TOKENS = 32_000, 256, 512


def step(table, targets, ids) -> tuple[float, float]:
    """One step of a tied table, split or whole: its loss, and the peak in MB."""
    optimizer = torch.optim.AdamW([table.weight])
    with PeakMemory() as memory:
        if isinstance(table, VocabParallelEmbedding):
            weight = VocabParallelHead(table).weight
            loss = vocab_parallel_cross_entropy(table(ids), weight, targets)
        else:
            loss = F.cross_entropy(table(ids) @ table.weight.T, targets)
        loss.backward()
        optimizer.step()
    return loss.item(), memory.peak / 1e6


def report() -> None:
    """Make a step on all ranks and one in one process; print both on rank 0."""
    torch.manual_seed(0)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    table = VocabParallelEmbedding(V, D, std=0.1, device=device)
    ids, targets = torch.randint(0, V, (2, TOKENS)).to(device)
    whole, world = table.to_full(), dist.get_world_size()
    with Traffic() as traffic:
        loss, peak = step(table, targets, ids)
    if dist.get_rank() == 0:
        plain, plain_peak = step(whole, targets, ids)
        sent = sum(traffic.bytes.values()) / 1e6
        formula = sum(step_traffic(TOKENS, D, torch.float32).values()) / 1e6
        name = "process" if world == 1 else "processes"
        print(f"{world} {name}, V = {V:,}, d = {D}, {TOKENS} tokens, float32")
        print(f"loss       {loss:9.4f}      one process {plain:9.4f}")
        print(f"memory     {peak:9.1f} MB   one process {plain_peak:9.1f} MB")
        print(f"traffic    {sent:9.2f} MB   formula     {formula:9.2f} MB")
        print("memory: most that a step makes; one process holds all logits")


def main() -> None:
    """Join torchrun's processes, or start two."""
    if "RANK" not in os.environ:
        run_processes(report, 2)
        return
    local = int(os.environ["LOCAL_RANK"])
    cards = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if cards:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if cards else "gloo")
    try:
        report()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
