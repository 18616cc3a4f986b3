"""`lib.model_facts` against the architectures themselves, built without memory."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from lib.model_facts import MODELS, find_model

# What else decides the number of parameters: from the models' published config.json.
ARCHITECTURES = {
    "BERT-base": ("bert", {}),
    "GPT-2 small": ("gpt2", {}),
    "Mistral-7B-v0.1": ("mistral", {"num_key_value_heads": 8}),
    "Gemma-2B": (
        "gemma",
        {
            "num_hidden_layers": 18,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "intermediate_size": 16_384,
        },
    ),
    "Phi-3-mini-4k": ("phi3", {"num_attention_heads": 32, "intermediate_size": 8_192}),
    "Llama-3-8B": ("llama", {"intermediate_size": 14_336, "num_key_value_heads": 8}),
    "Llama-3.2-1B": (
        "llama",
        {
            "intermediate_size": 8_192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    ),
    "Qwen2.5-0.5B": (
        "qwen2",
        {
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "intermediate_size": 4_864,
        },
    ),
    "Qwen2.5-7B": (
        "qwen2",
        {
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18_944,
        },
    ),
    "SmolLM2-135M": (
        "llama",
        {
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "intermediate_size": 1_536,
        },
    ),
}


@pytest.mark.parametrize("facts", MODELS, ids=lambda facts: facts.name)
def test_parameters_are_those_of_the_architecture(facts):
    kind, options = ARCHITECTURES[facts.name]
    config = CONFIG_MAPPING[kind](
        vocab_size=facts.vocab_size,
        hidden_size=facts.d_model,
        tie_word_embeddings=facts.tied,
        pad_token_id=0,
        **options,
    )
    family = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    with torch.device("meta"):
        model = family.from_config(config)
    model.tie_weights()
    assert sum(p.numel() for p in model.parameters()) == facts.parameters
    table = model.get_input_embeddings().weight
    assert table.shape == (facts.vocab_size, facts.d_model)
    assert (model.get_output_embeddings().weight is table) == facts.tied


def test_shares_of_the_vocabulary():
    assert find_model("Llama-3-8B").vocabulary_share == pytest.approx(0.1308, abs=1e-4)
    assert find_model("Llama-3.2-1B").vocabulary_share == pytest.approx(
        0.2125, abs=1e-4
    )


def test_unknown_model_lists_the_known():
    with pytest.raises(KeyError, match="GPT-2 small, Mistral"):
        find_model("GPT-5")
