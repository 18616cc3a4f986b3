"""T5's relative bias: one learned number a head for each bucket of distances."""

import math

import torch
from torch import Tensor, nn

from lib.checks import check_integer, check_positions, check_size, number


def t5_buckets(
    q_positions: Tensor,
    k_positions: Tensor,
    bidirectional: bool = False,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """Sort distances into buckets: near ones each alone, far ones by their logarithm.

    Args:
        q_positions: integers `[Tq]` or `[B, Tq]`.
        k_positions: integers `[Tk]` or `[B, Tk]`.
        bidirectional: half of the buckets for keys after the query; otherwise those
            share the bucket of distance 0 and are left to a causal mask.
        num_buckets: buckets in all.
        max_distance: from here on all distances share the last bucket.

    Returns:
        int64 `[Tq, Tk]` or `[B, Tq, Tk]`, from 0 to num_buckets - 1.

    Raises:
        ValueError: too few buckets to have near and far ones, an odd number of them for
            both ways, a max_distance that leaves nothing to the far ones, or shapes
            that do not fit.
        TypeError: positions or sizes that are not integers.

    Source: Raffel et al. 2020, section 2.1; transformers 5.24.0, `T5Attention`.

    Example:
        >>> t5_buckets(torch.tensor([200]), torch.tensor([200, 199, 180, 0]))
        tensor([[ 0,  1, 17, 31]])
    """
    q_places = check_positions("q_positions", q_positions)
    batch = len(q_places) if len(q_places) > 1 else None
    k_places = check_positions("k_positions", k_positions, batch)
    num_buckets = check_integer("num_buckets", num_buckets)
    max_distance = check_integer("max_distance", max_distance)
    ways = 2 if bidirectional else 1
    buckets = num_buckets // ways  # of one direction
    near = buckets // 2
    if near < 1 or max_distance <= near:
        raise ValueError(
            f"{num_buckets} buckets and max_distance {max_distance}: needs at least "
            f"{2 * ways} buckets, and a distance above the {near} nearest"
        )
    if num_buckets % ways:
        raise ValueError(f"num_buckets must be even in both ways, got {num_buckets}")
    back = q_places[:, :, None] - k_places[:, None, :]  # [1 or B, Tq, Tk]
    if q_positions.dim() == k_positions.dim() == 1:
        back = back[0]
    distance = back.abs() if bidirectional else back.clamp(min=0)  # [.., Tq, Tk]
    share = (distance.clamp(min=1).float() / near).log() / math.log(max_distance / near)
    far = (near + (share * (buckets - near)).long()).clamp(max=buckets - 1)
    found = torch.where(distance < near, distance, far)
    return found + buckets * (back < 0) if bidirectional else found


class T5RelativeBias(nn.Module):
    """Look up a learned bias for each distance: ALiBi's slopes, learned and free.

    T5 adds it to q·kᵀ without 1/√D: `attention(q, k, v, bias=bias, scale=1.0)`.

    Args:
        num_heads: query heads.
        bidirectional, num_buckets, max_distance: as for `t5_buckets`.
        std: standard deviation of the start.

    Source: Raffel et al. 2020, section 2.1.

    Example:
        >>> bias = T5RelativeBias(num_heads=4)
        >>> bias(torch.arange(3), torch.arange(5)).shape
        torch.Size([1, 4, 3, 5])
    """

    def __init__(
        self,
        num_heads: int,
        bidirectional: bool = False,
        num_buckets: int = 32,
        max_distance: int = 128,
        std: float = 0.02,
    ):
        super().__init__()
        heads, here = check_size("num_heads", num_heads), torch.arange(1)
        t5_buckets(here, here, bidirectional, num_buckets, max_distance)  # checks
        self.bidirectional, self.max_distance = bidirectional, max_distance
        self.weight = nn.Parameter(torch.empty(num_buckets, heads))  # [buckets, H]
        self.std = number("std", std, at_least=0)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the biases anew."""
        nn.init.normal_(self.weight, std=self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Build the bias `[1 or B, H, Tq, Tk]` of these positions.

        Args:
            q_positions: integers `[Tq]` or `[B, Tq]`.
            k_positions: integers `[Tk]` or `[B, Tk]`.
        """
        options = self.bidirectional, len(self.weight), self.max_distance
        buckets = t5_buckets(q_positions, k_positions, *options)  # [.., Tq, Tk]
        bias = self.weight[buckets].movedim(-1, -3)  # [.., H, Tq, Tk]
        return bias if bias.dim() == 4 else bias[None]
