"""What data are worth: distances to validation data or to the barycenter, and Shapley values."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .contributions import Valuation, contributions
    from .fedbary import FedBary, fedbary
    from .result import Barycenter, Contribution, Contributions
    from .shapley import PlayerValues, exact_shapley, leave_one_out, monte_carlo_shapley
    from .training_rounds import TrainingRound, gtg_shapley, multi_rounds, one_round

__all__ = [
    "Barycenter",
    "Contribution",
    "Contributions",
    "FedBary",
    "PlayerValues",
    "TrainingRound",
    "Valuation",
    "contributions",
    "exact_shapley",
    "fedbary",
    "gtg_shapley",
    "leave_one_out",
    "monte_carlo_shapley",
    "multi_rounds",
    "one_round",
]

lazily(__name__)
