"""Real, public faults of encodings, each beside its sound form and tried by checks."""

from lib.faults.checks import CHECKS, checks_that_catch
from lib.faults.fault import Fault
from lib.faults.registry import FAULTS, SOUND
from lib.faults.tables import pair

__all__ = ["CHECKS", "FAULTS", "SOUND", "Fault", "checks_that_catch", "pair"]
