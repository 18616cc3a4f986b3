"""`lib.model_facts.PHI3_LONGROPE`: read as transformers reads it, and written once."""

from pathlib import Path

import pytest
import torch
from transformers import Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from lib.model_facts import PHI3_LONGROPE
from lib.rope_scaling import scaled_inv_freq

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("length", [4096, 4097])
def test_the_lists_are_read_as_transformers_reads_them(length):
    config = Phi3Config(
        hidden_size=3072,
        num_attention_heads=32,  # heads of width 96
        max_position_embeddings=131_072,
        original_max_position_embeddings=4096,
        rope_parameters=dict(PHI3_LONGROPE),
    )
    theirs, factor = ROPE_INIT_FUNCTIONS["longrope"](config, "cpu", seq_len=length)
    ours, our_factor = scaled_inv_freq(PHI3_LONGROPE, 96, 131_072, seq_len=length)
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=1e-6, atol=0)
    assert our_factor == pytest.approx(factor)


def test_each_list_slows_and_never_less_than_the_pair_before():
    for name in ("short_factor", "long_factor"):
        divisors = PHI3_LONGROPE[name]
        assert len(divisors) == 48
        assert divisors == sorted(divisors)
        assert divisors[0] > 1


def test_the_numbers_have_one_home():
    sources = [*ROOT.glob("lib/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    sources += ROOT.glob("chapters/*.ipynb")
    homes = [p.name for p in sources if "53.84, 56.2, 57.95" in p.read_text("utf-8")]
    assert homes == ["longrope.py"]
