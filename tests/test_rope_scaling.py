"""`lib.rope_scaling`: every scaling against transformers, and the faults others had."""

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from lib.rope_scaling import (
    dynamic_ntk_inv_freq,
    linear_inv_freq,
    llama3_inv_freq,
    longrope_inv_freq,
    ntk_inv_freq,
    proportional_inv_freq,
    rope_inv_freq,
    scaled_inv_freq,
    wavelengths,
    yarn_inv_freq,
    yarn_softmax_scale,
)
from lib.rope_scaling.published import SCALINGS

THETA = 500_000.0
SHORT, LONG = [1.0 + 0.01 * i for i in range(32)], [1.0 + 0.5 * i for i in range(32)]
PUBLISHED = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 1024},
    "longrope": {
        "short_factor": SHORT,
        "long_factor": LONG,
        "original_max_position_embeddings": 1024,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "proportional": {"partial_rotary_factor": 0.25},
}
LLAMA_3_1 = {
    "rope_type": "llama3",
    "rope_theta": THETA,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def loop_inv_freq(width: int, base: float) -> list[float]:
    """The spectrum in Python's own floats, one pair at a time."""
    return [math.exp(-2 * pair / width * math.log(base)) for pair in range(width // 2)]


def of_transformers(parameters, head_dim=64, max_positions=4096, seq_len=None):
    config = LlamaConfig(
        head_dim=head_dim,
        hidden_size=head_dim,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=max_positions,
        rope_parameters={"rope_theta": 10_000.0, **parameters},
    )
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=seq_len)


def assert_equals_transformers(parameters, seq_len=None, **kwargs):
    ours, factor = scaled_inv_freq(
        parameters,
        kwargs.get("head_dim", 64),
        kwargs.get("max_positions", 4096),
        seq_len=seq_len,
    )
    theirs, their_factor = of_transformers(parameters, seq_len=seq_len, **kwargs)
    torch.testing.assert_close(ours.float(), theirs, rtol=2e-6, atol=0)
    assert type(factor) is float
    assert factor == pytest.approx(their_factor, rel=1e-12)


@pytest.mark.parametrize("seq_len", [None, 1, 1024, 1025, 4096, 4097, 20_000])
@pytest.mark.parametrize("theta", [10_000.0, THETA])
@pytest.mark.parametrize("kind", PUBLISHED)
def test_equals_transformers(kind, theta, seq_len):
    parameters = {"rope_type": kind, "rope_theta": theta, **PUBLISHED[kind]}
    assert_equals_transformers(parameters, seq_len)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3"])
def test_partial_rotation_in_the_dict(kind):
    parameters = {"rope_type": kind, "rope_theta": THETA, **PUBLISHED[kind]}
    parameters["partial_rotary_factor"] = 0.75
    ours, _ = scaled_inv_freq(parameters, 128, 4096, seq_len=8192)
    assert ours.shape == (48,)
    assert_equals_transformers(parameters, seq_len=8192, head_dim=128)


@pytest.mark.parametrize(
    "options",
    [
        {"truncate": False, "factor": 32.0, "original_max_position_embeddings": 4096},
        {"beta_fast": 16, "beta_slow": 2},
        {"beta_fast": None, "beta_slow": None},
        {"beta_fast": 1000.0},
        {"attention_factor": 0.5},
        {"attention_factor": 1},
        {"mscale": 1.0, "mscale_all_dim": 1.0, "factor": 40},
        {"mscale": 0.707, "mscale_all_dim": 0.5},
        {"mscale": 0.707},
        {"mscale_all_dim": 0.707},
        {"mscale": 0.0, "mscale_all_dim": 0.0},
        {"factor": None, "original_max_position_embeddings": 512},
        {"factor": 1.0},
        {"original_max_position_embeddings": 8},
    ],
)
def test_every_published_yarn_option(options):
    parameters = {"rope_type": "yarn", **PUBLISHED["yarn"], **options}
    assert_equals_transformers(parameters)


@pytest.mark.parametrize("seq_len", [1024, 1025])
@pytest.mark.parametrize(
    "options",
    [{"factor": 32.0}, {"factor": 1.0}, {"attention_factor": 1.19}, {"factor": None}],
)
def test_every_published_longrope_option(options, seq_len):
    parameters = {"rope_type": "longrope", **PUBLISHED["longrope"], **options}
    assert_equals_transformers(parameters, seq_len)


@pytest.mark.parametrize("max_positions", [512, 1024])
def test_longrope_that_extends_nothing_has_no_factor(max_positions):
    parameters = {"rope_type": "longrope", **PUBLISHED["longrope"]}
    assert_equals_transformers(parameters, max_positions=max_positions)
    assert scaled_inv_freq(parameters, 64, max_positions)[1] == 1.0


def test_proportional_divides_by_a_given_factor():
    parameters = {"rope_type": "proportional", "partial_rotary_factor": 0.3}
    assert_equals_transformers(parameters | {"factor": 8.0})
    assert_equals_transformers(parameters | {"partial_rotary_factor": 1.0})
    assert_equals_transformers(parameters | {"partial_rotary_factor": 0.0})


# What transformers' own tests of these functions state, restated on ours.


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_linear_divides_every_frequency(factor):
    scaled, attention_factor = linear_inv_freq(128, 1e4, factor)
    torch.testing.assert_close(scaled, rope_inv_freq(128) / factor)
    assert attention_factor == 1.0


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_dynamic_scales_nothing_up_to_the_trained_length(factor):
    plain = rope_inv_freq(128)
    for length in (None, 1, 2047, 2048):
        scaled, attention_factor = dynamic_ntk_inv_freq(128, 1e4, factor, 2048, length)
        assert torch.equal(scaled, plain)
        assert attention_factor == 1.0
    longer, _ = dynamic_ntk_inv_freq(128, 1e4, factor, 2048, 16_384)
    assert (longer[1:] < plain[1:]).all()
    assert not torch.allclose(longer, plain / factor)


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_yarn_factor_and_its_default(factor):
    _, default = yarn_inv_freq(128, 1e4, factor, 2048)
    assert default == 0.1 * math.log(factor) + 1.0
    assert yarn_inv_freq(128, 1e4, factor, 2048, attention_factor=0.5)[1] == 0.5


@pytest.mark.parametrize("scaling", ["yarn", "llama3"])
def test_bands_lie_between_scaled_and_plain(scaling):
    plain = rope_inv_freq(128)
    if scaling == "yarn":
        scaled, _ = yarn_inv_freq(128, 1e4, 10.0, 2048)
    else:
        scaled, factor = llama3_inv_freq(128, 1e4, 10.0, 1.0, 4.0, 2048)
        assert factor == 1.0
    assert (scaled <= plain * (1 + 1e-12)).all()
    assert (scaled >= plain / 10 * (1 - 1e-12)).all()
    assert torch.equal(scaled[:10], plain[:10])
    torch.testing.assert_close(scaled[-10:], plain[-10:] / 10)


def test_extreme_bands():
    plain = rope_inv_freq(128)
    yarn, _ = yarn_inv_freq(128, 1e4, 10.0, 2048, beta_fast=1000, beta_slow=1)
    assert yarn[0] == plain[0]
    assert (yarn[1:] < plain[1:]).all()
    torch.testing.assert_close(yarn[-20:], plain[-20:] / 10)
    llama3, _ = llama3_inv_freq(128, 1e4, 10.0, 1.0, 1000.0, 2048)
    assert (llama3 < plain).all()


def test_longrope_takes_the_short_list_then_the_long_one():
    short, long = [2.0] * 64, [float(i + 1) for i in range(64)]
    plain = rope_inv_freq(128)
    for length, factors in [(None, short), (2048, short), (2049, long)]:
        scaled, factor = longrope_inv_freq(128, 1e4, short, long, 2048, 20_480, length)
        torch.testing.assert_close(scaled, plain / torch.tensor(factors).double())
        assert factor == math.sqrt(1 + math.log(10.0) / math.log(2048))


# Faults that other implementations had.


def test_no_scaling_at_factor_one():
    """At factor 1 every scaling is plain RoPE."""
    plain = rope_inv_freq(64)
    ones = [1.0] * 32
    for scaled, factor in [
        linear_inv_freq(64, 1e4, 1.0),
        ntk_inv_freq(64, 1e4, 1.0),
        dynamic_ntk_inv_freq(64, 1e4, 1.0, 128, 128),
        yarn_inv_freq(64, 1e4, 1.0, 128),
        longrope_inv_freq(64, 1e4, ones, ones, 128, 128, 300),
        llama3_inv_freq(64, 1e4, 1.0, 1.0, 4.0, 128),
        proportional_inv_freq(64, 1e4, 1.0),
    ]:
        torch.testing.assert_close(scaled, plain, rtol=1e-14, atol=0)
        assert factor == 1.0


def test_d1_a_short_prompt_after_a_long_one():
    parameters = {"rope_type": "dynamic", "factor": 2.0}
    scaled_inv_freq(parameters, 64, 64, seq_len=128)
    assert torch.equal(
        scaled_inv_freq(parameters, 64, 64, seq_len=32)[0], rope_inv_freq(64)
    )


def test_d3_the_stretch_grows_with_the_length():
    scaled, _ = dynamic_ntk_inv_freq(64, 1e4, 2.0, 2048, 4096)
    assert float(scaled[1]) ** (-64 / 2) == pytest.approx(31_082.2367, abs=1e-3)
    lengths = [2048, 2049, 3000, 4096, 8192, 65_536]
    slowest = [dynamic_ntk_inv_freq(64, 1e4, 2.0, 2048, n)[0][-1] for n in lengths]
    assert slowest == sorted(slowest, reverse=True)
    assert len({float(x) for x in slowest}) == len(lengths)


@given(
    length=st.integers(-5, 4096),
    factor=st.floats(1, 64),
    base=st.sampled_from([1000.0, 1e4, 1e6]),
)
def test_d5_below_the_trained_length_nothing_happens(length, factor, base):
    scaled, _ = dynamic_ntk_inv_freq(64, base, factor, 4096, length)
    assert torch.equal(scaled, rope_inv_freq(64, base))


def test_dynamic_trained_length_may_differ_from_the_served_one():
    parameters = {"rope_type": "dynamic", "factor": 2.0}
    longer = parameters | {"original_max_position_embeddings": 2048}
    served, _ = scaled_inv_freq(longer, 64, 8192, seq_len=4096)
    assert torch.equal(served, dynamic_ntk_inv_freq(64, 1e4, 2.0, 2048, 4096)[0])
    assert not torch.equal(served, scaled_inv_freq(parameters, 64, 8192, 4096)[0])


def test_fixed_alpha_under_the_name_dynamic():
    """HunYuan's configurations say "dynamic" and mean NTK with one alpha."""
    parameters = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    for length in (None, 10, 100_000):
        scaled, _ = scaled_inv_freq(parameters, 128, 32_768, seq_len=length)
        assert torch.equal(scaled, ntk_inv_freq(128, 1e4, 1000.0)[0])


@pytest.mark.parametrize("alpha", [1.0, 2.0, 8.0])
def test_ntk_is_a_larger_base(alpha):
    scaled, factor = ntk_inv_freq(64, 1e4, alpha)
    larger = loop_inv_freq(64, 1e4 * alpha ** (64 / 62))
    torch.testing.assert_close(scaled.tolist(), larger, rtol=1e-12, atol=0)
    assert scaled[0] == 1.0  # the fastest pair stays
    assert float(scaled[-1]) == pytest.approx(float(rope_inv_freq(64)[-1]) / alpha)
    assert factor == 1.0


def test_y1_explicit_attention_factor():
    parameters = {"rope_type": "yarn", **PUBLISHED["yarn"], "factor": 64.0}
    assert scaled_inv_freq(parameters, 64, 65_536)[1] == pytest.approx(1.4158883)
    parameters["attention_factor"] = 1.0
    assert scaled_inv_freq(parameters, 64, 65_536)[1] == 1.0


def ratios(width, base, factor, original, **options):
    scaled, _ = yarn_inv_freq(width, base, factor, original, **options)
    return scaled / rope_inv_freq(width, base)


def test_y3_the_ramp_may_end_beyond_the_last_pair():
    found = ratios(64, 1e4, 2.0, 131_072)
    assert float(found[31]) == pytest.approx(0.6538462, abs=1e-7)
    assert float(found[25]) == pytest.approx(0.8846154, abs=1e-7)
    assert (found[:23] == 1.0).all()
    assert found[23] < 1.0


def test_y7_bands_come_from_the_original_length():
    assert float(ratios(128, 1e4, 4.0, 4096)[30]) == pytest.approx(0.7115385, abs=1e-7)
    assert float(ratios(128, 1e4, 4.0, 16_384)[30]) == 1.0
    parameters = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
    }
    ours, _ = scaled_inv_freq(parameters, 128, 16_384)
    assert torch.equal(ours, yarn_inv_freq(128, 1e4, 4.0, 4096)[0])


def test_yarn_of_a_trained_length_in_which_no_pair_turns():
    """Then all are slow; transformers divides none of them."""
    assert (ratios(64, 1e4, 4.0, 4)[1:] == 0.25).all()
    parameters = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    parameters["original_max_position_embeddings"] = 4
    theirs, _ = of_transformers(parameters)
    torch.testing.assert_close(theirs, rope_inv_freq(64).float())


def test_y9_released_code_not_the_paper():
    ours = yarn_inv_freq(128, 1e4, 4.0, 4096)[0].tolist()
    paper = []
    for inv_freq in loop_inv_freq(128, 1e4):
        turns = 4096 * inv_freq / (2 * math.pi)
        keep = min(1.0, max(0.0, (turns - 1) / (32 - 1)))
        paper.append((1 - keep) * inv_freq / 4 + keep * inv_freq)
    apart = max(abs(a - b) / min(a, b) for a, b in zip(ours, paper, strict=True))
    assert apart == pytest.approx(0.73, abs=0.01)
    assert_equals_transformers(
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 4096,
        },
        head_dim=128,
    )


