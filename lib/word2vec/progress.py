"""How far a training is, on one line of a terminal."""

import time
from typing import TextIO

EVERY = 0.5  # seconds between two looks on a terminal
EVERY_LINE = 30.0  # and in a file, where each is a line of its own


class Progress:
    """Tell how far a training is, how fast, and how long it will take.

    Args:
        stream: where to write; a terminal is written over, a file grows.

    Attributes:
        saved: the last epoch that was reported, from 1; 0 before.

    Example:
        >>> import sys
        >>> progress = Progress(sys.stdout)
        >>> progress.begin(words=1_000, epochs=1)
        >>> progress.epoch(2.5, seconds=4)
        epoch 1 of 1, loss 2.500, 250 words/s, 0:00 left
    """

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.over = stream.isatty()
        self.saved = 0
        self.begin(0, 1)

    def begin(self, words: int, epochs: int) -> None:
        """Make ready; words are those of one epoch."""
        self.words, self.epochs = words * epochs, epochs
        self.clock: float | None = None  # until the first step

    def show(self, done: float) -> None:
        """Report the share of the training that is done, if it is time to."""
        now = time.monotonic()
        if self.clock is None:
            self.clock = self.shown = now
        if not done or now - self.shown < (EVERY if self.over else EVERY_LINE):
            return
        self.shown, seconds = now, now - self.clock
        pace, left = self.words * done / seconds, seconds * (1 - done) / done
        text = f"{done:5.1%}, {pace:,.0f} words/s, {clock(left)} left"
        self._write(f"\r{text}\x1b[K" if self.over else f"{text}\n")

    def epoch(self, loss: float, seconds: float) -> None:
        """Report a whole epoch, which is saved, its loss and how long it took."""
        self.saved += 1
        left = clock((self.epochs - self.saved) * seconds)
        pace = f"{self.words / self.epochs / seconds:,.0f} words/s, {left} left"
        self.say(f"epoch {self.saved} of {self.epochs}, loss {loss:.3f}, {pace}")

    def say(self, text: str) -> None:
        """Write a line of its own."""
        self._write(f"\r\x1b[K{text}\n" if self.over else f"{text}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def clock(seconds: float) -> str:
    """Write a time as on a clock.

    Example:
        >>> clock(75), clock(3_700)
        ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
