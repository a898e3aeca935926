"""Models that holders train, and how several are combined into one."""

from .combine import (
    RULES,
    Combination,
    DensitySpec,
    Rule,
    check_density,
    combine,
    fit_density,
    log_density,
)
from .features import random_features
from .neighbour import NearestNeighbour
from .spec import KINDS, Kind, ModelSpec
from .training import Training, cross_predictions, initial, probabilities, train

__all__ = [
    "KINDS",
    "RULES",
    "Combination",
    "DensitySpec",
    "Kind",
    "ModelSpec",
    "NearestNeighbour",
    "Rule",
    "Training",
    "check_density",
    "combine",
    "cross_predictions",
    "fit_density",
    "initial",
    "log_density",
    "probabilities",
    "random_features",
    "train",
]
