"""What data are worth: distances to validation data or to the barycenter, and Shapley values."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .contributions import Valuation, contributions
    from .fedbary import FedBary, fedbary
    from .result import Barycenter, Contribution, Contributions

__all__ = [
    "Barycenter",
    "Contribution",
    "Contributions",
    "FedBary",
    "Valuation",
    "contributions",
    "fedbary",
]

lazily(__name__)
