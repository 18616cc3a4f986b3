"""What a configuration says of position, and how to show it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class PositionFacts:
    """What a model's configuration says of how it knows word order.

    The layers fall into four kinds: those that see a window only, those whose queries
    and keys are not turned, those that are recurrences instead of attention, and the
    rest, which see everything and turn.

    Args:
        name: the model as its authors call it.
        published: year and month in which it became public, "2025-04".
        config: the class of transformers 5.24.0 that describes it.
        head_dim: width of a head's queries and keys, in a layer that sees everything.
        rotary_dim: how many of these numbers are turned; 0 if none is.
        base: base of the frequencies, in a layer that sees everything; where all such
            layers are unturned, in those that turn; None if none does.
        layers: all layers.
        checkpoint: whether the values are a released checkpoint's; otherwise they are
            the defaults of the class, and checkpoints may differ.
        windowed: layers that see a window only.
        window: how many tokens a window holds.
        chunked: whether the windows are blocks that do not move along with the query.
        local_base: base in the layers with a window, where it is another.
        unturned: layers with attention and without rotation.
        recurrent: layers that are recurrences.
        decoupled: whether heads have a separate part for rotation (MLA).
        proportional: whether the turned pairs have the frequencies of the whole width.
        sections: pairs for time, height and width; empty with one position a token.
        interleaved: whether the three take turns along the frequencies.
        temperature: β; scores at place p are multiplied by 1 + β ln(1 + ⌊p / L⌋).
        temperature_length: L, in tokens.

    Example:
        >>> PositionFacts("tiny", "2026-01", "LlamaConfig", 8, 4, 1e4, 2).turned
        '4 of 8'
    """

    name: str
    published: str
    config: str
    head_dim: int
    rotary_dim: int
    base: float | None
    layers: int
    checkpoint: bool = False
    windowed: int = 0
    window: int | None = None
    chunked: bool = False
    local_base: float | None = None
    unturned: int = 0
    recurrent: int = 0
    decoupled: bool = False
    proportional: bool = False
    sections: tuple[int, ...] = ()
    interleaved: bool = False
    temperature: float | None = None
    temperature_length: int | None = None

    @property
    def turned(self) -> str:
        """How many numbers of a head are turned, in words."""
        if not self.rotary_dim:
            return f"none of {self.head_dim}"
        if self.rotary_dim == self.head_dim:
            return f"all {self.head_dim}"
        return f"{self.rotary_dim} of {self.head_dim}"

    @property
    def bases(self) -> str:
        """The base or bases, in words."""
        if self.base is None:
            return "none"
        local = f", in windows {self.local_base:,.0f}" if self.local_base else ""
        return f"{self.base:,.0f}{local}"

    @property
    def kinds(self) -> str:
        """The layers by kind, in words."""
        where = "blocks" if self.chunked else "windows"
        parts = [
            f"{self.windowed} in {where} of {self.window:,}" if self.windowed else "",
            f"{self.unturned} unturned" if self.unturned else "",
            f"{self.recurrent} recurrent" if self.recurrent else "",
        ]
        parts = [part for part in parts if part]
        return f"{self.layers}: {', '.join(parts)}" if parts else str(self.layers)

    @property
    def besides(self) -> str:
        """What else the configuration says, in words."""
        order = " in turn" if self.interleaved else " in blocks"
        sections = " + ".join(map(str, self.sections))
        parts = [
            "separate part" if self.decoupled else "",
            "proportional" if self.proportional else "",
            f"axes {sections}{order}" if sections else "",
            f"temperature {self.temperature:g} from {self.temperature_length:,}"
            if self.temperature
            else "",
        ]
        return "; ".join(part for part in parts if part)


def position_table(facts: Iterable[PositionFacts]) -> str:
    """Lay out facts as a Markdown table, the oldest model first.

    Args:
        facts: what to show, in any order.

    Returns:
        The table, with a final newline.

    Example:
        >>> tiny = PositionFacts("tiny", "2026-01", "LlamaConfig", 8, 4, 1e4, 2)
        >>> print(position_table([tiny]).splitlines()[2])
        | tiny | 2026‑01 | 4 of 8 | 10,000 | 2 |  | `LlamaConfig` |
    """
    heads = ("model", "public", "turned", "base", "layers", "besides", "read from")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for m in sorted(facts, key=lambda m: (m.published, m.name)):
        source = f"`{m.config}`" + (", released" if m.checkpoint else "")
        month = m.published.replace("-", "\N{NON-BREAKING HYPHEN}")
        cells = (m.name, month, m.turned, m.bases, m.kinds, m.besides, source)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
