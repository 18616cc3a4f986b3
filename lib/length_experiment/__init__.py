"""Train short, test long: one small transformer, many encodings, the same data."""

from lib.length_experiment.encodings import (
    ENCODINGS,
    Clamped,
    Encoding,
    pick_encodings,
)
from lib.length_experiment.experiment import (
    compare,
    loss_by_place,
    recall,
    train,
)
from lib.length_experiment.results import Result, load_results, over_seeds
from lib.length_experiment.rows import (
    cut_rows,
    far_rows,
    hide_digits,
    load_characters,
)
from lib.length_experiment.settings import SETTINGS, Setting
from lib.length_experiment.sheet import FACTS, Fact, cheat_sheet
from lib.length_experiment.windows import Windowed, alibi_windows

__all__ = [
    "ENCODINGS",
    "FACTS",
    "SETTINGS",
    "Clamped",
    "Encoding",
    "Fact",
    "Result",
    "Setting",
    "Windowed",
    "alibi_windows",
    "cheat_sheet",
    "compare",
    "cut_rows",
    "far_rows",
    "hide_digits",
    "load_characters",
    "load_results",
    "loss_by_place",
    "over_seeds",
    "pick_encodings",
    "recall",
    "train",
]
