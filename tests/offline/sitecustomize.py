"""Keep a process and its children off the network, this machine excepted.

The notebooks are executed with this folder on PYTHONPATH, so Python imports this file
first. Kernels talk to the test runner over loopback, which stays open.
"""

import ipaddress
import socket

_connect, _resolve = socket.socket.connect, socket.getaddrinfo
LOCAL_NAMES = ("localhost", "", None)


def is_local(host) -> bool:
    """Whether a host is this machine."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def connect(self, address):
    """Connect to this machine only."""
    if self.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address[0]):
        raise OSError(f"the book runs without a network; something asked {address}")
    return _connect(self, address)


def resolve(host, *args, **kwargs):
    """Look up the names of this machine only."""
    if not is_local(host):
        raise OSError(f"the book runs without a network; something asked {host!r}")
    return _resolve(host, *args, **kwargs)


socket.socket.connect, socket.getaddrinfo = connect, resolve