@pytest.mark.parametrize("head_dim", [64, 192])
@pytest.mark.parametrize("mscale", [0.0, 0.707, 1.0])
def test_softmax_scale_of_deepseek(head_dim, mscale):
    by_hand = head_dim**-0.5 * (0.1 * mscale * math.log(40) + 1) ** 2
    assert yarn_softmax_scale(head_dim, 40, mscale) == pytest.approx(by_hand, rel=1e-12)
    assert yarn_softmax_scale(head_dim, 1.0, mscale) == pytest.approx(head_dim**-0.5)


def test_softmax_scale_equals_transformers():
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale

    parameters = {"rope_type": "yarn", "factor": 40.0, "mscale_all_dim": 0.707}
    theirs = yarn_apply_mscale(parameters, 192**-0.5)
    assert yarn_softmax_scale(192, 40.0, 0.707) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("name", ["longrope", "su"])
@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_l1_long_factors_from_the_first_token_past_the_original(name, key):
    parameters = {
        key: name,
        "short_factor": SHORT,
        "long_factor": LONG,
        "original_max_position_embeddings": 4096,
    }
    plain = rope_inv_freq(64)
    for length, factors in [(None, SHORT), (4096, SHORT), (4097, LONG)]:
        found, factor = scaled_inv_freq(parameters, 64, 131_072, seq_len=length)
        torch.testing.assert_close(found, plain / torch.tensor(factors).double())
        assert factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)))


