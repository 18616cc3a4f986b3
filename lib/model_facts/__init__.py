"""Sizes of published language models, and where they keep position."""

from lib.model_facts.positions import PositionFacts, position_table
from lib.model_facts.published import POSITIONS
from lib.model_facts.sizes import MODELS, ModelFacts, find_model

__all__ = [
    "MODELS",
    "POSITIONS",
    "ModelFacts",
    "PositionFacts",
    "find_model",
    "position_table",
]
