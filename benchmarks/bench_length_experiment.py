"""Train short, test long: every encoding of `lib.length_experiment`, three seeds.

`python -m benchmarks.bench_length_experiment` prints two tables and saves
`results/length_experiment.json`; chapter 14 reads it. The encodings that need training
run once more from a smaller start, and ALiBi without extra weight on the answers, to
see what hangs on it. Some ten minutes on one processor core; a graphics card is used
where there is one.
"""

import dataclasses
import statistics

from benchmarks.common import save, table
from lib.length_experiment import ENCODINGS, SETTINGS, Result, compare, pick_encodings

SEEDS = (0, 1, 2)
PLAIN = ("none", "sinusoidal", "learned", "RoPE", "ALiBi", "T5")
SMALL_START = 0.02  # standard deviation, as in GPT-2
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
    for name in dict.fromkeys(result.encoding for result in results):
        found = [getattr(r, measure) for r in results if r.encoding == name]
        row: dict[str, object] = {measure: name}
        for length in found[0]:
            some = [f[length] for f in found]
            low, high = min(some), max(some)
            row[str(length)] = f"{statistics.fmean(some):.2f} ({low:.2f} to {high:.2f})"
        rows.append(row)
    return rows


def main() -> None:
    setting = SETTINGS["cpu"]
    results = compare(ENCODINGS, setting, SEEDS)
    small = dataclasses.replace(setting.model, std=SMALL_START)
    other = dataclasses.replace(setting, model=small)
    started = compare(pick_encodings(*PLAIN), other, SEEDS)
    light = dataclasses.replace(setting, answer_weight=0.0)
    unweighted = compare(pick_encodings("ALiBi"), light, SEEDS)
    for measure in ("loss", "recalled"):
        print(table(spread(results, measure)), end="\n\n")
        print(f"from a start of {SMALL_START}")
        print(table(spread(started, measure)), end="\n\n")
        print("answers without extra weight")
        print(table(spread(unweighted, measure)), end="\n\n")
    payload = {
        "setting": {
            **dataclasses.asdict(setting),
            "model": dataclasses.asdict(setting.config),
        },
        "places": PLACES,
        "results": [stored(result) for result in results],
        "small_start": SMALL_START,
        "results_small_start": [stored(result) for result in started],
        "results_unweighted": [stored(result) for result in unweighted],
    }
    print(save("length_experiment", payload))


if __name__ == "__main__":
    main()
