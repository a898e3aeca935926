"""Models that holders train, and how several are combined into one."""

from .combine import RULES, Combination, Rule, combine
from .features import random_features
from .neighbour import NearestNeighbour
from .spec import KINDS, Kind, ModelSpec
from .training import Training, cross_predictions, initial, probabilities, train

__all__ = [
    "KINDS",
    "RULES",
    "Combination",
    "Kind",
    "ModelSpec",
    "NearestNeighbour",
    "Rule",
    "Training",
    "combine",
    "cross_predictions",
    "initial",
    "probabilities",
    "random_features",
    "train",
]
