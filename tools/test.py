"""Run every check of the project; stop at the first that fails.

`python tools/test.py` runs the linters, then the tests of `lib`, of the tools and of
the built pages, and then executes all notebooks and compares their outputs with those
that are stored. `python tools/test.py --portable` compares them once more, on two
threads and with the plainest instruction set, which takes some of them minutes.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = ["-n", "2", "--dist", "loadgroup"]
NOTEBOOKS = [
    *PARALLEL,
    "--nbval",
    "--nbval-sanitize-with=tests/nbval_sanitize.cfg",
    "-Wdefault",
    "chapters",
    "appendices",
]
# Read by every kernel: a start-up file that refuses connections to other machines.
OFFLINE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "offline"), str(ROOT)])}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Threads that wait are to sleep: two notebooks at a time share the cores.
TWO_PLAIN_THREADS = {
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "ATEN_CPU_CAPABILITY": "default",
}

CHECKS = (
    (["ruff", "check", "--quiet", "."], {}),
    (["ruff", "format", "--check", "--quiet", "."], {}),
    (["codespell_lib"], {}),
    (["pytest", *PARALLEL], ONE_THREAD),
    (["pytest", *NOTEBOOKS], OFFLINE | ONE_THREAD),
)
PORTABLE = ((["pytest", *NOTEBOOKS], OFFLINE | TWO_PLAIN_THREADS),)


def main(options: list[str]) -> None:
    for arguments, settings in PORTABLE if options == ["--portable"] else CHECKS:
        shown = " ".join([*(f"{k}={v}" for k, v in settings.items()), *arguments])
        print(f"\n$ {shown}", flush=True)
        command = [sys.executable, "-m", *arguments]
        status = subprocess.run(command, cwd=ROOT, env=os.environ | settings).returncode
        if status:
            raise SystemExit(f"\nfailed with exit status {status}: {shown}")
    print("\nAll checks passed.")


if __name__ == "__main__":
    main(sys.argv[1:])