def test_l5_lists_have_one_entry_a_rotated_pair():
    parameters = {
        "rope_type": "longrope",
        "partial_rotary_factor": 0.75,
        "short_factor": [1.0] * 48,
        "long_factor": [2.0] * 48,
        "original_max_position_embeddings": 4096,
    }
    assert scaled_inv_freq(parameters, 128, 131_072)[0].shape == (48,)
    for name in ("short_factor", "long_factor"):
        with pytest.raises(ValueError, match=rf"{name}.*48.*64"):
            scaled_inv_freq(parameters | {name: [1.0] * 64}, 128, 131_072)


def test_longrope_given_factor_wins_over_lengths():
    parameters = {"rope_type": "longrope", **PUBLISHED["longrope"], "factor": 32.0}
    expected = math.sqrt(1 + math.log(32) / math.log(1024))
    for max_positions in (2048, 131_072, None):
        found = scaled_inv_freq(parameters, 64, max_positions)[1]
        assert found == pytest.approx(expected)


def bands(width, base, factor, original):
    plain = rope_inv_freq(width, base)
    scaled, _ = llama3_inv_freq(width, base, factor, 1.0, 4.0, original)
    kept = scaled == plain
    divided = torch.isclose(scaled, plain / factor, rtol=1e-12, atol=0)
    blended = ~kept & ~divided
    return int(kept.sum()), blended.nonzero().flatten().tolist(), int(divided.sum())


