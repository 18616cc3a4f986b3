"""Keep a process and its children off the network, this machine excepted.

The tests and the notebooks are run with this folder on PYTHONPATH, so Python imports
this file first. Loopback and sockets in files stay open: kernels and browsers talk to
the test runner over them. Every call of Python's own that reaches out raises an audit
event first, whichever module makes it.
"""

import ipaddress
import socket
import sys

LOCAL_NAMES = ("localhost", "", None)
SENDING = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKING_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
NETWORK = (socket.AF_INET, socket.AF_INET6)


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


def refuse_others(event, arguments):
    """Stop what would leave this machine, before it does."""
    if event in SENDING:
        sender, address = arguments
        if sender.family not in NETWORK or not address or is_local(address[0]):
            return
    elif event in LOOKING_UP:
        address = arguments[0]
        if is_local(address):
            return
    else:
        return
    raise OSError(f"the book runs without a network; something asked {address!r}")


sys.addaudithook(refuse_others)
