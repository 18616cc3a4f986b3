"""What the tensors of a process take, counted rather than asked of the machine."""

import weakref

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Count the bytes of tensors that are made inside, and the most at one time.

    It counts storages, when they are made and when the last tensor of one is gone, so
    the number is the same on every machine. It cannot see what a single operation
    takes and returns while it runs, nor what Python and torch themselves need.

    After the `with` block `bytes` says what is still held, and `peak` the most that
    was.

    Example:
        >>> import torch
        >>> with PeakMemory() as memory:
        ...     kept = torch.zeros(1_000) + torch.ones(1_000)
        >>> memory.peak, memory.bytes
        (12000, 4000)
    """

    def __init__(self):
        super().__init__()
        self.bytes = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # until it has come down to plain tensors
        given = _storages((args, kwargs))
        result = func(*args, **(kwargs or {}))
        for number, storage in _storages(result).items():
            if number not in given and number not in self._known:
                self._note(number, storage)
        return result

    def _note(self, number: int, storage) -> None:
        size = storage.nbytes()
        self._known.add(number)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self._free, number, size).atexit = False

    def _free(self, number: int, size: int) -> None:
        self._known.discard(number)
        self.bytes -= size


def _storages(tree) -> dict:
    """The storages of a tree's tensors; those without memory (meta, fake) left out."""
    tensors = [x for x in tree_leaves(tree) if isinstance(x, Tensor)]
    storages = [x.untyped_storage() for x in tensors]
    return {id(s): s for s in storages if s.device.type != "meta"}
