"""Published language models: their sizes, where they keep position, LongRoPE lists."""

from lib.model_facts.longrope import PHI3_LONGROPE
from lib.model_facts.positions import PositionFacts, position_table
from lib.model_facts.published import POSITIONS
from lib.model_facts.sizes import MODELS, ModelFacts, find_model

__all__ = [
    "MODELS",
    "PHI3_LONGROPE",
    "POSITIONS",
    "ModelFacts",
    "PositionFacts",
    "find_model",
    "position_table",
]
