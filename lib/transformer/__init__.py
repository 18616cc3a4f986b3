"""A decoder-only transformer to read in one sitting, and how it writes on."""

from lib.transformer.config import PRESETS, TransformerConfig
from lib.transformer.generate import choose_tokens, generate
from lib.transformer.model import Block, Transformer

__all__ = [
    "PRESETS",
    "Block",
    "Transformer",
    "TransformerConfig",
    "choose_tokens",
    "generate",
]
