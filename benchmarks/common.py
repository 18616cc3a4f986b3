"""What the benchmarks share: fair timing, the machine's description, the results."""

import ctypes
import datetime
import gc
import importlib.metadata
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import torch

RESULTS = pathlib.Path(__file__).parent / "results"
PR_SET_THP_DISABLE = 41  # of Linux's prctl.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # of glibc's malloc.h
SETTINGS = ("THP_MEM_ALLOC_ENABLE", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY")


def interleave(
    functions: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 0
) -> dict[str, list[float]]:
    """Time functions in turn, so that a slow moment of the machine hits all alike.

    Each round calls every function once, in an order of its own (always the same for
    that round): what ran before leaves caches and memory in a state that one neighbour
    gains from and another pays for.

    Args:
        functions: name → function of no arguments; what it returns is dropped.
        rounds: timed calls of each function.
        warmup: calls of each function before the clock starts.

    Returns:
        name → the `rounds` durations in seconds.

    Raises:
        ValueError: rounds is below 1, or warmup below 0.

    Example:
        >>> times = interleave({"a": lambda: None, "b": lambda: None}, rounds=3)
        >>> {name: len(seconds) for name, seconds in times.items()}
        {'a': 3, 'b': 3}
    """
    if rounds < 1 or warmup < 0:
        raise ValueError(f"needs rounds ≥ 1 and warmup ≥ 0, got {rounds} and {warmup}")
    names = list(functions)
    times: dict[str, list[float]] = {name: [] for name in names}
    for index in range(-warmup, rounds):
        for name in random.Random(index).sample(names, len(names)):
            seconds = _seconds(functions[name])
            if index >= 0:
                times[name].append(seconds)
    return times


def _seconds(function: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        return _seconds_of_card(function)
    _wait_for_device()
    begin = time.perf_counter()
    function()
    _wait_for_device()
    return time.perf_counter() - begin


def _seconds_of_card(function: Callable[[], object]) -> float:
    """Let the card itself stamp begin and end: calls return before it is done."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3  # it counts milliseconds


def _wait_for_device() -> None:
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Reduce the lists of `interleave` to their medians.

    Example:
        >>> medians({"a": [3.0, 1.0, 2.0]})
        {'a': 2.0}
    """
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def peak_extra_bytes(function: Callable[[], object]) -> int:
    """Run a function once and measure how far memory rose above where it began.

    On CUDA this is the allocator's own peak; elsewhere the peak of the process's
    resident memory, which Linux lets a process reset.

    Args:
        function: a function of no arguments.

    Returns:
        Bytes.

    Raises:
        OSError: neither CUDA nor a Linux kernel is there to ask.
    """
    if torch.cuda.is_available():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function()
        return torch.cuda.max_memory_allocated() - before
    _ready_for_a_peak(True)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _resident("VmRSS")
    try:
        function()
        return max(0, _resident("VmHWM") - before)
    finally:
        _ready_for_a_peak(False)


def _ready_for_a_peak(ready: bool) -> None:
    """Have each byte count once: no freed pages to take up again, no huge pages.

    Where a function reuses what the process has freed but kept, its peak would not
    show; and a huge page counts in full, 2 MiB, whatever part of it is used.
    """
    gc.collect()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        getattr(libc, "malloc_trim", lambda _: None)(0)  # of glibc
        libc.prctl(PR_SET_THP_DISABLE, int(ready), 0, 0, 0)


def _resident(field: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024  # the kernel counts in KiB


def keep_freed_memory(keep: bool) -> bool:
    """Have malloc keep what is freed, as a GPU's allocator does, or hand it back.

    For times, keep it: otherwise each large result lies on new pages from the system,
    which cost more than many an operation and fall to some calls only. For peaks, hand
    it back, and take them first: what is kept would blur them.

    Args:
        keep: whether the next calls get the memory that earlier ones have freed.

    Returns:
        Whether malloc has agreed; only glibc can be told.
    """
    mallopt = None
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    options = {
        M_MMAP_MAX: 0 if keep else 65_536,
        M_MMAP_THRESHOLD: 131_072,
        M_TRIM_THRESHOLD: -1 if keep else 131_072,  # -1: never
    }
    return mallopt is not None and all(mallopt(*pair) for pair in options.items())


def machine(*packages: str) -> dict[str, object]:
    """Describe what the figures were measured on.

    Args:
        packages: distributions whose versions belong to the result, such as "gensim".

    Returns:
        Processor, cores that this process may use, torch's threads, memory in GB,
        accelerator (None without one), versions, settings and the date (UTC).

    Example:
        >>> machine()["torch"] == torch.__version__
        True
    """
    cuda = torch.cuda.is_available()
    return {
        "cpu": _cpu_name(),
        "cores": _usable_cores(),
        "torch_threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if cuda else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: importlib.metadata.version(name) for name in packages},
        "settings": {key: os.environ[key] for key in SETTINGS if key in os.environ},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    """The processor's own name, with family and model, which a virtual one hides."""
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    info = pathlib.Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    lines = (line.partition(":") for line in info.read_text().splitlines())
    facts = {key.strip(): value.strip() for key, _, value in lines}
    name = facts.get("model name", platform.machine())
    numbers = [f"{key} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def save(name: str, payload: Mapping[str, object]) -> pathlib.Path:
    """Write `benchmarks/results/<name>.json`, with the machine's description first.

    Args:
        name: the benchmark's name, without an ending.
        payload: what JSON can hold; its own "machine", if any, replaces the default.

    Returns:
        The path of the file.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps({"machine": machine(), **payload}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def load(name: str) -> dict:
    """Read `benchmarks/results/<name>.json`.

    Raises:
        FileNotFoundError: nobody has saved a result of that name.
    """
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(rows: Sequence[Mapping[str, object]], digits: int = 3) -> str:
    """Lay rows out as a Markdown table; the first row's keys are the columns.

    Args:
        rows: one mapping a line; a missing value leaves its cell empty.
        digits: significant digits of floats; whole numbers are printed in full.

    Returns:
        The table, without a final newline.

    Example:
        >>> print(table([{"way": "ours", "s": 0.12345}, {"way": "peer", "s": 2}]))
        | way | s |
        |---|---|
        | ours | 0.123 |
        | peer | 2 |
    """
    columns = list(rows[0])
    cells = [[_cell(row.get(column, ""), digits) for column in columns] for row in rows]
    lines = [columns, *cells]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(columns), *text[1:]])


def _cell(value: object, digits: int) -> str:
    if isinstance(value, float):
        large = abs(value) >= 10**digits
        return f"{value:,.0f}" if large else f"{value:.{digits}g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
