"""What the ranks send each other: counted, and by formula."""

from collections import Counter

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lib.checks import check_size

NAMES = {  # of torch's operations that are called otherwise than its functions
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
}


class Traffic(TorchDispatchMode):
    """Count the bytes that this rank hands to collectives, forward and backward.

    It sees every operation that torch dispatches, those inside of `DTensor` too. What
    it counts is the tensor that goes in; how often that travels is the backend's
    affair. A ring sends an all-reduce's tensor 2 (n − 1)/n times.

    After the `with` block `bytes` and `calls` hold the sums by kind, such as
    "all_reduce"; barriers do not count.

    Example:
        >>> import torch.distributed as dist
        >>> store = dist.HashStore()
        >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> with Traffic() as traffic:
        ...     dist.all_reduce(torch.ones(10))
        >>> dict(traffic.bytes), dict(traffic.calls)
        ({'all_reduce': 40}, {'all_reduce': 1})
        >>> dist.destroy_process_group()
    """

    def __init__(self):
        super().__init__()
        self.bytes, self.calls = Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # until it has come down to plain tensors
        kind = _kind_of(func)
        if kind:
            tensors = [
                x for x in tree_leaves(_given(func, args)) if isinstance(x, Tensor)
            ]
            self.bytes[kind] += sum(x.nbytes for x in tensors)
            self.calls[kind] += 1
        return func(*args, **(kwargs or {}))


def _kind_of(func) -> str | None:
    """Name a collective as `torch.distributed` does; None for what is none."""
    if func.namespace not in ("c10d", "_c10d_functional"):
        return None
    name = func._schema.name.split("::")[1].rstrip("_")
    if name.startswith(("wait", "_wrap", "barrier", "monitored_barrier")):
        return None
    return NAMES.get(name, name)


def _given(func, args) -> list:
    """The arguments of a collective that go in; those that come out are others."""
    names = [argument.name for argument in func._schema.arguments]
    pairs = list(zip(names, args, strict=False))
    given = [x for name, x in pairs if name.startswith("input")]
    return given or [x for name, x in pairs if name.startswith("tensor")] or args[:1]


def step_traffic(tokens: int, dim: int, dtype: torch.dtype) -> dict[str, int]:
    """Say how many bytes a rank hands to all-reduces in one training step.

    Args:
        tokens: N, of the lookup and of the loss.
        dim: width d of table and hidden states.
        dtype: that of table and hidden states; sums are float32, or float64 for it.

    Returns:
        Bytes of the lookup's rows, N·d; of the loss, 3 numbers a token; and of the
        hidden states' gradient in the backward pass, N·d. None depends on V or on the
        number of processes.

    Example:
        >>> step_traffic(4_096, 1_024, torch.float32)
        {'lookup': 16777216, 'loss': 49152, 'backward': 16777216}
    """
    tokens, dim = check_size("tokens", tokens, at_least=0), check_size("dim", dim)
    wide = torch.promote_types(dtype, torch.float32).itemsize
    return {
        "lookup": tokens * dim * dtype.itemsize,
        "loss": 3 * tokens * wide,
        "backward": tokens * dim * wide,
    }