def test_n1_the_bands_of_llama_3_1():
    assert bands(128, THETA, 8.0, 8192) == (29, list(range(29, 35)), 29)
    assert bands(64, THETA, 32.0, 8192) == (15, [15, 16, 17], 14)


def test_n3_the_text_part_of_llama_3_2_vision():
    """One-dimensional RoPE with llama3 scaling, and no M-RoPE."""
    published = dict(LLAMA_3_1)
    explicit = llama3_inv_freq(128, THETA, 8.0, 1.0, 4.0, 8192)
    ours = scaled_inv_freq(published, 128, 131_072)
    assert torch.equal(ours[0], explicit[0])
    assert ours[1] == explicit[1] == 1.0
    assert_equals_transformers(published, head_dim=128, max_positions=131_072)


def test_llama3_equals_metas_rule_pair_by_pair():
    """The rule of llama-models, `apply_scaling`, as a loop over Python floats."""
    expected = []
    for inv_freq in loop_inv_freq(128, THETA):
        wavelength = 2 * math.pi / inv_freq
        if wavelength < 8192 / 4:
            expected.append(inv_freq)
        elif wavelength > 8192 / 1:
            expected.append(inv_freq / 8)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            expected.append((1 - smooth) * inv_freq / 8 + smooth * inv_freq)
    ours, _ = llama3_inv_freq(128, THETA, 8, 1, 4, 8192)
    torch.testing.assert_close(ours.tolist(), expected, rtol=1e-12, atol=0)


