"""Train short, test long: every encoding of `lib.length_experiment`, three seeds.

`python -m benchmarks.bench_length_experiment` prints two tables and saves
`results/length_experiment.json`; chapter 14 reads it. Some eight minutes on one
processor core; a graphics card is used where there is one.
"""

import dataclasses
import statistics
import time

from benchmarks.common import save, table
from lib.length_experiment import ENCODINGS, SETTINGS, Result, compare

SEEDS = (0, 1, 2)
PLACES = 8  # a stored point of the loss by place is the mean of so many


def stored(result: Result) -> dict:
    """Round a result for storing, and average its places by eights."""
    places = result.by_place
    starts = range(0, len(places), PLACES)
    means = [statistics.fmean(places[start : start + PLACES]) for start in starts]
    return {
        "encoding": result.encoding,
        "seed": result.seed,
        "loss": {str(n): round(x, 4) for n, x in result.loss.items()},
        "recalled": {str(n): round(x, 4) for n, x in result.recalled.items()},
        "by_place": " ".join(f"{mean:.3f}" for mean in means),
    }


def spread(results: list[Result], measure: str) -> list[dict]:
    """One row an encoding: the mean over seeds at each length, and the range."""
    rows = []
    for name in ENCODINGS:
        found = [getattr(r, measure) for r in results if r.encoding == name]
        row: dict[str, object] = {measure: name}
        for length in found[0]:
            some = [f[length] for f in found]
            low, high = min(some), max(some)
            row[str(length)] = f"{statistics.fmean(some):.2f} ({low:.2f} to {high:.2f})"
        rows.append(row)
    return rows


def main() -> None:
    setting, begin = SETTINGS["cpu"], time.perf_counter()
    results = compare(ENCODINGS, setting, SEEDS)
    minutes = (time.perf_counter() - begin) / 60
    for measure in ("loss", "recalled"):
        print(table(spread(results, measure)), end="\n\n")
    payload = {
        "setting": {
            **dataclasses.asdict(setting),
            "model": dataclasses.asdict(setting.config),
        },
        "places": PLACES,
        "minutes": round(minutes, 1),
        "results": [stored(result) for result in results],
    }
    print(save("length_experiment", payload))


if __name__ == "__main__":
    main()
