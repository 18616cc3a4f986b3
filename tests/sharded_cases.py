"""What the processes of `test_sharded.py` do; each returns numbers."""

import contextlib
import os
import signal
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import loss_parallel

from lib.sharded import (
    Traffic,
    VocabParallelEmbedding,
    VocabParallelHead,
    vocab_parallel_cross_entropy,
)
from lib.token_embedding import TokenEmbedding

CASES = {
    "even": {"rows": 12},
    "uneven": {"rows": 11},
    "a rank without rows": {"rows": 5, "width": 4},
    "untied": {"rows": 11, "tied": False},
    "chunks": {"rows": 23, "chunk_size": 2},
    "some ignored": {"rows": 11, "ignored": (0, 4)},
    "all ignored": {"rows": 11, "ignored": tuple(range(12))},
    "sum": {"rows": 11, "reduction": "sum", "ignored": (1,)},
    "none": {"rows": 11, "reduction": "none", "ignored": (1,)},
    "bias, soft cap, z-loss": {
        "rows": 11,
        "bias": True,
        "options": {"softcap": 2.0, "z_loss": 0.1},
    },
    "padding row, scale": {"rows": 11, "padding_idx": 7, "scale": 3.0},
    "float32": {"rows": 11, "dtype": torch.float32},
    "bfloat16": {"rows": 11, "dtype": torch.bfloat16},
}


def problem(case):
    """The tensors of a case, in float64: table, head, bias, layer, ids, targets."""
    generator = torch.Generator().manual_seed(0)
    rows, width = case["rows"], case.get("width", 6)
    shapes = (rows, width), (rows, width), (rows,), (width, width)
    tensors = [
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in shapes
    ]
    ids, targets = torch.randint(0, rows, (2, 3, 4), generator=generator)
    targets.view(-1)[list(case.get("ignored", ()))] = -100
    return *tensors, ids, targets


def own_copy(values, like, **options):
    """A sharded table with the values of a full one."""
    full = TokenEmbedding(*values.shape, dtype=like, **options)
    full.weight.data.copy_(values)
    return VocabParallelEmbedding.from_full(full)


class Model(nn.Module):
    """A lookup, a layer that every rank has, and a head."""

    def __init__(self, case):
        super().__init__()
        table, head, bias, layer, *_ = problem(case)
        dtype = case.get("dtype", torch.float64)
        options = {name: case.get(name) for name in ("padding_idx", "scale")}
        self.table = own_copy(table, dtype, **options)
        self.layer = nn.Parameter(layer.to(dtype))
        with_bias = case.get("bias", False)
        if case.get("tied", True):
            self.head = VocabParallelHead(self.table, bias=with_bias)
        else:
            self.head = VocabParallelHead.untied(own_copy(head, dtype), bias=with_bias)
        if with_bias:
            first, rows = self.table.first, len(self.table.weight.to_local())
            local = self.head.bias.data.to_local()
            local.copy_(bias[first : first + rows])

    def forward(self, ids):
        return (self.table(ids) @ self.layer).tanh()


def numbers_of(case):
    """Loss, gradients, and parameters after one step of AdamW, all of them full."""
    *_, ids, targets = problem(case)
    model = Model(case)
    options = {"chunk_size": case.get("chunk_size"), **case.get("options", {})}
    options["reduction"] = case.get("reduction", "mean")
    hidden = model(ids)
    hidden.retain_grad()
    loss = vocab_parallel_cross_entropy(
        hidden, model.head.weight, targets, bias=model.head.bias, **options
    )
    loss.sum().backward()
    found = {"loss": loss.detach(), "hidden": hidden.grad, "layer": model.layer.grad}
    found["table"] = model.table.weight.grad.full_tensor()
    found["head"] = model.head.weight.grad.full_tensor()
    if model.head.bias is not None:
        found["bias"] = model.head.bias.grad.full_tensor()
    torch.optim.AdamW(model.parameters(), lr=0.1).step()
    stepped = {"layer": model.layer, "table": model.table.weight}
    stepped["head"] = model.head.weight
    for name, weight in stepped.items():
        full = weight.full_tensor() if isinstance(weight, DTensor) else weight
        found[f"{name} after"] = full.detach()
    return found


def logits_and_torch_loss(case):
    """Logits of the head, gathered, and what torch's own `loss_parallel` makes of them.

    Of a rank without rows torch 2.13 cannot: `None` then.
    """
    *_, ids, targets = problem(case)
    model = Model(case)
    logits = model.head(model(ids))
    found = {"logits": logits.full_tensor().detach(), "loss": None}
    if case["rows"] >= 2 * dist.get_world_size():
        with loss_parallel():
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss.backward()
        found["loss"] = loss.full_tensor().detach()
        found["table"] = model.table.weight.grad.full_tensor()
        found["layer"] = model.layer.grad
    return found


def start():
    """A table drawn after the same seed, whole, and the rows of this rank."""
    torch.manual_seed(3)
    big = VocabParallelEmbedding(2_600, 8, padding_idx=1)
    again = VocabParallelEmbedding(2_600, 8)
    rows = big.weight.to_local().detach()
    return {
        "whole": big.weight.full_tensor().detach(),
        "again": again.weight.full_tensor().detach(),
        "local": rows.clone(),
        "bytes": rows.untyped_storage().nbytes(),
        "back": big.to_full().weight.detach(),
    }


