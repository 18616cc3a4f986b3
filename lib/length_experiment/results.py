"""What came out: one record for each encoding and seed, and what is read from them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

MEASURES = ("loss", "recalled", "by_place")


@dataclass(frozen=True)
class Result:
    """What one encoding came to with one seed.

    Args:
        encoding: its name.
        seed: of the weights and of the order of the rows.
        loss: length → mean loss of all characters, in nats.
        recalled: length → share of the hidden digits that were named.
        by_place: loss along the longest rows, in nats: mean at each place, or of as
            many places in a row as were stored together.
    """

    encoding: str
    seed: int
    loss: dict[int, float]
    recalled: dict[int, float]
    by_place: list[float]


def load_results(path: str | Path, part: str = "results") -> list[Result]:
    """Read the results that `benchmarks/bench_length_experiment.py` stores.

    Args:
        path: of the JSON file.
        part: "results"; "results_small_start" for those from a smaller start, and
            "results_unweighted" for ALiBi with answers that weigh as any character.

    Returns:
        One result for each seed and encoding.
    """
    stored = json.loads(Path(path).read_text(encoding="utf-8"))[part]
    return [
        Result(
            row["encoding"],
            row["seed"],
            {int(length): loss for length, loss in row["loss"].items()},
            {int(length): share for length, share in row["recalled"].items()},
            [float(loss) for loss in row["by_place"].split()],
        )
        for row in stored
    ]


def over_seeds(results: Sequence[Result], encoding: str, measure: str) -> Tensor:
    """Stack one measure of one encoding, a row a seed.

    Args:
        results: of any encodings.
        encoding: the one to look at.
        measure: "loss" or "recalled", by length; "by_place", along the longest rows.

    Returns:
        float32 `[seeds, lengths]` or `[seeds, places]`.

    Raises:
        KeyError: an encoding without a result.
        ValueError: an unknown measure.

    Example:
        >>> one = Result("none", 0, {32: 2.25}, {32: 1.0}, [2.25])
        >>> over_seeds([one, one], "none", "loss").tolist()
        [[2.25], [2.25]]
    """
    if measure not in MEASURES:
        known = ", ".join(MEASURES)
        raise ValueError(f"measure must be one of {known}, got {measure!r}")
    found = [getattr(r, measure) for r in results if r.encoding == encoding]
    if not found:
        known = ", ".join(dict.fromkeys(r.encoding for r in results))
        raise KeyError(f"no result of {encoding!r}; there are {known}")
    rows = [list(some.values()) if isinstance(some, dict) else some for some in found]
    return torch.tensor(rows)
