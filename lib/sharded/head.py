"""The output head of a table that processes share."""

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from lib.checks import check_floating
from lib.sharded.ranks import alike, split_by_rows
from lib.sharded.table import VocabParallelEmbedding
from lib.tied_head import TiedLMHead


class VocabParallelHead(TiedLMHead):
    """Map hidden states `[..., d]` to logits `[..., V]`, split over the vocabulary.

    Tied to a `VocabParallelEmbedding` as `TiedLMHead` is to a whole one: it asks the
    module for its table in every call and owns none. The hidden states are the same on
    all ranks, and so is their gradient: the sum over the ranks, formed once.

    The logits are a `DTensor` split on its last axis, as torch's `loss_parallel` takes
    it. For a loss that holds no logits give `head.weight` and `head.bias` to
    `vocab_parallel_cross_entropy`.

    Args:
        embedding: the table, whose process group the head uses.
        bias: add one learned number to each logit, split as the rows are.
        scale: factor on the hidden states.

    Raises:
        TypeError: an embedding that is not a `VocabParallelEmbedding`.
        ValueError: hidden states of another width.

    Source:
        Shoeybi et al. 2019 (Megatron-LM), section 3; torch's `loss_parallel`.

    Example:
        >>> import torch.distributed as dist
        >>> store = dist.HashStore()
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> head = VocabParallelHead(VocabParallelEmbedding(5, 3))
        >>> head(torch.ones(2, 3)).placements, list(head.parameters())
        ((Shard(dim=1),), [])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self, embedding: VocabParallelEmbedding, bias: bool = False, scale: float = 1.0
    ):
        if not isinstance(embedding, VocabParallelEmbedding):
            raise TypeError(
                f"needs a VocabParallelEmbedding, got {type(embedding).__name__}"
            )
        super().__init__(embedding, scale=scale)
        if bias:
            local, total = self.weight.to_local(), len(self.weight)
            zeros = local.new_zeros(len(local))
            self.bias = nn.Parameter(split_by_rows(zeros, embedding.mesh, total))  # [V]

    @classmethod
    def untied(
        cls, table: VocabParallelEmbedding, bias: bool = False, scale: float = 1.0
    ) -> "VocabParallelHead":
        """Make a head that owns its table, which is then one of its parameters.

        Args:
            table: a split table that nothing else uses.
            bias: whether to add one number a row.
            scale: a factor on the hidden states.
        """
        head = cls(table, bias, scale)
        head.table = table
        return head

    def _hold(self, embedding) -> None:
        super()._hold(embedding)
        self._modules.pop("table", None)  # an untied head that is tied owns none

    def _load_from_state_dict(self, state, prefix, *rest):
        self.embedding.take_own(state, prefix + "weight")
        super()._load_from_state_dict(state, prefix, *rest)

    def forward(self, hidden: Tensor) -> DTensor:
        """Compute logits: `[..., d]`, the same on all ranks, to `[..., V]`.

        Args:
            hidden: floating point `[..., d]`, the same on all ranks.
        """
        hidden = alike("hidden states", hidden)
        check_floating("hidden states", hidden)
        mesh = self.weight.device_mesh
        everywhere = DTensor.from_local(hidden, mesh, [Replicate()], run_check=False)
        return super().forward(everywhere)

    def reset_parameters(self) -> None:
        """Set the bias, if there is one, to zero."""
        if self.bias is not None:
            with torch.no_grad():
                self.bias.to_local().zero_()
