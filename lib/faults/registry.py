"""The list of faults: where each was public, and how to make it."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.faults import counting, prices, rotary

GITHUB = "https://github.com/"
SOUND = {
    "rotary": rotary.rotate,
    "bias": prices.bias,
    "slopes": prices.slopes,
    "places": counting.places,
    "seconds": counting.seconds,
    "loss": counting.loss,
    "logits": counting.logits,
}


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


def _plain(function: Callable, kind: str, source: str, year: int, breaks: str) -> Fault:
    return Fault(function.__name__, kind, source, year, breaks, lambda: function)


_ALL = [
    _plain(
        rotary.mixed_layouts,
        "rotary",
        "raiyanyahya/how-to-train-your-gpt/issues/6",
        2026,
        "angles for neighbours, halves turned",
    ),
    _plain(
        rotary.other_layout,
        "rotary",
        "huggingface/transformers/issues/25199",
        2023,
        "neighbours turned, weights for halves",
    ),
    _plain(
        rotary.half_positions,
        "rotary",
        "NVIDIA/Megatron-LM/issues/535",
        2023,
        "positions in float16",
    ),
    _plain(
        rotary.bfloat16_angles,
        "rotary",
        "huggingface/transformers/pull/29285",
        2024,
        "angles in bfloat16",
    ),
    _plain(
        rotary.bfloat16_frequencies,
        "rotary",
        "sgl-project/sglang-jax/issues/1472",
        2026,
        "frequencies in bfloat16",
    ),
    Fault(
        "cached_by_length",
        "rotary",
        "lucidrains/rotary-embedding-torch/issues/11",
        2023,
        "cache knows the length only",
        rotary.cached_by_length,
    ),
    _plain(
        prices.first_query,
        "bias",
        "keras-team/keras-hub/pull/2977",
        2026,
        "a lone query counts as the first",
    ),
    _plain(
        prices.bfloat16_bias,
        "bias",
        "HabanaAI/vllm-fork/pull/503",
        2024,
        "bias in bfloat16",
    ),
    _plain(
        prices.one_list,
        "slopes",
        "ml-explore/mlx/pull/3071",
        2026,
        "one list of slopes",
    ),
    _plain(
        counting.columns,
        "places",
        "huggingface/transformers/pull/22382",
        2023,
        "pads are counted",
    ),
    _plain(
        counting.cut_first,
        "seconds",
        "huggingface/transformers/pull/48669",
        2026,
        "seconds cut before the product",
    ),
    _plain(
        counting.summed_inside,
        "loss",
        "DSKSD/DeepNLP-models-Pytorch/issues/15",
        2021,
        "negatives summed too early",
    ),
    _plain(
        counting.scaled_table,
        "logits",
        "mattn/tensai/pull/248",
        2026,
        "lookup's factor in the shared table",
    ),
]
FAULTS = {fault.name: fault for fault in _ALL}