# Shapes, devices, precision.


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_one_length_a_row(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    lengths = torch.tensor([1, 1024, 1025, 4096, 4097, 30_000])
    rows, factor = scaled_inv_freq(parameters, 64, 4096, seq_len=lengths)
    assert rows.shape == (6, 32)
    for row, length in zip(rows, lengths.tolist(), strict=True):
        alone, alone_factor = scaled_inv_freq(parameters, 64, 4096, seq_len=length)
        torch.testing.assert_close(row, alone, rtol=1e-14, atol=0)
        assert factor == alone_factor


@pytest.mark.parametrize("kind", PUBLISHED)
def test_float64_on_the_asked_device_whatever_the_default(device, kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    expected, _ = scaled_inv_freq(parameters, 64, 4096, seq_len=5000)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        found, _ = scaled_inv_freq(parameters, 64, 4096, seq_len=5000, device=device)
    finally:
        torch.set_default_dtype(before)
    assert found.dtype == torch.float64
    assert found.device.type == (device.type if device.type != "mps" else "cpu")
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_on_the_meta_device(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    with torch.device("meta"):
        found, factor = scaled_inv_freq(parameters, 64, 4096, seq_len=5000)
    assert found.is_meta
    assert isinstance(factor, float)


def test_wavelengths():
    found = wavelengths(torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64))
    assert found.tolist() == [2 * math.pi, 4 * math.pi, math.inf]


# The dict of a published configuration.


def test_old_dicts_say_type():
    for kind, parameters in PUBLISHED.items():
        new = scaled_inv_freq({"rope_type": kind, **parameters}, 64, 4096)
        old = scaled_inv_freq({"type": kind, **parameters}, 64, 4096)
        assert torch.equal(new[0], old[0])
        assert new[1] == old[1]


def test_type_and_rope_type_together():
    """The newer key wins, as in transformers."""
    both = {"type": "linear", "rope_type": "dynamic", "factor": 4.0}
    assert torch.equal(scaled_inv_freq(both, 64, 4096)[0], rope_inv_freq(64))


@pytest.mark.parametrize("kind", ["mrope", "default", None])
def test_names_for_plain_frequencies(kind):
    """Qwen2-VL's first configurations call plain frequencies "mrope"."""
    parameters = {"type": kind, "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    found, factor = scaled_inv_freq(parameters, 128, 32_768)
    assert torch.equal(found, rope_inv_freq(128, 1e6))
    assert factor == 1.0


def test_ints_are_as_good_as_floats():
    exact = {key: int(v) if key == "factor" else v for key, v in LLAMA_3_1.items()}
    exact |= {"rope_theta": 500_000, "low_freq_factor": 1, "high_freq_factor": 4}
    assert torch.equal(
        scaled_inv_freq(exact, 128, None)[0], scaled_inv_freq(LLAMA_3_1, 128, None)[0]
    )


def test_the_dict_is_left_alone():
    parameters = {"type": "yarn", **PUBLISHED["yarn"], "finetuned": True}
    copy = dict(parameters)
    scaled_inv_freq(parameters, 64, 4096)
    assert parameters == copy


REQUIRED = [
    (kind, key)
    for kind, parameters in PUBLISHED.items()
    for key in parameters
    if key != "partial_rotary_factor"
]


NULLS = [pair for pair in REQUIRED if pair != ("yarn", "factor")]  # that one is legal


@pytest.mark.parametrize(
    ("gone", "kind", "key"),
    [("absent", *pair) for pair in REQUIRED] + [("null", *pair) for pair in NULLS],
)
def test_a_missing_parameter_is_named(gone, kind, key):
    parameters = {"rope_type": kind, **PUBLISHED[kind], key: None}
    if gone == "absent":
        del parameters[key]
    with pytest.raises(KeyError, match=key):
        scaled_inv_freq(parameters, 64, 4096)


def test_lengths_that_only_the_caller_knows():
    for parameters in (
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "longrope", **PUBLISHED["longrope"]},
        {"rope_type": "yarn", **PUBLISHED["yarn"], "factor": None},
    ):
        with pytest.raises(KeyError, match="max_position_embeddings"):
            scaled_inv_freq(parameters, 64, None)


def test_an_unknown_type_lists_the_known():
    with pytest.raises(ValueError, match="ntk-by-parts") as error:
        scaled_inv_freq({"rope_type": "ntk-by-parts", "factor": 2.0}, 64, 4096)
    for kind in PUBLISHED:
        assert kind in str(error.value)


def test_a_factor_without_a_type_is_not_ignored():
    with pytest.raises(KeyError, match="rope_type"):
        scaled_inv_freq({"factor": 8.0}, 64, 4096)


def test_a_dict_for_each_layer_type():
    nested = {"sliding_attention": {"rope_type": "default"}, "full_attention": {}}
    with pytest.raises(ValueError, match=r"sliding_attention.*full_attention"):
        scaled_inv_freq(nested, 64, 4096)


@pytest.mark.parametrize("parameters", [None, [("factor", 2.0)], "linear"])
def test_parameters_of_another_type(parameters):
    with pytest.raises(TypeError, match="dict"):
        scaled_inv_freq(parameters, 64, 4096)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3"])
@pytest.mark.parametrize("factor", [0.5, 0, -2.0, math.nan, math.inf])
def test_factor_out_of_range(kind, factor):
    parameters = {"rope_type": kind, **PUBLISHED[kind], "factor": factor}
    with pytest.raises(ValueError, match=str(factor)):
        scaled_inv_freq(parameters, 64, 4096)


@pytest.mark.parametrize("value", ["8.0", True, [8.0]])
@pytest.mark.parametrize("key", ["factor", "rope_theta"])
def test_a_number_of_another_type(key, value):
    parameters = {"rope_type": "linear", "factor": 2.0, key: value}
    with pytest.raises(TypeError, match=rf"{key}|base"):
        scaled_inv_freq(parameters, 64, 4096)


@pytest.mark.parametrize("width", [7, 0, -2, 1])
@pytest.mark.parametrize(
    "scaling",
    [
        lambda width: rope_inv_freq(width),
        lambda width: linear_inv_freq(width, 1e4, 2.0),
        lambda width: ntk_inv_freq(width, 1e4, 2.0),
        lambda width: dynamic_ntk_inv_freq(width, 1e4, 2.0, 64, 128),
        lambda width: yarn_inv_freq(width, 1e4, 2.0, 64),
        lambda width: longrope_inv_freq(width, 1e4, [], [], 64, 128, None),
        lambda width: llama3_inv_freq(width, 1e4, 8.0, 1.0, 4.0, 64),
        lambda width: proportional_inv_freq(width, 1e4, 1.0),
        lambda width: scaled_inv_freq({}, width, None),
    ],
)
def test_b3_a_width_that_has_no_pairs(scaling, width):
    with pytest.raises(ValueError, match=str(width)):
        scaling(width)


def test_partial_factors_that_leave_no_pairs():
    with pytest.raises(ValueError, match="5"):
        scaled_inv_freq({"partial_rotary_factor": 0.5}, 10, None)
    for factor in (0.0, 1.5, -0.25):
        with pytest.raises(ValueError, match=str(factor)):
            scaled_inv_freq({"partial_rotary_factor": factor}, 64, None)


def test_ntk_needs_two_pairs():
    for scaling in (
        lambda: ntk_inv_freq(2, 1e4, 2.0),
        lambda: dynamic_ntk_inv_freq(2, 1e4, 2.0, 64, 128),
    ):
        with pytest.raises(ValueError, match="2"):
            scaling()


@pytest.mark.parametrize(
    ("bad", "number"),
    [
        (lambda: rope_inv_freq(64, base=0.0), "0.0"),
        (lambda: rope_inv_freq(64, base=-1e4), "-10000"),
        (lambda: rope_inv_freq(64, base=1), "1"),
        (lambda: ntk_inv_freq(64, 1e4, 0.5), "0.5"),
        (lambda: yarn_inv_freq(64, 1e4, 2.0, 0), "0"),
        (lambda: yarn_inv_freq(64, 1e4, 2.0, 64, beta_fast=1, beta_slow=32), "32"),
        (lambda: yarn_inv_freq(64, 1e4, 2.0, 64, beta_slow=-1), "-1"),
        (lambda: yarn_inv_freq(64, 1e4, 2.0, 64, attention_factor=-0.5), "-0.5"),
        (lambda: yarn_softmax_scale(0, 40.0, 1.0), "0"),
        (lambda: yarn_softmax_scale(64, 0.5, 1.0), "0.5"),
        (lambda: llama3_inv_freq(64, 1e4, 8.0, 4.0, 1.0, 64), "4.0"),
        (lambda: llama3_inv_freq(64, 1e4, 8.0, 0.0, 4.0, 64), "0.0"),
        (lambda: llama3_inv_freq(64, 1e4, 8.0, 1.0, 4.0, -64), "-64"),
        (lambda: dynamic_ntk_inv_freq(64, 1e4, 2.0, 0, 128), "0"),
        (lambda: proportional_inv_freq(64, 1e4, 1.01), "1.01"),
        (lambda: longrope_inv_freq(4, 1e4, [1.0] * 3, [1.0] * 2, 64, 64, 1), "3"),
        (lambda: longrope_inv_freq(4, 1e4, [1.0, 0.0], [1.0] * 2, 64, 64, 1), "0.0"),
        (lambda: longrope_inv_freq(4, 1e4, [1.0] * 2, [1.0] * 2, 1, 64, 1), "1"),
    ],
)
def test_other_numbers_out_of_range(bad, number):
    with pytest.raises(ValueError, match=number):
        bad()


@pytest.mark.parametrize("width", [64.0, "64", None])
def test_width_of_another_type(width):
    with pytest.raises(TypeError, match="rotary_dim"):
        rope_inv_freq(width)


@pytest.mark.parametrize("length", [128.0, torch.tensor([1.0]), True])
def test_seq_len_of_another_type(length):
    with pytest.raises(TypeError, match="seq_len"):
        dynamic_ntk_inv_freq(64, 1e4, 2.0, 64, length)


def test_the_table_names_every_parameter_of_every_type():
    for kind, (scaling, needed, optional) in SCALINGS.items():
        parameters = inspect.signature(scaling).parameters
        must = [n for n, p in parameters.items() if p.default is p.empty]
        assert sorted(needed) == sorted(must), kind
        assert {*needed, *optional} == {*parameters} - {"device"}, kind


WIDTHS = {
    "rope_inv_freq": lambda n: rope_inv_freq(n),
    "linear": lambda n: linear_inv_freq(n, 1e4, 2.0)[0],
    "ntk": lambda n: ntk_inv_freq(n, 1e4, 2.0)[0],
    "dynamic": lambda n: dynamic_ntk_inv_freq(n, 1e4, 2.0, 64, 128)[0],
    "yarn": lambda n: yarn_inv_freq(n, 1e4, 2.0, 64)[0],
    "longrope": lambda n: longrope_inv_freq(n, 1e4, [2] * 4, [3] * 4, 64, 128, 65)[0],
    "llama3": lambda n: llama3_inv_freq(n, 1e4, 8.0, 1.0, 4.0, 64)[0],
    "proportional": lambda n: proportional_inv_freq(n, 1e4, 0.5)[0],
    "scaled": lambda n: scaled_inv_freq({"rope_theta": 1e4}, n, None)[0],
    "softmax": lambda n: torch.tensor(yarn_softmax_scale(n, 40.0, 1.0)),
}


@pytest.mark.parametrize("scaling", WIDTHS)
def test_p26_any_integer_but_no_bool(scaling):
    of_width = WIDTHS[scaling]
    for eight in (np.int64(8), np.uint8(8)):
        assert torch.equal(of_width(eight), of_width(8))
    for wrong in (True, 8.0, "8", None):
        with pytest.raises(TypeError):
            of_width(wrong)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_p26_lengths_are_any_integers_but_no_bools(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    expected, _ = scaled_inv_freq(parameters, 64, 4096, seq_len=5000)
    found, _ = scaled_inv_freq(parameters, 64, np.int64(4096), seq_len=np.int32(5000))
    assert torch.equal(found, expected)
    for wrong in (True, 5000.0, torch.tensor([True])):
        with pytest.raises(TypeError, match="seq_len"):
            scaled_inv_freq(parameters, 64, 4096, seq_len=wrong)
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        scaled_inv_freq(parameters, 64, 4096, seq_len=torch.tensor([[5, 6]]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("scaling", [name for name in WIDTHS if name != "softmax"])
def test_p27_the_default_dtype_does_not_matter(scaling, dtype):
    expected = WIDTHS[scaling](8)
    torch.set_default_dtype(dtype)
    try:
        found = WIDTHS[scaling](8)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float64
    assert torch.equal(found, expected)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_p2_fake_tensors(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    with FakeTensorMode():
        found, factor = scaled_inv_freq(parameters, 64, 4096, torch.tensor([5, 5000]))
    assert isinstance(factor, float)
    assert found.shape[-1] == 32


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_p1_mapped_over_lengths(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}

    def inv_freq(length):
        return scaled_inv_freq(parameters, 64, 4096, seq_len=length)[0]

    lengths = torch.tensor([1, 1024, 1025, 5000])
    mapped = torch.func.vmap(inv_freq)(lengths)
    torch.testing.assert_close(mapped.squeeze(), inv_freq(lengths), rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_p23_no_lengths(kind):
    parameters = {"rope_type": kind, **PUBLISHED[kind]}
    none = torch.zeros(0, dtype=torch.int64)
    assert scaled_inv_freq(parameters, 64, 4096, seq_len=none)[0].shape == (0, 32)


def test_a_trained_length_of_nothing_is_refused_by_name():
    parameters = {"rope_type": "yarn", "factor": None}
    parameters["original_max_position_embeddings"] = 0
    with pytest.raises(ValueError, match="original_max_position_embeddings"):
        scaled_inv_freq(parameters, 64, 4096)
