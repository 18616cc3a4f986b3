"""The notebooks' guard against the network: it must stop what it promises to stop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[1] / "offline"


def run(code: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(GUARD)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


FAR = "('192.0.2.1', 80)"
STREAM = "socket.socket(socket.AF_INET, socket.SOCK_STREAM)"
DATAGRAM = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
ASYNCIO = "import asyncio; asyncio.run(asyncio.open_connection('192.0.2.1', 80))"


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('example.org', 80), timeout=5)",
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)",
        "import socket; socket.socket().connect(('192.0.2.1', 80))",
        "import socket; socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
        "import urllib.request as u; u.urlopen('http://example.org', timeout=5)",
        "import socket; socket.getaddrinfo(b'example.org', 80)",
    ],
)
def test_other_hosts_are_refused(code):
    result = run(code)
    assert result.returncode != 0
    assert "the book runs without a network" in result.stderr


def test_this_machine_is_not():
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "socket.create_connection(('localhost', s.getsockname()[1])); print('open')"
    )
    assert run(code).stdout == "open\n"


@pytest.mark.parametrize(
    "call",
    [
        f"{STREAM}.connect_ex({FAR})",
        f"{DATAGRAM}.connect({FAR})",
        f"{DATAGRAM}.sendto(b'1', {FAR})",
        f"{DATAGRAM}.sendto(b'1', 0, {FAR})",
        f"{DATAGRAM}.sendmsg([b'1'], [], 0, {FAR})",
        "socket.gethostbyname('example.org')",
        "socket.gethostbyname_ex('example.org')",
        "socket.gethostbyaddr('192.0.2.1')",
        "import _socket; _socket.getaddrinfo('example.org', 80)",
        f"import _socket; _socket.socket().connect({FAR})",
        ASYNCIO,
    ],
)
def test_p18_no_call_leads_around_the_guard(call):
    result = run(f"import socket; socket.setdefaulttimeout(5); {call}")
    assert result.returncode != 0
    assert "the book runs without a network" in result.stderr


def test_p18_datagrams_and_sockets_in_files_stay_open(tmp_path):
    code = [
        "import os, socket",
        f"os.chdir({str(tmp_path)!r})",
        f"here = {DATAGRAM}",
        "here.bind(('127.0.0.1', 0))",
        f"{DATAGRAM}.sendto(b'sent', here.getsockname())",
        "there = socket.socket(socket.AF_UNIX)",
        "there.bind('file')",
        "there.listen()",
        "near = socket.socket(socket.AF_UNIX)",
        "assert near.connect_ex('file') == 0",
        "near.sendmsg([b'over a file'])",
        "socket.gethostbyname('localhost')",
        "print(here.recv(9), there.accept()[0].recv(99))",
    ]
    assert run("\n".join(code)).stdout == "b'sent' b'over a file'\n"
