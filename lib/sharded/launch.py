"""Processes on one machine: started, watched, ended."""

import faulthandler
import os
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as dist
from torch.multiprocessing import _prctl_pr_set_pdeathsig, start_processes

from lib.checks import check_size, number

GRACE = 1.0  # seconds that the others get to end by themselves after the first failure
FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')


def run_processes(
    function: Callable, processes: int, *args, timeout: float = 60, backend="gloo"
) -> list:
    """Run a function in several processes of this machine and return what each returns.

    Each is a new Python with a process group of its own kind. They meet in a fresh
    folder, so no port is named and two runs do not meet. The function may be one of a
    notebook. Nothing is left behind: when one process is killed or raises, or time is
    up, all are ended; and each ends itself when time is up, or with its parent.

    Args:
        function: what to run; `torch.distributed.get_rank()` tells it which it is.
        processes: how many.
        args: its arguments, which are pickled.
        timeout: seconds for everything, starting included.
        backend: "gloo", or "nccl" with a graphics card for each process.

    Returns:
        The results, by rank.

    Raises:
        RuntimeError: a process was killed or raised; the message names rank, signal or
            traceback, and seconds.
        TimeoutError: the processes were not done in time; the message says where each
            stood.

    Example:
        >>> import torch.distributed as dist
        >>> run_processes(dist.get_world_size, 1)
        [1]
    """
    processes = check_size("processes", processes)
    timeout = number("timeout", timeout, above=0)
    begin = time.time()
    with tempfile.TemporaryDirectory(prefix="ranks_") as name:
        folder = Path(name)
        (folder / "work").write_bytes(cloudpickle.dumps((function, args)))
        given = processes, folder, begin + timeout, backend
        context = start_processes(_run_rank, given, processes, join=False)
        try:
            codes = _wait(context.processes, begin + timeout + 2 * GRACE)
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        if any(codes.get(rank) != 0 for rank in range(processes)):
            raise _failure(codes, processes, folder, time.time() - begin, timeout)
        files = [folder / f"{rank}.result" for rank in range(processes)]
        return [pickle.loads(file.read_bytes()) for file in files]


def _run_rank(rank: int, processes: int, folder: Path, end: float, backend: str):
    """What a new process does."""
    _prctl_pr_set_pdeathsig(signal.SIGKILL)
    left = max(0.1, end - time.time())
    with open(folder / f"{rank}.stuck", "w") as stuck:
        faulthandler.dump_traceback_later(left, exit=True, file=stuck)
        try:
            if backend == "nccl":
                torch.cuda.set_device(rank)
            dist.init_process_group(
                backend,
                init_method=f"file://{folder}/meeting",
                rank=rank,
                world_size=processes,
                timeout=timedelta(seconds=left),
            )
            function, args = pickle.loads((folder / "work").read_bytes())
            result = cloudpickle.dumps(function(*args))
            (folder / f"{rank}.result").write_bytes(result)
            dist.destroy_process_group()
        except Exception:
            (folder / f"{rank}.error").write_text(traceback.format_exc())
            sys.stdout.flush()
            os._exit(1)
        faulthandler.cancel_dump_traceback_later()


def _wait(processes: list, end: float) -> dict[int, int]:
    """Wait until all are done or one has failed; returns what the ended exited with."""
    codes: dict[int, int] = {}
    while len(codes) < len(processes) and time.time() < end:
        left = {p.sentinel: i for i, p in enumerate(processes) if i not in codes}
        for sentinel in wait(list(left), timeout=max(0, end - time.time())):
            process = processes[left[sentinel]]
            process.join()
            codes[left[sentinel]] = process.exitcode
        if any(codes.values()):
            end = min(end, time.time() + GRACE)
    return codes


def _failure(codes, processes, folder, seconds, timeout) -> Exception:
    """Say what went wrong first: a signal, an error, or nothing in time."""
    for rank, code in codes.items():
        if code < 0:
            name = signal.Signals(-code).name
            return RuntimeError(
                f"rank {rank} of {processes} was ended by {name} after "
                f"{seconds:.1f} s, and the others were then stopped"
            )
    errors = sorted(folder.glob("*.error"), key=lambda file: file.stat().st_mtime_ns)
    if errors:
        first = errors[0]
        return RuntimeError(
            f"rank {first.stem} of {processes} raised after {seconds:.1f} s, and the "
            f"others were then stopped\n\n{first.read_text()}"
        )
    late = [rank for rank in range(processes) if codes.get(rank) != 0]
    places = [f"rank {rank} {_place(folder / f'{rank}.stuck')}" for rank in late]
    return TimeoutError(
        f"{processes} processes were not done in {timeout:g} s: {'; '.join(places)}"
    )


def _place(file: Path) -> str:
    """Say where a process stood when time was up: innermost frame and its caller."""
    threads = file.read_text().split("Thread ") if file.exists() else [""]
    frames = FRAME.findall(threads[-1])  # of the main thread
    if not frames:
        return "gave no sign"
    own = [frame for frame in frames if "site-packages" not in frame[0]] or frames
    inner, outer = (
        f"{function} ({Path(path).name}, line {line})"
        for path, line, function in (frames[0], own[0])
    )
    return f"stood in {inner}" + (f", called from {outer}" if outer != inner else "")
