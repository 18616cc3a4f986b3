"""`lib.tied_head`: every configuration with every file, here and in transformers.

Tables are A and B. A file holds the embedding's key, the head's, or both; a
configuration says that the ends are tied, that they are not, or nothing.
"""

import json
import warnings
from dataclasses import replace
from logging import Logger

import pytest
import safetensors.torch
import torch
from torch import nn
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from lib.tied_head import is_tied, tie_weights
from lib.transformer import PRESETS, Transformer

V, D = 10, 8
A, B = torch.randn(2, V, D, generator=torch.Generator().manual_seed(0))
FILES = {"A alone": "A-", "head B alone": "-B", "A and A": "AA", "A and B": "AB"}


def name_of(weight):
    """Say which table a weight is; anything else was drawn at the start."""
    known = [name for name, table in (("A", A), ("B", B)) if weight.equal(table)]
    return known[0] if known else "drawn"


def state_of(model, file, keys):
    """The state of a model with the tables of a file in place of its own."""
    state = {k: v.clone() for k, v in model.state_dict().items() if k not in keys}
    held = zip(keys, file, strict=True)
    return state | {k: {"A": A, "B": B}[x].clone() for k, x in held if x != "-"}


# ---- Ours.

OUR_KEYS = "embedding.weight", "head.weight"
CONFIG = replace(PRESETS["tiny"], vocab_size=V, d_model=D)


def load_ours(tied, file, strict=True):
    model = Transformer(replace(CONFIG, **tied))
    missing = model.load_state_dict(
        state_of(model, file, OUR_KEYS), strict
    ).missing_keys
    ends = model.embedding, model.head
    return "".join(name_of(end.weight) for end in ends), is_tied(*ends), missing


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("tied", [{"tied": True}, {}], ids=["true", "absent"])
@pytest.mark.parametrize(("file", "held"), [("A-", "AA"), ("-B", "BB"), ("AA", "AA")])
def test_a_tied_model_takes_either_key_or_two_that_agree(tied, file, held, strict):
    assert load_ours(tied, file, strict) == (held, True, [])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("tied", [{"tied": True}, {}], ids=["true", "absent"])
def test_a_tied_model_refuses_two_that_differ(tied, strict):
    with pytest.raises(ValueError, match="10 of 10 rows"):
        load_ours(tied, "AB", strict)


@pytest.mark.parametrize("file", ["AA", "AB"])
def test_an_untied_model_takes_both(file):
    assert load_ours({"tied": False}, file) == (file, False, [])


@pytest.mark.parametrize(("file", "lacks"), [("A-", "head"), ("-B", "embedding")])
def test_an_untied_model_names_the_table_that_is_missing(file, lacks):
    with pytest.raises(RuntimeError, match=f'Missing key.*"{lacks}.weight"'):
        load_ours({"tied": False}, file)
    *_, missing = load_ours({"tied": False}, file, strict=False)
    assert missing == [f"{lacks}.weight"]


def test_one_parameter_under_two_names_keeps_the_last_without_a_word():
    """The broken case: what torch does, and what `TiedLMHead` is there for."""
    model = nn.ModuleDict({"embedding": nn.Embedding(V, D), "head": nn.Linear(D, V)})
    tie_weights(model["embedding"], model["head"])
    keys = model.load_state_dict(state_of(model, "AB", OUR_KEYS))
    assert keys.missing_keys == keys.unexpected_keys == []
    assert name_of(model["embedding"].weight) == name_of(model["head"].weight) == "B"


# ---- transformers 5.24.

THEIR_KEYS = "model.embed_tokens.weight", "lm_head.weight"


def small(tie):
    sizes = {"vocab_size": V, "hidden_size": D, "intermediate_size": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    tied = {} if tie is None else {"tie_word_embeddings": tie}
    return LlamaConfig(**sizes, **heads, num_hidden_layers=1, **tied)


@pytest.fixture
def load_theirs(tmp_path):
    """Write a folder as a hub would hold it, and load it with `from_pretrained`."""

    def load(tie, file):
        config = small(tie).to_dict() | {"architectures": ["LlamaForCausalLM"]}
        if tie is None:
            config.pop("tie_word_embeddings", None)
        (tmp_path / "config.json").write_text(json.dumps(config))
        state = state_of(LlamaForCausalLM(small(False)), file, THEIR_KEYS)
        path, note = tmp_path / "model.safetensors", {"format": "pt"}
        safetensors.torch.save_file(state, path, metadata=note)
        options = {"output_loading_info": True}
        model, info = LlamaForCausalLM.from_pretrained(tmp_path, **options)
        return model, info["missing_keys"]

    return load


def held_by(model):
    ends = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return "".join(map(name_of, ends)), ends[0] is ends[1]


def test_what_absent_means_differs_from_class_to_class():
    assert GPT2Config().tie_word_embeddings
    assert not LlamaConfig().tie_word_embeddings


@pytest.mark.parametrize(("file", "held"), [("A-", "AA"), ("-B", "BB"), ("AA", "AA")])
def test_transformers_ties_as_told(load_theirs, file, held):
    model, missing = load_theirs(True, file)
    assert held_by(model) == (held, True)
    assert not missing


@pytest.mark.parametrize("tie", [False, None])
@pytest.mark.parametrize(
    ("file", "held", "lacks"),
    [
        ("A-", "Adrawn", {THEIR_KEYS[1]}),
        ("-B", "drawnB", {THEIR_KEYS[0]}),
        ("AA", "AA", set()),
        ("AB", "AB", set()),
    ],
)
def test_transformers_draws_what_is_missing_and_says_so(
    load_theirs, tie, file, held, lacks
):
    model, missing = load_theirs(tie, file)
    assert held_by(model) == (held, False)
    assert set(missing) == lacks


def test_transformers_keeps_two_that_differ_and_warns(load_theirs, monkeypatch):
    said = []
    logger = logging.get_logger("transformers.modeling_utils")
    monkeypatch.setattr(logger, "warning", lambda text, *_: said.append(text))
    model, missing = load_theirs(True, "AB")
    assert held_by(model) == ("AB", False)
    assert not missing
    assert any("NOT tie" in text for text in said)
    assert model.config.tie_word_embeddings  # still


@pytest.mark.parametrize(
    "drop",
    [
        lambda m: m.tie_weights(),
        lambda m: m.resize_token_embeddings(V + 2, mean_resizing=False),
    ],
)
def test_transformers_drops_the_head_without_a_word(load_theirs, monkeypatch, drop):
    model, _ = load_theirs(True, "AB")
    said = []
    monkeypatch.setattr(Logger, "_log", lambda *args, **_: said.append(args))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        drop(model)
    assert not said
    assert not warned
    table = model.get_input_embeddings().weight
    assert table is model.get_output_embeddings().weight
    assert name_of(table[:V]) == "A"


def test_transformers_drops_the_table_of_a_state_without_a_word():
    model = LlamaForCausalLM(small(True))
    keys = model.load_state_dict(state_of(model, "AB", THEIR_KEYS))
    assert keys.missing_keys == keys.unexpected_keys == []
    assert held_by(model) == ("BB", True)
