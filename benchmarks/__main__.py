"""Run all benchmarks, or those named: `python -m benchmarks one_hot …`."""

import subprocess
import sys
from pathlib import Path


def main(names: list[str]) -> None:
    known = sorted(
        p.stem[len("bench_") :] for p in Path(__file__).parent.glob("bench_*")
    )
    for name in names or known:
        if name not in known:
            raise SystemExit(f"no benchmark {name!r}; there are: {', '.join(known)}")
        print(f"\n== {name}", flush=True)
        # Each in a process of its own: what one leaves in memory burdens no other.
        subprocess.run([sys.executable, "-m", f"benchmarks.bench_{name}"], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
