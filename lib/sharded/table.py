"""An embedding table whose rows lie in different processes."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from lib.checks import check_ids
from lib.sharded.ranks import (
    BY_ROWS,
    agree,
    alike,
    all_reduce,
    first_and_rows,
    mesh_of_ranks,
    split_by_rows,
)
from lib.token_embedding import TokenEmbedding

BLOCK = 1_024  # rows that are drawn with one seed


class VocabParallelEmbedding(TokenEmbedding):
    """Map token ids `[...]` to rows `[..., dim]` of a table that processes share.

    The table is one `DTensor` Parameter, split by rows over a device mesh: optimisers
    and `torch.distributed.checkpoint` see the whole table, and each process holds
    ⌈V/n⌉ of its rows. A state of one process can be loaded too. Every rank asks for the
    same ids; it looks up those that it has, puts zeros for the others, and one sum over
    the ranks does the rest. The gradient that comes back is the same on all ranks and
    needs no message.

    Torch's functions over many tensors at once take a `DTensor` beside plain ones for a
    mistake: to clip gradients there is `clip_grad_norm`, and an optimiser with
    `foreach` or `fused`, the default on a graphics card, wants the split tables in a
    parameter group of their own.

    A new table is drawn in blocks of rows, each from a seed of its own, so that it does
    not depend on the number of processes. The seed comes from rank 0.

    Args:
        num_embeddings, dim, padding_idx, scale, std: as in `TokenEmbedding`.
        shard: the rows of this rank, `[rows, dim]`; None draws them.
        mesh: the ranks that share the table, one axis; None means all.
        device: where a new shard lies; None is the mesh's kind.
        dtype: floating-point dtype of a new table.

    Raises:
        RuntimeError: there is no process group.
        ValueError: ranks that disagree on the table, or shards that do not cover it;
            on every rank, with the numbers.
        IndexError: an id outside the whole table.

    Source:
        Shoeybi et al. 2019 (Megatron-LM), section 3: rows split over the vocabulary,
        and a sum after the lookup.

    Example:
        >>> import torch.distributed as dist
        >>> store = dist.HashStore()
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> table = VocabParallelEmbedding(5, 3)
        >>> table(torch.tensor([[0, 4]])).shape, table.weight.placements
        (torch.Size([1, 2, 3]), (Shard(dim=0),))
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        num_embeddings: int,
        dim: int,
        padding_idx: int | None = None,
        scale: float | None = None,
        std: float = 0.02,
        *,
        shard: Tensor | None = None,
        mesh: DeviceMesh | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        mesh = mesh_of_ranks(mesh)

        def describe():  # on meta: it checks, and allocates nothing
            options = {"device": "meta", "dtype": dtype}
            TokenEmbedding.__init__(
                self, num_embeddings, dim, padding_idx, scale, std, **options
            )
            facts = {"rows": self.num_embeddings, "width": self.dim, "shard": shard}
            facts |= {"padding_idx": self.padding_idx, "dtype": self.weight.dtype}
            return facts | {"scale": self.scale, "std": self.std}

        agree(mesh, describe)
        rows = shard if shard is not None else self._empty(mesh, device)
        self.weight = nn.Parameter(split_by_rows(rows.detach(), mesh, len(self.weight)))
        if shard is None:
            self.reset_parameters()

    def _empty(self, mesh: DeviceMesh, device) -> Tensor:
        """Make room for this rank's rows."""
        (total, width), dtype = self.weight.shape, self.weight.dtype
        _, rows = first_and_rows(total, mesh.size(), mesh.get_local_rank())
        on_meta = torch.get_default_device().type == "meta"
        kind = device or ("meta" if on_meta else mesh.device_type)
        return torch.empty(rows, width, device=kind, dtype=dtype)

    @classmethod
    def from_full(
        cls, embedding: nn.Module, mesh: DeviceMesh | None = None
    ) -> "VocabParallelEmbedding":
        """Split a whole table; where ranks hold different ones, rank 0's counts.

        Args:
            embedding: a `TokenEmbedding` or an `nn.Embedding`.
            mesh: the ranks to split over; None takes all.
        """
        mesh, weight = mesh_of_ranks(mesh), embedding.weight.detach()

        def describe():
            if embedding.sparse:
                raise ValueError("a table that is split has no sparse gradients")
            shape, dtype = weight.shape, weight.dtype
            return {"rows": shape[0], "width": shape[1], "dtype": dtype}

        agree(mesh, describe)
        shard = distribute_tensor(weight, mesh, BY_ROWS).to_local()
        options = (
            embedding.padding_idx,
            *(
                getattr(embedding, name, default)  # an nn.Embedding has neither
                for name, default in (("scale", None), ("std", 0.02))
            ),
        )
        new = cls(*weight.shape, *options, shard=shard, mesh=mesh, dtype=weight.dtype)
        new.weight.requires_grad_(embedding.weight.requires_grad)
        return new.train(embedding.training)

    def to_full(self) -> TokenEmbedding:
        """Gather the whole table, on every rank."""
        table = self.weight.detach().full_tensor()
        options = {"scale": self.scale, "std": self.std, "device": "meta"}
        full = TokenEmbedding(*table.shape, self.padding_idx, **options)
        full.weight = nn.Parameter(table, requires_grad=self.weight.requires_grad)
        return full.train(self.training)

    @property
    def mesh(self) -> DeviceMesh:
        """The ranks that share the table."""
        return self.weight.device_mesh

    @property
    def first(self) -> int:
        """Number of this rank's first row in the whole table."""
        mesh = self.mesh
        return first_and_rows(len(self.weight), mesh.size(), mesh.get_local_rank())[0]

    @property
    def _own_padding(self) -> int | None:
        """Number of the padding row in this rank's shard, if it is there."""
        if self.padding_idx is None:
            return None
        place = self.padding_idx - self.first
        return place if 0 <= place < len(self.weight.to_local()) else None

    def reset_parameters(self) -> None:
        """Draw the table anew, alike for any number of processes."""
        if self.weight.is_meta:
            return
        group = self.mesh.get_group()
        seed = [int(torch.randint(2**62, (), device="cpu"))]
        dist.broadcast_object_list(seed, dist.get_global_rank(group, 0), group=group)
        with torch.no_grad():
            shard, first = self.weight.to_local(), self.first
            _draw(shard, first, len(self.weight), self.std, seed[0])
            if self._own_padding is not None:
                shard[self._own_padding] = 0

    def forward(self, ids: Tensor) -> Tensor:
        """Look the ids up: `[...]` integers, the same on all ranks, to `[..., dim]`.

        Args:
            ids: integers `[...]`, the same on all ranks.
        """
        ids = check_ids(alike("ids", ids), self.num_embeddings)
        rows = _Sum.apply(self._own_rows(ids), self.mesh.get_group())
        if self.scale is None:
            return rows  # [..., dim]
        return rows * torch.full((), self.scale, dtype=rows.dtype, device=rows.device)

    def take_own(self, state: dict[str, Tensor], key: str) -> None:
        """Where a state holds the whole table, as one process saves it, split it.

        Args:
            state: a state dict; the rank's own rows take the place of the whole table.
            key: the table's key in it.
        """
        table = state.get(key)
        fits = isinstance(table, Tensor) and table.shape == self.weight.shape
        if fits and not isinstance(table, DTensor):
            local, total = self.weight.to_local(), len(self.weight)
            rows = table[self.first : self.first + len(local)].to(local)
            state[key] = split_by_rows(rows, self.mesh, total)

    def _load_from_state_dict(self, state, prefix, *rest):
        self.take_own(state, prefix + "weight")
        super()._load_from_state_dict(state, prefix, *rest)

    def _own_rows(self, ids: Tensor) -> Tensor:
        """Rows of the ids that this rank holds, and zeros for the others."""
        shard, first = self.weight.to_local(), self.first
        if not len(shard):
            return shard.sum(0).expand(*ids.shape, -1).contiguous()
        local = ids - first
        inside = (local >= 0) & (local < len(shard))
        rows = F.embedding(local.where(inside, 0), shard, self._own_padding)
        return rows.masked_fill(~inside[..., None], 0)


class _Sum(torch.autograd.Function):
    """Sum over the ranks; the gradient, alike on all of them, passes as it is."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.mark_dirty(rows)
        return all_reduce(rows, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient, None


def _draw(shard: Tensor, first: int, total: int, std: float, seed: int) -> None:
    """Fill the rows from `first` on; a block of them has one seed on all machines."""
    seeds = torch.Generator().manual_seed(seed)
    blocks = torch.randint(2**62, (-(-total // BLOCK),), generator=seeds).tolist()
    generator = torch.Generator(shard.device)
    last = first + len(shard)
    for number in range(first // BLOCK, -(-last // BLOCK)):
        begin = number * BLOCK
        block = shard.new_empty(BLOCK, shard.shape[1])
        block.normal_(0, std, generator=generator.manual_seed(blocks[number]))
        low, high = max(first, begin), min(last, begin + BLOCK)
        shard[low - first : high - first] = block[low - begin : high - begin]
