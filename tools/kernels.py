"""Kernels that talk through files, so that two of them never meet on one port.

Jupyter picks free ports, lets them go, and the kernel takes them again a second later:
whoever asks in between gets the same ones. The managers here give each kernel sockets
in a folder that this process has for itself. Where the system has no sockets in files
(Windows), they leave ports as they are.
"""

import atexit
import itertools
import tempfile
from pathlib import Path

import zmq
from jupyter_client import manager

_folder = None
_numbers = itertools.count()


def own_sockets() -> dict[str, str]:
    """Name sockets for one kernel, which no other kernel of any process has."""
    global _folder
    if not zmq.has("ipc"):
        return {}
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="kernels-")
        atexit.register(_folder.cleanup)
    return {"transport": "ipc", "ip": str(Path(_folder.name, str(next(_numbers))))}


class KernelManager(manager.KernelManager):
    """Jupyter's manager; its kernel has sockets of its own."""

    def __init__(self, **settings):
        super().__init__(**own_sockets(), **settings)


class AsyncKernelManager(manager.AsyncKernelManager):
    """The same for nbclient, which waits for its kernels in another way."""

    def __init__(self, **settings):
        super().__init__(**own_sockets(), **settings)
