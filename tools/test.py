"""Run every check of the project; stop at the first that fails.

`python tools/test.py` runs the linters, then in one go the tests of `lib`, of the tools
and of the built pages, and all notebooks, whose outputs are compared with those that
are stored. `python tools/test.py --quick` leaves out what needs a browser, the built
pages or a notebook, and tests marked slow: those that compile, train for seconds, start
other processes or read the language model. `python tools/test.py --portable` compares
the notebooks once more, on two threads and with the plainest instruction set, which
takes some of them minutes.
"""

import os
import subprocess
import sys
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

LINT = (
    (["ruff", "check", "--quiet", "."], {}),
    (["ruff", "format", "--check", "--quiet", "."], {}),
    (["codespell_lib"], {}),
)
PYTEST = ["pytest", *PARALLEL]
WITHOUT_BOOK = [*PYTEST, *TESTS, "--ignore=tests/book", "-m", "not slow"]
CHECKS = {
    "": (*LINT, ([*PYTEST, *TESTS, *NOTEBOOKS], OFFLINE | ONE_THREAD)),
    "--quick": (*LINT, (WITHOUT_BOOK, ONE_THREAD)),
    "--portable": (([*PYTEST, *NOTEBOOKS], OFFLINE | TWO_PLAIN_THREADS),),
}


def main(option: str = "") -> None:
    for arguments, settings in CHECKS[option]:
        shown = " ".join([*(f"{k}={v}" for k, v in settings.items()), *arguments])
        print(f"\n$ {shown}", flush=True)
        command = [sys.executable, "-m", *arguments]
        status = subprocess.run(command, cwd=ROOT, env=os.environ | settings).returncode
        if status:
            raise SystemExit(f"\nfailed with exit status {status}: {shown}")
    print("\nAll checks passed.")


if __name__ == "__main__":
    main(*sys.argv[1:])
