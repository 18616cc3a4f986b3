"""Sizes of published language models, as their configurations state them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """What a published model's configuration says of its embedding table.

    Args:
        name: the model as its authors call it.
        vocab_size: rows of the token table, V. Some tables are padded: they have more
            rows than the tokenizer has tokens.
        d_model: width of a row.
        tied: whether the output head uses the same table.
        parameters: all parameters, a shared table counted once.
        position: how the model knows word order.
        year: the year of its release.
    """

    name: str
    vocab_size: int
    d_model: int
    tied: bool
    parameters: int
    position: str
    year: int

    @property
    def table_parameters(self) -> int:
        """Numbers in the token table, V · d_model."""
        return self.vocab_size * self.d_model

    @property
    def vocabulary_share(self) -> float:
        """Share of all parameters in the table, and in the head if it is separate."""
        tables = 1 if self.tied else 2
        return tables * self.table_parameters / self.parameters


# Configurations as published by the models' authors; `parameters` is counted in
# tests/test_model_facts.py by building each architecture on the meta device.
MODELS = (
    ModelFacts("BERT-base", 30_522, 768, True, 109_514_298, "learned", 2018),
    ModelFacts("GPT-2 small", 50_257, 768, True, 124_439_808, "learned", 2019),
    ModelFacts("Mistral-7B-v0.1", 32_000, 4_096, False, 7_241_732_096, "RoPE", 2023),
    ModelFacts("Gemma-2B", 256_000, 2_048, True, 2_506_172_416, "RoPE", 2024),
    ModelFacts("Phi-3-mini-4k", 32_064, 3_072, False, 3_821_079_552, "RoPE", 2024),
    ModelFacts("Llama-3-8B", 128_256, 4_096, False, 8_030_261_248, "RoPE", 2024),
    ModelFacts("Llama-3.2-1B", 128_256, 2_048, True, 1_235_814_400, "RoPE", 2024),
    ModelFacts("Qwen2.5-0.5B", 151_936, 896, True, 494_032_768, "RoPE", 2024),
    ModelFacts("Qwen2.5-7B", 152_064, 3_584, False, 7_615_616_512, "RoPE", 2024),
    ModelFacts("SmolLM2-135M", 49_152, 576, True, 134_515_008, "RoPE", 2024),
)


def find_model(name: str) -> ModelFacts:
    """Find a model of `MODELS` by its name.

    Args:
        name: a name as it stands in `MODELS`.

    Returns:
        The facts.

    Raises:
        KeyError: no such model; the message lists the known ones.

    Example:
        >>> find_model("Llama-3-8B").table_parameters
        525336576
    """
    for model in MODELS:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in MODELS)
    raise KeyError(f"no model {name!r}; known are {known}")
