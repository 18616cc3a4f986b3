"""Run every check of the project; stop after the first stage that fails.

`python tools/test.py` runs the linters, then builds the book and tests `lib`, the tools
and the built pages, and beside all that runs the notebooks, whose outputs are compared
with those that are stored. `--quick` leaves out what needs a browser, the built pages
or a notebook, and tests marked slow: those that compile, train for seconds, start other
processes or read the language model. `--portable` compares the notebooks once more, on
two threads and with the plainest instruction set, which takes some of them minutes.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# conftest.py puts the longest files first; xdist is to keep that order.
PARALLEL = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
TESTS = ["tests", "lib"]
NOTEBOOKS = [
    "--nbval",
    "--nbval-sanitize-with=tests/nbval_sanitize.cfg",
    "chapters",
    "appendices",
]
# Read by every Python started: a file that refuses connections to other machines.
OFFLINE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "offline"), str(ROOT)])}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Threads that wait are to sleep: two notebooks at a time share the cores.
TWO_PLAIN_THREADS = {
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "ATEN_CPU_CAPABILITY": "default",
}

# A check is the commands that follow one another, and the environment they run in.
LINT = (
    ([["-m", "ruff", "check", "--quiet", "."]], {}),
    ([["-m", "ruff", "format", "--check", "--quiet", "."]], {}),
    ([["-m", "codespell_lib"]], {}),
)
BUILD = ["tools/build.py"]
PYTEST = ["-m", "pytest", *PARALLEL]
QUICK = [*PYTEST, *TESTS, "--ignore=tests/book", "-m", "not slow"]
# What is run side by side: a browser's tests wait now and then, and notebooks fill in.
# They are processes of their own, because Playwright's loop stops those of kernels.
CHECKS = {
    "": (
        LINT,
        (
            ([BUILD, [*PYTEST, *TESTS]], ONE_THREAD),
            ([[*PYTEST, *NOTEBOOKS]], OFFLINE | ONE_THREAD),
        ),
    ),
    "--quick": ((([QUICK], ONE_THREAD), *LINT),),
    "--portable": ((([[*PYTEST, *NOTEBOOKS]], OFFLINE | TWO_PLAIN_THREADS),),),
}


def start(commands, settings, **options) -> list[subprocess.CompletedProcess]:
    """Run commands one after another, up to the first that fails."""
    ended = []
    options |= {"cwd": ROOT, "env": os.environ | settings}
    for command in commands:
        ended.append(subprocess.run([sys.executable, *command], **options))
        if ended[-1].returncode:
            break
    return ended


def run(checks: tuple) -> None:
    """Run checks side by side; the first speaks at once, the others when all end."""
    later = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    first, *others = checks
    titles = [
        " ".join([*(f"{k}={v}" for k, v in settings.items()), *chain(*commands)])
        for commands, settings in checks
    ]
    print(f"\n$ {titles[0]}", flush=True)
    with ThreadPoolExecutor() as pool:
        beside = [pool.submit(start, *check, **later) for check in others]
        ended = [start(*first), *(other.result() for other in beside)]
    for title, other in zip(titles[1:], ended[1:], strict=True):
        print(f"\n$ {title}\n{other[-1].stdout}", flush=True)
    for title, processes in zip(titles, ended, strict=True):
        if status := processes[-1].returncode:
            raise SystemExit(f"\nfailed with exit status {status}: {title}")


def main(option: str = "") -> None:
    for checks in CHECKS[option]:
        run(checks)
    print("\nAll checks passed.")


if __name__ == "__main__":
    main(*sys.argv[1:])
