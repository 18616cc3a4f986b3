"""Who holds which rows, and whether the ranks agree on it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import Shard as ShardOf

BY_ROWS = [ShardOf(0)]


class Shard(NamedTuple):
    """The rows of a table `[V, d]` that this rank holds, and where they stand in it."""

    rows: Tensor
    first: int
    total: int
    group: dist.ProcessGroup


def first_and_rows(total: int, processes: int, rank: int) -> tuple[int, int]:
    """Say where a rank's rows begin and how many they are, by the rule of torch.chunk.

    Every rank has ⌈V/n⌉ rows until there are no more; the last ranks may have fewer,
    or none. `DTensor` splits uneven sizes in the same way.

    Args:
        total: rows of the whole table, V.
        processes: how many share it, n.
        rank: of which the rows are asked, from 0 on.

    Example:
        >>> [first_and_rows(5, 4, rank) for rank in range(4)]
        [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    size = -(-total // processes)
    first = min(rank * size, total)
    return first, min(size, total - first)


def need_group() -> None:
    """Say how to start processes, if there is no process group."""
    if not dist.is_initialized():
        raise RuntimeError(
            "there is no process group: start processes with run_processes, or with "
            "torchrun and torch.distributed.init_process_group"
        )


def mesh_of_ranks(mesh: DeviceMesh | None = None) -> DeviceMesh:
    """Give the mesh of all ranks, unless there is a smaller one; it has one axis."""
    need_group()
    if mesh is None:
        kind = "cuda" if dist.get_backend() == "nccl" else "cpu"
        mesh = init_device_mesh(kind, (dist.get_world_size(),))
    if mesh.ndim != 1:
        raise ValueError(
            f"needs a mesh with one axis, got {mesh.ndim}: take mesh[name]"
        )
    return mesh


def agree(mesh: DeviceMesh, describe: Callable[[], dict]) -> None:
    """Raise on every rank what is wrong on any, or where two of them differ.

    Args:
        mesh: the ranks that share the table.
        describe: checks what this rank was given, and returns what has to be the same
            on all, by name; "shard", if it is there, is the rows that this rank holds,
            or None.
    """
    own, facts = None, {}
    try:
        facts = describe()
    except Exception as error:
        own = error
    shard = facts.pop("shard", None)
    held = None if shard is None else (tuple(shard.shape), str(shard.dtype))
    found: list = [None] * mesh.size()
    said = own and (type(own), str(own))
    dist.all_gather_object(found, (said, facts, held), group=mesh.get_group())
    for rank, (error, theirs, _) in enumerate(found):
        if error is not None:
            raise own or error[0](f"rank {rank}: {error[1]}")
        for name, value in theirs.items():
            if value != found[0][1][name]:
                raise ValueError(
                    f"the ranks disagree on the table's {name}: rank 0 has "
                    f"{found[0][1][name]}, rank {rank} has {value}"
                )
    shards = [held for _, _, held in found]
    if any(held is not None for held in shards):
        _check_shards(shards, facts["rows"], facts["width"])


def _check_shards(held: list, total: int, width: int) -> None:
    for rank, one in enumerate(held):
        if one is None:
            raise ValueError(f"rank {rank} brings no shard, and others do")
    everywhere = sum(shape[0] for shape, _ in held)
    for rank, (shape, dtype) in enumerate(held):
        _, rows = first_and_rows(total, len(held), rank)
        if shape != (rows, width):
            raise ValueError(
                f"the shards do not make a table of {total} rows of width {width}: "
                f"rank {rank} holds {list(shape)} where torch.chunk's split is "
                f"{[rows, width]}; the ranks hold {everywhere} rows together"
            )
        if dtype != held[0][1]:
            raise ValueError(
                f"rank 0 holds rows of {held[0][1]}, rank {rank} of {dtype}"
            )


def split_by_rows(local: Tensor, mesh: DeviceMesh, total: int) -> DTensor:
    """Make the ranks' parts of a table `[V, d]` or a bias `[V]` into a whole."""
    shape = torch.Size((total, *local.shape[1:]))
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        local, mesh, BY_ROWS, run_check=False, shape=shape, stride=stride
    )


def alike(name: str, x: Tensor) -> Tensor:
    """Give what all ranks hold alike as a plain tensor; a `DTensor` must say so."""
    if not isinstance(x, DTensor):
        return x
    if not all(place.is_replicate() for place in x.placements):
        raise ValueError(
            f"{name} must be the same on all ranks, Replicate(), got {x.placements}"
        )
    return x.to_local()


def shard_of(weight: Tensor, group: dist.ProcessGroup | None = None) -> Shard:
    """Find this rank's rows: those of a `DTensor`, or a plain tensor that is the shard.

    Of plain shards the ranks tell each other their numbers of rows, in every call; any
    split will do. A `DTensor` knows.
    """
    need_group()
    if not isinstance(weight, DTensor):
        sizes = torch.zeros(
            dist.get_world_size(group), dtype=torch.int64, device=weight.device
        )
        sizes[dist.get_rank(group)] = len(weight)
        dist.all_reduce(sizes, group=group)
        rows, rank = sizes.tolist(), dist.get_rank(group)
        return Shard(weight, sum(rows[:rank]), sum(rows), group or dist.group.WORLD)
    if group is not None:
        raise ValueError("a DTensor brings its ranks: leave group out")
    mesh, total = mesh_of_ranks(weight.device_mesh), len(weight)
    rows = rows_of("the table", weight)
    first, _ = first_and_rows(total, mesh.size(), mesh.get_local_rank())
    return Shard(rows, first, total, mesh.get_group())


def rows_of(name: str, x: DTensor) -> Tensor:
    """Give this rank's rows of a `DTensor`, which must be split as torch.chunk does."""
    if list(x.placements) != BY_ROWS:
        raise ValueError(f"{name} must be split by rows, Shard(0), got {x.placements}")
    mesh, local = x.device_mesh, x.to_local()
    _, rows = first_and_rows(len(x), mesh.size(), mesh.get_local_rank())
    if len(local) != rows:
        raise ValueError(
            f"{name} of {len(x)} rows has {len(local)} on rank {mesh.get_local_rank()},"
            f" where torch.chunk's split has {rows}"
        )
    return local


def all_reduce(x: Tensor, group, largest: bool = False) -> Tensor:
    """Replace a tensor, in place, by its sum or its maximum over the ranks."""
    if x.numel():
        dist.all_reduce(
            x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM, group=group
        )
    return x
