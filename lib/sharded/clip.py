"""The length of a gradient of which a part is split over processes."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Shorten the gradient of all parameters together to a length at most.

    Torch's `clip_grad_norm_` refuses a list that holds split and plain parameters. The
    plain ones are taken to be the same on all ranks, and count once.

    Args:
        parameters: plain ones, and each `DTensor` of one mesh; those without a gradient
            are left out.
        max_norm: the length allowed.

    Returns:
        The length before, the same on all ranks.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> clip_grad_norm([weight], max_norm=1.0), weight.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    found = [p.grad for p in parameters if p.grad is not None]
    split = [gradient for gradient in found if isinstance(gradient, DTensor)]
    plain = [gradient for gradient in found if not isinstance(gradient, DTensor)]
    norms = [get_total_norm(some) for some in (split, plain) if some]
    if not norms:
        return torch.zeros(())
    whole = [x.full_tensor() if isinstance(x, DTensor) else x for x in norms]
    total = torch.linalg.vector_norm(torch.stack(whole))
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)  # as torch's
    for gradient in (*(x.to_local() for x in split), *plain):
        gradient.mul_(factor)
    return total
