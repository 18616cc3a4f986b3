"""What is kept of a fault."""

from collections.abc import Callable
from dataclasses import dataclass

GITHUB = "https://github.com/"


@dataclass(frozen=True)
class Fault:
    """A real fault, as a function that is called like the sound one of its kind.

    Args:
        name: short, unique.
        kind: a key of `SOUND` and of `CHECKS`.
        source: path of the public report on GitHub.
        year: of that report.
        breaks: what is wrong, in a few words.
        make: gives a fresh broken function, with nothing remembered.

    Example:
        >>> from lib.faults import FAULTS
        >>> FAULTS["columns"].breaks
        'pads are counted'
    """

    name: str
    kind: str
    source: str
    year: int
    breaks: str
    make: Callable[[], Callable]

    @property
    def link(self) -> str:
        """Give the address of the report."""
        return GITHUB + self.source


def plain(function: Callable, kind: str, source: str, year: int, breaks: str) -> Fault:
    return Fault(function.__name__, kind, source, year, breaks, lambda: function)
