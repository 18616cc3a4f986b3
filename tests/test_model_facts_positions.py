"""`POSITIONS`, field by field, against transformers' configuration classes."""

from dataclasses import asdict, replace

import pytest
import torch
import transformers
from transformers.models.cohere2.modeling_cohere2 import Cohere2Attention
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from lib.model_facts import POSITIONS, PositionFacts, position_table
from lib.mrope import mrope_cos_sin

# Rows that show a released checkpoint: what its file says and the class does not, from
# `convert_gemma3_weights.py` and `convert_gemma4_weights.py` of transformers, for the
# others from their `config.json`.
RELEASED = {
    "Command R7B": {  # CohereLabs/c4ai-command-r7b-12-2024
        "hidden_size": 4_096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
    },
    "Gemma 3 27B": {
        "hidden_size": 5_376,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "head_dim": 128,
        "sliding_window": 1_024,
    },
    "Gemma 4 31B": {
        "hidden_size": 5_376,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "sliding_window": 1_024,
    },
}
KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]  # counted from 1
RELEASED["Kimi Linear"] = {  # moonshotai/Kimi-Linear-48B-A3B-Instruct
    "linear_attn_config": {
        "full_attn_layers": KIMI_FULL,
        "kda_layers": [n for n in range(1, 28) if n not in KIMI_FULL],
    },
}
RELEASED["Qwen3-VL-8B"] = {  # Qwen/Qwen3-VL-8B-Instruct
    "num_hidden_layers": 36,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
ROTARY = {  # those with three axes
    "Qwen2VLTextConfig": Qwen2VLRotaryEmbedding,
    "Qwen3VLTextConfig": Qwen3VLTextRotaryEmbedding,
    "Qwen3_5TextConfig": Qwen3_5TextRotaryEmbedding,
}
each = pytest.mark.parametrize("facts", POSITIONS, ids=lambda facts: facts.name)


def config_of(facts: PositionFacts):
    return getattr(transformers, facts.config)(**RELEASED.get(facts.name, {}))


def rotations(config) -> tuple[dict, dict]:
    """Give the parameters of layers that see everything, and of those with a window."""
    given = getattr(config, "rope_parameters", None) or {}
    everywhere = given.get("full_attention", given)
    return everywhere, given.get("sliding_attention", everywhere)


def head_of(config) -> int:
    """Give the width of a head's queries in the last layer, which sees everything."""
    if "head_dim" in (config.per_layer_attributes or ()):
        return config.per_layer_config[config.num_hidden_layers - 1].head_dim
    if hasattr(config, "qk_head_dim"):
        return config.qk_head_dim
    head = getattr(config, "head_dim", None)
    return head or config.hidden_size // config.num_attention_heads


def layers_of(config) -> dict:
    kinds = list(getattr(config, "layer_types", None) or [])
    chunked = "chunked_attention" in kinds
    windowed = kinds.count("sliding_attention") + kinds.count("chunked_attention")
    window = config.attention_chunk_size if chunked else config_window(config)
    return {
        "layers": config.num_hidden_layers,
        "windowed": windowed,
        "window": window if windowed else None,
        "chunked": chunked,
        "unturned": unturned_of(config, kinds),
        "recurrent": kinds.count("linear_attention"),
    }


def config_window(config) -> int | None:
    """Give the whole window; ModernBERT's looks to both sides."""
    return getattr(config, "local_attention", getattr(config, "sliding_window", None))


def unturned_of(config, kinds: list) -> int:
    if getattr(config, "no_rope_layers", None):  # 1 for a layer that turns
        return config.no_rope_layers.count(0)
    if not hasattr(config, "rope_parameters") or config.model_type == "cohere2":
        return kinds.count("full_attention")  # as the two tests below show
    return 0


def rotation_of(config) -> dict:
    everywhere, windows = rotations(config)
    head, base = head_of(config), everywhere.get("rope_theta")
    turned = int(head * everywhere.get("partial_rotary_factor", 1)) if everywhere else 0
    decoupled = hasattr(config, "qk_rope_head_dim")
    if decoupled and everywhere:
        turned = config.qk_rope_head_dim
    local = windows.get("rope_theta")
    return {
        "head_dim": head,
        "rotary_dim": turned,
        "base": base,
        "local_base": local if local != base else None,
        "decoupled": decoupled,
        "proportional": everywhere.get("rope_type") == "proportional",
    }


def temperature_of(config) -> dict:
    everywhere, _ = rotations(config)
    beta = everywhere.get("llama_4_scaling_beta")
    length = everywhere.get("original_max_position_embeddings") if beta else None
    if getattr(config, "attn_temperature_tuning", False):
        beta, length = config.attn_scale, config.floor_scale
    return {"temperature": beta, "temperature_length": length}


def axes_of(config) -> dict:
    """Give the sections, and ask the rotation itself in which order it takes them."""
    if type(config).__name__ not in ROTARY:
        return {"sections": (), "interleaved": False}
    rotary = ROTARY[type(config).__name__](config)
    section = tuple(rotary.mrope_section)
    places = torch.tensor([[5], [70], [900]])  # one token: time, height, width
    wanted, _ = rotary(torch.empty(0), places[:, None])
    for interleaved in (False, True):
        cos, _ = mrope_cos_sin(places[:, None], rotary.inv_freq, section, interleaved)
        if torch.allclose(cos, wanted[..., : cos.shape[-1]], atol=1e-4):
            return {"sections": section, "interleaved": interleaved}
    raise AssertionError("neither order gives these tables")


@each
def test_every_field_is_what_the_configuration_says(facts):
    config = config_of(facts)
    found = {
        **layers_of(config),
        **rotation_of(config),
        **temperature_of(config),
        **axes_of(config),
    }
    shown = asdict(facts)
    for own in ("name", "published", "config", "checkpoint"):
        shown.pop(own)
    assert shown == found


@each
def test_only_a_checkpoint_row_differs_from_its_class(facts):
    assert facts.checkpoint == (facts.name in RELEASED)
    if facts.checkpoint:
        defaults = getattr(transformers, facts.config)()
        assert layers_of(defaults) != layers_of(config_of(facts))


def test_a_wrong_number_would_be_seen():
    scout = next(facts for facts in POSITIONS if facts.name == "Llama 4 Scout")
    wrong = replace(scout, unturned=11)
    with pytest.raises(AssertionError):
        test_every_field_is_what_the_configuration_says(wrong)


def test_cohere_2_turns_in_windows_only():
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 8}
    config = transformers.Cohere2Config(**sizes)
    config._attn_implementation = "eager"
    nothing = torch.full((1, 5, 16), torch.nan)  # poisons whatever it turns
    for number, kind in enumerate(config.layer_types):
        layer = Cohere2Attention(config, number)
        mixed, _ = layer(torch.randn(1, 5, 64), (nothing, nothing), None)
        assert mixed.isfinite().all() == (kind == "full_attention")


