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
