"""`tools/kernels.py`: kernels that start at once do not meet on one port."""

import json
import socket
from pathlib import Path

import kernels
import nbval.kernel
import pytest
import zmq
from jupyter_client import connect, manager
from notebooks import execute, notebook_of

needs_files = pytest.mark.skipif(not zmq.has("ipc"), reason="no sockets in files here")


@pytest.fixture
def one_set_of_ports(monkeypatch):
    """Every search for free ports finds the same five, as two searches at once may."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
    ports = [server.getsockname()[1] for server in taken]

    class Ports:
        def __init__(self):
            self.left = list(ports)

        def find_available_port(self, ip):
            return self.left.pop()

        def return_port(self, port):
            """They are never free."""

    monkeypatch.setattr(connect.LocalPortCache, "instance", staticmethod(Ports))
    yield ports
    for server in taken:
        server.close()


@needs_files
@pytest.mark.parametrize("kind", [kernels.KernelManager, kernels.AsyncKernelManager])
def test_no_two_kernels_share_a_socket(kind):
    one, other = kind(kernel_name="python3"), kind(kernel_name="python3")
    assert one.transport == other.transport == "ipc"
    assert one.ip != other.ip
    assert len(one.ip) < 90  # the system's limit is about 100
    assert Path(one.ip).parent.is_dir()


@needs_files
def test_a_kernel_starts_where_all_ports_found_are_taken(one_set_of_ports):
    notebook = execute(notebook_of(["1 + 1"]))
    assert notebook.cells[1].outputs[0]["data"]["text/plain"] == "2"


@needs_files
def test_the_notebooks_of_the_book_start_so_too(one_set_of_ports):
    kernel = nbval.kernel.RunningKernel("python3", startup_timeout=30)
    try:
        assert kernel.km.transport == "ipc"
        settings = json.loads(Path(kernel.km.connection_file).read_text("utf-8"))
        assert settings["ip"] == kernel.km.ip
    finally:
        kernel.stop()


def test_jupyter_s_own_manager_takes_the_ports_it_found(one_set_of_ports):
    """The tests above can fail: without the file sockets both kernels get these."""
    own = manager.KernelManager(kernel_name="python3")
    ports = connect.LocalPortCache.instance()
    assert own.transport == "tcp"
    assert ports.find_available_port(own.ip) in one_set_of_ports
