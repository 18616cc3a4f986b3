"""Processes on one machine: started, watched, ended."""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as dist

from lib.checks import check_size, number

GRACE = 1.0  # seconds that the others get to end by themselves after the first failure
FRAME = re.compile(r'File "(.+)", line (\d+) in (\S+)')


def run_processes(
    function: Callable, processes: int, *args, timeout: float = 60, backend="gloo"
) -> list:
    """Run a function in several processes of this machine and return what each returns.

    Each is a new Python, and together they are one process group. They meet in a fresh
    folder, so no port is named and two runs do not meet. The function may be one of a
    notebook; in a script the call stands under `if __name__ == "__main__"`. When one
    process is killed or raises, or time is up, all are ended, with the processes that
    they have started themselves; and each ends itself when time is up, or with its
    parent.

    Args:
        function: what to run; `torch.distributed.get_rank()` tells it which it is.
        processes: how many.
        args: its arguments, which are pickled, as the results are.
        timeout: seconds for everything. Starting is a part of it: each process imports
            torch, some seconds of work.
        backend: "gloo", or "nccl" with a graphics card for each process.

    Returns:
        The results, by rank.

    Raises:
        RuntimeError: a process was killed, raised or ended early; the message names
            rank, signal, traceback or exit status, and seconds.
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
        codes = _run_all(processes, folder, begin + timeout, backend)
        if any(codes.get(rank) != 0 for rank in range(processes)):
            raise _failure(codes, processes, folder, time.time() - begin, timeout)
        files = [folder / f"{rank}.result" for rank in range(processes)]
        return [pickle.loads(file.read_bytes()) for file in files]


def _run_all(processes: int, folder: Path, end: float, backend: str) -> dict[int, int]:
    """Start all, wait, and leave none behind; returns what the ended exited with."""
    start = multiprocessing.get_context("spawn").Process
    given = processes, folder, end, backend
    workers = [start(target=_run_rank, args=(r, *given)) for r in range(processes)]
    try:
        for worker in workers:
            worker.start()
        return _wait(workers, end + 2 * GRACE)
    finally:
        for worker in workers:
            _end(worker)


def _end(worker) -> None:
    """End a process and those that it has started."""
    if worker.pid is None:  # it never was one
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, signal.SIGKILL)
    worker.kill()
    worker.join()


def _run_rank(rank: int, processes: int, folder: Path, end: float, backend: str):
    """What a new process does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "setsid"):
        os.setsid()  # what it starts is ended with it
    left = max(0.1, end - time.time())
    with open(folder / f"{rank}.stuck", "w") as stuck:
        faulthandler.dump_traceback_later(left, exit=True, file=stuck)
        try:
            _join(rank, processes, folder, left, backend)
            function, args = pickle.loads((folder / "work").read_bytes())
            result = cloudpickle.dumps(function(*args))
            dist.barrier()  # none leaves while another still needs it
            (folder / f"{rank}.result").write_bytes(result)
            dist.destroy_process_group()
        except BaseException:
            (folder / f"{rank}.error").write_text(traceback.format_exc())
            sys.stdout.flush()
            os._exit(1)
        faulthandler.cancel_dump_traceback_later()


def _end_with_parent() -> None:
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _join(rank: int, processes: int, folder: Path, seconds: float, backend: str):
    """Join the others, and wait until all have."""
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        store=dist.FileStore(str(folder / "meeting"), processes),
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=seconds),
    )
    dist.barrier()


def _wait(workers: list, end: float) -> dict[int, int]:
    """Wait until all are done or one has failed; returns what the ended exited with."""
    codes: dict[int, int] = {}
    while len(codes) < len(workers) and time.time() < end:
        left = {w.sentinel: rank for rank, w in enumerate(workers) if rank not in codes}
        for sentinel in wait(list(left), timeout=max(0, end - time.time())):
            worker = workers[left[sentinel]]
            worker.join()
            codes[left[sentinel]] = worker.exitcode
        if any(codes.values()):
            end = min(end, time.time() + GRACE)
    return codes


def _failure(codes, processes, folder, seconds, timeout) -> Exception:
    """Say what went wrong first.

    What a process suffers, or does without a word, comes before what one raises: that
    may be no more than the loss of the other. Only an abort may follow from an error.
    """
    then = f"after {seconds:.1f} s, and the others were then stopped"
    stuck = {rank: _text(folder / f"{rank}.stuck") for rank in range(processes)}
    errors = sorted(folder.glob("*.error"), key=lambda file: file.stat().st_mtime_ns)
    for rank, code in codes.items():
        spoke = stuck[rank] or not _is_silent(folder, rank, code)
        if spoke or (code == -signal.SIGABRT and errors):
            continue
        how = f"ended with exit status {code} and no result (see its output)"
        how = f"was ended by {_name_of(-code)}" if code < 0 else how
        return RuntimeError(f"rank {rank} of {processes} {how} {then}")
    if errors:
        first = errors[0]
        said = f"rank {first.stem} of {processes} raised {then}"
        return RuntimeError(f"{said}\n\n{first.read_text()}")
    late = [rank for rank in stuck if codes.get(rank) != 0]
    places = "; ".join(f"rank {rank} {_place(stuck[rank])}" for rank in late)
    said = f"{processes} processes were not done in {timeout:g} s"
    return TimeoutError(f"{said}: {places}")


def _is_silent(folder: Path, rank: int, code: int) -> bool:
    """Whether a process has ended without its result and without its error."""
    done = (folder / f"{rank}.result").exists() and code == 0
    return not done and not (folder / f"{rank}.error").exists()


def _name_of(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _place(stuck: str) -> str:
    """Say where a process stood when time was up: innermost frame and its caller."""
    frames = FRAME.findall(stuck.split("Thread ")[-1])  # of the main thread
    if not frames:
        return "gave no sign"
    own = [frame for frame in frames if "site-packages" not in frame[0]] or frames
    inner, outer = (
        f"{function} ({Path(path).name}, line {line})"
        for path, line, function in (frames[0], own[0])
    )
    return f"stood in {inner}" + (f", called from {outer}" if outer != inner else "")
