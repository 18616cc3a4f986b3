"""A decoder-only transformer to read in one sitting, and how it writes on."""

from lib.transformer.blocks import Block, Call
from lib.transformer.config import PRESETS, TransformerConfig
from lib.transformer.model import Transformer
from lib.transformer.places import Places
from lib.transformer.positions import Position
from lib.transformer.writing import choose_tokens, generate

__all__ = [
    "PRESETS",
    "Block",
    "Call",
    "Places",
    "Position",
    "Transformer",
    "TransformerConfig",
    "choose_tokens",
    "generate",
]