def test_kimi_linear_has_no_rotation_at_all():
    names = [name.lower() for name in vars(modeling_kimi_linear)]
    assert [name for name in names if "rotary" in name or "rope" in name] == []


@each
def test_the_kinds_of_layers_add_up(facts):
    assert facts.windowed + facts.unturned + facts.recurrent <= facts.layers
    if facts.sections:
        assert 2 * sum(facts.sections) == facts.rotary_dim
    assert facts.rotary_dim <= facts.head_dim


def test_the_table_is_sorted_by_date_whatever_the_order():
    table = position_table(reversed(POSITIONS))
    assert table == position_table(POSITIONS)
    dates = [line.split(" | ")[1] for line in table.splitlines()[2:]]
    assert dates == sorted(dates)
    assert len(dates) == len(POSITIONS)


def test_words_of_a_row():
    rows = {facts.name: facts for facts in POSITIONS}
    assert rows["Kimi Linear"].turned == "none of 192"
    assert rows["Kimi Linear"].bases == "none"
    assert rows["Kimi Linear"].kinds == "27: 7 unturned, 20 recurrent"
    assert rows["Gemma 4 31B"].turned == "128 of 512"
    assert rows["Gemma 4 31B"].bases == "1,000,000, in windows 10,000"
    assert rows["Llama 4 Scout"].kinds == "48: 36 in blocks of 8,192, 12 unturned"
    assert rows["Llama 4 Scout"].besides == "temperature 0.1 from 8,192"
    assert rows["Qwen3-VL-8B"].besides == "axes 24 + 20 + 20 in turn"
