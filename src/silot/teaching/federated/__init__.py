"""Models that holders train, and how several are combined into one."""

from .features import random_features
from .model import RULES, Model, Rule
from .neighbour import NearestNeighbour
from .spec import KINDS, Kind, ModelSpec
from .training import Training, cross_predictions, initial, probabilities, train

__all__ = [
    "KINDS",
    "RULES",
    "Kind",
    "Model",
    "ModelSpec",
    "NearestNeighbour",
    "Rule",
    "Training",
    "cross_predictions",
    "initial",
    "probabilities",
    "random_features",
    "train",
]
