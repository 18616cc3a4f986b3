"""What the processes of `test_sharded.py` do; each returns numbers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import loss_parallel
from torch.utils.checkpoint import checkpoint

from lib.sharded import (
    Traffic,
    VocabParallelEmbedding,
    VocabParallelHead,
    clip_grad_norm,
    vocab_parallel_cross_entropy,
)
from lib.tied_head import is_tied, tie_weights, untie
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


def _bias(weight, bias):
    return vocab_parallel_cross_entropy(
        torch.zeros(2, 4), weight, torch.tensor([1, 2]), bias=bias
    )


def mistakes_of_one_rank():
    """What every rank says where only the last one was given something wrong."""
    last = dist.get_rank() == dist.get_world_size() - 1 > 0
    make, rows = VocabParallelEmbedding, 12 // dist.get_world_size()
    shard = torch.zeros(rows, 4)
    whole = TokenEmbedding(12, 4, sparse=last)
    mistakes = {
        "another std": lambda: make(12, 4, std=10.0 if last else 1.0),
        "another scale": lambda: make(12, 4, scale=2.0 if last else 1.0),
        "another padding row": lambda: make(12, 4, padding_idx=3 if last else 2),
        "a padding row outside": lambda: make(12, 4, padding_idx=12 if last else 2),
        "one without a shard": lambda: make(12, 4, shard=None if last else shard),
        "a sparse one": lambda: make.from_full(whole),
    }
    return {name: message(function) for name, function in mistakes.items()}


def biases():
    """A bias that is not split as the table is, and one that is."""
    table, part = VocabParallelEmbedding(12, 4), torch.zeros(3)
    whole = torch.arange(12.0)
    mesh = table.mesh
    everywhere = DTensor.from_local(whole, mesh, [Replicate()], run_check=False)
    own = distribute_tensor(whole, mesh, [Shard(0)])
    plain = torch.zeros(len(table.weight.to_local()), 4)
    return {
        "whole": message(lambda: _bias(table.weight, whole)),
        "everywhere": message(lambda: _bias(table.weight, everywhere)),
        "split, of a plain table": message(lambda: _bias(plain, own)),
        "too short": message(lambda: _bias(table.weight, part)),
        "right": _bias(table.weight, own).detach(),
    }


def hidden_states_of_a_kind():
    """Hidden states and ids as DTensors: the same everywhere, and split."""
    table = own_copy(problem({"rows": 11})[0], torch.float64)
    hidden = torch.linspace(-1, 1, 12, dtype=torch.float64).view(2, 6)
    targets = torch.tensor([3, 10])
    found = {}
    for name, place in {"plain": None, "alike": Replicate(), "split": Shard(0)}.items():

        def as_given(x, place=place):
            options = {"run_check": False}
            if place is None:
                return x
            return DTensor.from_local(x, table.mesh, [place], **options)

        def loss():
            some = as_given(hidden), table.weight, as_given(targets)
            return vocab_parallel_cross_entropy(*some)

        found[name] = message(loss) or loss().detach()
        found[f"{name} ids"] = message(lambda: table(as_given(targets)))
    return found


def clipped():
    """Gradients of a table and a layer, clipped together; and steps at once."""
    case = {"rows": 11}
    *_, ids, targets = problem(case)
    model = Model(case)
    hidden = model(ids)
    vocab_parallel_cross_entropy(hidden, model.head.weight, targets).backward()
    length = clip_grad_norm(model.parameters(), 0.01)
    groups = [{"params": [model.table.weight]}, {"params": [model.layer]}]
    torch.optim.AdamW(groups, lr=0.1, foreach=True).step()
    grads = model.table.weight.grad.full_tensor(), model.layer.grad
    return {"length": length, "grads": grads}


def states():
    """What states of one process, and of a head with another table, do."""
    table, head, *_ = problem({"rows": 11})
    model = Model({"rows": 11})
    whole = {"layer": model.layer.detach(), "table.weight": 2 * table}
    model.load_state_dict(whole)
    found = {"whole": model.table.weight.full_tensor().detach()}
    also = whole | {"head.weight": 2 * table}
    model.load_state_dict(also)
    also["head.weight"] = also["head.weight"].clone()
    also["head.weight"][-1] += 1  # a row of one rank
    found["differs"] = message(lambda: model.load_state_dict(also))
    found["untie"] = message(lambda: untie(model.table, model.head))
    own = VocabParallelHead.untied(own_copy(head, torch.float64))
    found["owned"] = [len(list(own.parameters()))]
    tie_weights(model.table, own)
    found["owned"] += [len(list(own.parameters()))]
    found["tied"] = is_tied(model.table, own)
    with torch.device("meta"):
        meta = VocabParallelEmbedding(11, 4)
    bias = VocabParallelHead(meta, bias=True).bias
    found["meta"] = (meta.weight.is_meta, bias.is_meta, tuple(bias.shape))
    found["group"] = message(
        lambda: vocab_parallel_cross_entropy(
            torch.zeros(1, 6).double(),
            model.table.weight,
            torch.tensor([0]),
            group=dist.group.WORLD,
        )
    )
    return found


def collectives():
    """Bytes that go into each kind of collective, of ten numbers a rank."""
    world, mine = dist.get_world_size(), torch.ones(10)
    many, part = torch.ones(10 * world), torch.empty(10)
    with Traffic() as traffic:
        dist.all_reduce(mine)
        dist.broadcast(mine, 0)
        dist.all_gather([torch.empty(10) for _ in range(world)], mine)
        dist.all_gather_into_tensor(many, mine)
        dist.reduce_scatter_tensor(part, many)
        dist.barrier()
    return dict(traffic.bytes)


def parts_of_a_backward_pass():
    """Frozen parts, two passes and checkpointing, against the plain way of all."""
    table, *_, targets = problem({"rows": 11})
    base = torch.linspace(-1, 1, 72, dtype=torch.float64).view(3, 4, 6)
    split = own_copy(table, torch.float64)
    loss = vocab_parallel_cross_entropy
    found = {}
    hidden = base.clone().requires_grad_()
    loss(hidden, split.weight.detach(), targets).backward()
    found["hidden alone"] = hidden.grad
    loss(base, split.weight, targets).backward()
    found["table alone"] = split.weight.grad.full_tensor()
    hidden = base.clone().requires_grad_()
    both = loss(hidden, split.weight.detach(), targets)
    both.backward(retain_graph=True)
    both.backward()
    found["twice"] = hidden.grad
    hidden = base.clone().requires_grad_()
    again = {"use_reentrant": False}
    checkpoint(loss, hidden, split.weight.detach(), targets, **again).backward()
    found["checkpointed"] = hidden.grad
    with torch.no_grad():
        found["no grad"] = loss(base, split.weight, targets)
    return found


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
    parts += mistakes_of_one_rank, biases, hidden_states_of_a_kind, clipped
    parts += states, collectives, parts_of_a_backward_pass
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


def aborting(folder):
    """Rank 1 raises; rank 0 aborts for it, as NCCL's watchdog does."""
    note_pid(folder)
    if dist.get_rank() == 1:
        raise LookupError("the row of rank 1 is gone")
    try:
        dist.barrier()
    except RuntimeError:
        os.abort()


def leaving(folder):
    """Rank 1 leaves without a result and without an error."""
    note_pid(folder)
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()


def quitting(folder):
    """Rank 1 is told to quit by its own code."""
    note_pid(folder)
    if dist.get_rank() == 1:
        sys.exit(0)
    dist.barrier()


def parent(folder):
    """Start a process that outlives its parent, and raise."""
    note_pid(folder)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    (folder / f"{dist.get_rank()}.child").write_text(str(child.pid))
    raise LookupError("the row is gone")


def note_pid(folder):
    (folder / f"{dist.get_rank()}.pid").write_text(str(os.getpid()))


def is_alive(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def is_running(pid):
    """Whether a process runs; one that has ended may wait to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return is_alive(pid) and not Path("/proc").exists()
    return state != "Z"
