"""A training step of two processes beside one of one, as a table.

`torchrun --nproc-per-node 2 -m lib.sharded`, or `python -m lib.sharded`, which starts
two processes itself.
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor

from lib.sharded import (
    Traffic,
    VocabParallelEmbedding,
    VocabParallelHead,
    run_processes,
    step_traffic,
    vocab_parallel_cross_entropy,
)

V, D, TOKENS = 32_000, 256, 512


def held_bytes(*tensors: Tensor) -> int:
    """Bytes of this rank's tensors: parameters, gradients, an optimiser's two sums."""
    parts = (x.to_local() if isinstance(x, DTensor) else x for x in tensors)
    return sum(x.nbytes for x in parts)


def step() -> dict[str, float]:
    """One step on this rank, and its loss in one process."""
    torch.manual_seed(0)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    table = VocabParallelEmbedding(V, D, std=0.1, device=device)
    head = VocabParallelHead(table)
    ids, targets = torch.randint(0, V, (2, TOKENS)).to(device)
    whole = table.weight.detach().full_tensor()
    plain = F.cross_entropy(whole[ids] @ whole.T, targets)
    optimizer = torch.optim.AdamW([table.weight])
    with Traffic() as traffic:
        loss = vocab_parallel_cross_entropy(table(ids), head.weight, targets)
        loss.backward()
    optimizer.step()
    weight, state = table.weight, optimizer.state[table.weight]
    tensors = weight, weight.grad, state["exp_avg"], state["exp_avg_sq"]
    return {
        "loss": loss.item(),
        "plain": plain.item(),
        "memory": held_bytes(*tensors) / 1e6,
        "traffic": sum(traffic.bytes.values()) / 1e6,
    }


def report() -> None:
    """Print the table, on rank 0."""
    found, world = step(), dist.get_world_size()
    if dist.get_rank() == 0:
        formula = sum(step_traffic(TOKENS, D, torch.float32).values()) / 1e6
        whole = 4 * 4 * V * D / 1e6
        name = "process" if world == 1 else "processes"
        print(f"{world} {name}, V = {V:,}, d = {D}, {TOKENS} tokens, float32")
        print(f"loss       {found['loss']:9.4f}      one process {found['plain']:9.4f}")
        print(f"memory     {found['memory']:9.1f} MB   one process {whole:9.1f} MB")
        print(f"traffic    {found['traffic']:9.2f} MB   formula     {formula:9.2f} MB")
        print("memory: counted, table, gradient and AdamW's two sums of a process")


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
