"""Who holds which rows, and whether the ranks agree on it."""

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

    Example:
        >>> [first_and_rows(5, 4, rank) for rank in range(4)]
        [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    size = -(-total // processes)
    first = min(rank * size, total)
    return first, min(size, total - first)


def mesh_of_ranks(mesh: DeviceMesh | None = None) -> DeviceMesh:
    """Give the mesh of all ranks, unless there is a smaller one; it has one axis."""
    if not dist.is_initialized():
        raise RuntimeError(
            "there is no process group: start processes with run_processes, or with "
            "torchrun and torch.distributed.init_process_group"
        )
    if mesh is None:
        kind = "cuda" if dist.get_backend() == "nccl" else "cpu"
        mesh = init_device_mesh(kind, (dist.get_world_size(),))
    if mesh.ndim != 1:
        raise ValueError(
            f"needs a mesh with one axis, got {mesh.ndim}: take mesh[name]"
        )
    return mesh


def agree(mesh: DeviceMesh, total: int, shard: Tensor | None, **facts) -> None:
    """Raise the same error on every rank if tables differ or shards do not fit.

    Args:
        mesh: the ranks that share the table.
        total: rows of the whole table, V.
        shard: the rows that this rank holds; None if it has yet to make them.
        facts: what else has to be the same, by name; `width` is one of them.
    """
    held = None if shard is None else (tuple(shard.shape), str(shard.dtype))
    found: list = [None] * mesh.size()
    mine = {"rows": total, **facts}, held
    dist.all_gather_object(found, mine, group=mesh.get_group())
    for rank, (theirs, _) in enumerate(found):
        for name, value in theirs.items():
            if value != found[0][0][name]:
                raise ValueError(
                    f"the ranks disagree on the table's {name}: rank 0 has "
                    f"{found[0][0][name]}, rank {rank} has {value}"
                )
    if shard is not None:
        _check_shards([held for _, held in found], total, facts["width"])


def _check_shards(held: list, total: int, width: int) -> None:
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


def shard_of(weight: Tensor, group: dist.ProcessGroup | None = None) -> Shard:
    """Find this rank's rows: those of a `DTensor`, or a plain tensor that is the shard.

    Of plain shards the ranks tell each other their numbers of rows, in every call; any
    split will do. A `DTensor` knows.
    """
    if not isinstance(weight, DTensor):
        mesh_of_ranks()  # or there is no process group
        sizes = weight.new_zeros(dist.get_world_size(group), dtype=torch.int64)
        sizes[dist.get_rank(group)] = len(weight)
        dist.all_reduce(sizes, group=group)
        rows, rank = sizes.tolist(), dist.get_rank(group)
        return Shard(weight, sum(rows[:rank]), sum(rows), group or dist.group.WORLD)
    if list(weight.placements) != BY_ROWS:
        raise ValueError(
            f"the table must be split by rows, Shard(0), got {weight.placements}"
        )
    mesh, total = weight.device_mesh, len(weight)
    first, _ = first_and_rows(total, mesh.size(), mesh.get_local_rank())
    return Shard(weight.to_local(), first, total, mesh.get_group())


def all_reduce(x: Tensor, group, largest: bool = False) -> Tensor:
    """Replace a tensor, in place, by its sum or its maximum over the ranks."""
    if x.numel():
        dist.all_reduce(
            x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM, group=group
        )
    return x
