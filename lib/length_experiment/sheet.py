"""Which encoding, when: one page, half facts and half measurements."""

from collections.abc import Sequence
from typing import NamedTuple

from lib.length_experiment.results import Result, over_seeds


class Fact(NamedTuple):
    """What is known of an encoding without a run.

    Args:
        encoding: its name in `ENCODINGS`.
        weights: numbers that are trained.
        acts: where it acts.
        tells: what a score comes to depend on.
        memory: numbers that are kept besides weights, for T tokens.
        decoding: what a new token costs in it, with cached keys.
        models: models that use it, with the year of their release.
    """

    encoding: str
    weights: str
    acts: str
    tells: str
    memory: str
    decoding: str
    models: str


# L trained length, d width, H heads, D width of a head, T tokens. Sources of the last
# column stand below the table in chapter 14; tests hold the others to the code.
FACTS = (
    Fact(
        "none",
        "0",
        "nowhere",
        "order, by the causal mask",
        "0",
        "nothing",
        "each 4th layer of Command R7B (2024), Llama 4, SmolLM3 (2025)",
    ),
    Fact(
        "sinusoidal",
        "0",
        "rows added once",
        "absolute place",
        "T·d, or none",
        "one row",
        "Transformer (2017), Whisper's encoder (2022)",
    ),
    Fact(
        "learned",
        "L·d",
        "rows added once",
        "absolute place; ends at L",
        "0",
        "one row",
        "BERT (2018), GPT-2 (2019), OPT (2022)",
    ),
    Fact(
        "RoPE",
        "0",
        "turn of q and k, each layer",
        "distance",
        "T·D",
        "turn one q and one k",
        "Mistral-7B (2023), Llama 3, Qwen2.5 (2024)",
    ),
    Fact(
        "RoPE + PI",
        "0",
        "the same, slower",
        "distance / factor",
        "T·D",
        "as RoPE",
        "LLaMA tuned by Chen et al. (2023)",
    ),
    Fact(
        "RoPE + YaRN",
        "0",
        "the same, by bands, × factor",
        "distance",
        "T·D",
        "as RoPE",
        "DeepSeek-V3 (2024), gpt-oss (2025)",
    ),
    Fact(
        "ALiBi",
        "0",
        "price on scores, each layer",
        "distance; near is cheap",
        "H·T², or fused: H",
        "one row of prices",
        "BLOOM (2022), MPT-7B (2023)",
    ),
    Fact(
        "T5",
        "32·H",
        "price on scores, each layer",
        "distance, by bucket",
        "H·T², or fused: 0",
        "one row of prices",
        "T5 (2019)",
    ),
)


TITLES = (
    "encoding",
    "weights",
    "acts",
    "a score depends on",
    "memory",
    "a decoding step",
    "loss, 1× → 8×",
    "recall, 8×",
    "used by",
)


def cheat_sheet(results: Sequence[Result]) -> str:
    """Lay facts and measurements out as one table in HTML.

    Args:
        results: of all encodings in `FACTS`, any number of seeds.

    Returns:
        The table. Losses are in nats, the mean over seeds at the shortest length and
        the least and the most at the longest, as of the shares of recalled digits.

    Raises:
        KeyError: an encoding without a result.

    Example:
        >>> rows = [Result(f[0], 0, {1: 2.0, 8: 3.0}, {8: 0.5}, []) for f in FACTS]
        >>> print(cheat_sheet(rows).splitlines()[2][:64])
        <tr><th scope="row">none</th><td>0</td><td>nowhere</td><td>order
    """
    head = "".join(f'<th scope="col">{title}</th>' for title in TITLES)
    rows = [f"<tr>{head}</tr>"]
    for fact in FACTS:
        cells = [*fact[1:-1], *_measured(results, fact.encoding), fact.models]
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{fact.encoding}</th>{row}</tr>')
    opened = '<div class="pst-scrollable-table-container"><table class="table">'
    return "\n".join([opened, *rows, "</table></div>"])


def _measured(results: Sequence[Result], encoding: str) -> tuple[str, str]:
    """Write down the loss, short and long, and the recall."""
    loss = over_seeds(results, encoding, "loss")
    shares = over_seeds(results, encoding, "recalled")[:, -1]
    losses = _range(*(f"{end:.2f}" for end in loss[:, -1].aminmax()))
    recalled = _range(*(f"{100 * end:.0f}" for end in shares.aminmax()))
    return f"{loss[:, 0].mean():.2f} → {losses}", f"{recalled} %"


def _range(low: str, high: str) -> str:
    """Write both ends, or one where they read the same."""
    return low if low == high else f"{low} to {high}"