def traffic():
    """Bytes of one step by our count, and collectives by torch's."""
    case = {"rows": 11, "dtype": torch.float32}
    *_, ids, targets = problem(case)
    model = Model(case)
    with Traffic() as ours:
        hidden = model(ids)
        loss = vocab_parallel_cross_entropy(hidden, model.head.weight, targets)
        loss.backward()
    with CommDebugMode() as theirs:
        hidden = model(ids)
        loss = vocab_parallel_cross_entropy(hidden, model.head.weight, targets)
        loss.backward()
    counts = {str(name): n for name, n in theirs.get_comm_counts().items() if n}
    return {"ours": dict(ours.bytes), "calls": dict(ours.calls), "torch": counts}


def message(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _loss(targets, **options):
    table = VocabParallelEmbedding(10, 4)
    return vocab_parallel_cross_entropy(
        torch.zeros(2, 4), table.weight, torch.tensor(targets), **options
    )


def mistakes():
    """What each mistake says, on this rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    make = VocabParallelEmbedding
    rows = 10 // world
    shards = {
        "too few rows": (torch.zeros(rows - 1, 4), rows * world),
        "another split": (
            torch.zeros(rows + (rank == 0) - (rank == 1), 4),
            rows * world,
        ),
        "another width": (torch.zeros(rows, 4 + rank), rows * world),
        "another dtype": (
            torch.zeros(rows, 4, dtype=torch.float64 if rank else torch.float32),
            rows * world,
        ),
    }
    mistakes = {
        name: lambda shard=shard, n=n: make(n, 4, shard=shard)
        for name, (shard, n) in shards.items()
    }
    mistakes |= {
        "sizes that disagree": lambda: make(10 + rank, 4),
        "id too large": lambda: make(10, 4)(torch.tensor([0, 10])),
        "id below zero": lambda: make(10, 4)(torch.tensor([0, -1])),
        "id of floats": lambda: make(10, 4)(torch.tensor([0.0])),
        "target too large": lambda: _loss([1, 10]),
        "target below zero": lambda: _loss([1, -1]),
        "no rows at all": lambda: make(0, 4),
        "chunk of nothing": lambda: _loss([1, 2], chunk_size=0),
        "a reduction": lambda: _loss([1, 2], reduction="median"),
        "sparse": lambda: make.from_full(TokenEmbedding(10, 4, sparse=True)),
        "no table": lambda: VocabParallelHead(TokenEmbedding(10, 4)),
        "hidden width": lambda: VocabParallelHead(make(10, 4))(torch.zeros(2, 5)),
    }
    return {name: message(function) for name, function in mistakes.items()}


def plain_shards():
    """The loss from rows of any split, without a DTensor: rank r has r + 1 rows."""
    rank, world = dist.get_rank(), dist.get_world_size()
    case = {"rows": world * (world + 1) // 2}
    table, *_, targets = problem(case)
    hidden = torch.linspace(-1, 1, 72, dtype=torch.float64).view(3, 4, 6)
    hidden.requires_grad_()
    first = rank * (rank + 1) // 2
    mine = table[first : first + rank + 1].clone().requires_grad_()
    loss = vocab_parallel_cross_entropy(hidden, mine, targets)
    loss.backward()
    return {"loss": loss.detach(), "hidden": hidden.grad, "rows": mine.grad}


def autocast():
    """The loss under autocast, of float32 tensors."""
    table, *_, targets = problem({"rows": 11})
    embedding = own_copy(table, torch.float32)
    hidden = torch.linspace(-1, 1, 72).view(3, 4, 6)
    with torch.autocast("cpu", torch.bfloat16):
        loss = vocab_parallel_cross_entropy(hidden, embedding.weight, targets)
    return {"loss": loss.detach(), "dtype": str(loss.dtype)}


def everything(folder, *saved_before):
    """All cases of one start of the processes; loads checkpoints, and saves one."""
    torch.set_num_threads(1)
    found = {name: numbers_of(case) for name, case in CASES.items()}
    found |= {f"logits: {name}": logits_and_torch_loss(CASES[name]) for name in CASES}
    parts = start, traffic, mistakes, plain_shards, autocast
    found |= {part.__name__: part() for part in parts}
    save(folder)
    return found | {"loaded": load(*saved_before)}


def save(folder):
    torch.manual_seed(dist.get_world_size())
    model = Model({"rows": 11, "dtype": torch.float32})
    dcp.save(model.state_dict(), checkpoint_id=folder)


def load(*folders):
    """The tables of checkpoints that other numbers of processes have saved."""
    found = []
    for folder in folders:
        model = Model({"rows": 11, "dtype": torch.float32})
        with torch.no_grad():
            model.table.weight.to_local().zero_()
        state = model.state_dict()
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state)
        found.append((list(state), model.table.weight.full_tensor().detach()))
    return found


def rank_and_pid():
    return dist.get_rank(), os.getpid()


def killed(folder):
    """Rank 1 is killed while the others wait for it."""
    note_pid(folder)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def hung(folder):
    """Rank 1 sleeps while the others wait for it."""
    note_pid(folder)
    if dist.get_rank() == 1:
        oversleep()
    dist.barrier()


def oversleep():
    time.sleep(1_000)


def failing(folder):
    """Rank 1 raises; what the others then raise is only a consequence."""
    note_pid(folder)
    if dist.get_rank() == 1:
        raise LookupError("the row of rank 1 is gone")
    dist.barrier()


def note_pid(folder):
    (folder / f"{dist.get_rank()}.pid").write_text(str(os.getpid()))


def is_alive(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
