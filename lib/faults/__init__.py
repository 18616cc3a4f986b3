"""Real, public faults of encodings, each beside its sound form and tried by checks."""

from lib.faults.checks import CHECKS, checks_that_catch
from lib.faults.registry import FAULTS, SOUND, Fault

__all__ = ["CHECKS", "FAULTS", "SOUND", "Fault", "checks_that_catch"]
