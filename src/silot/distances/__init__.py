"""Distances between two holders, and to the union of several: FedWaD, TriangleWad, direct."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .cost_parts import ClassPart, Parts
    from .direct import Direct, direct
    from .fedwad import FedWaD, fedwad
    from .methods import METHODS, Joint, Pairwise, WithReference
    from .pooled import Pooled, pooled
    from .private import PrivateDistance, private
    from .questions import DistanceTo, DistanceWithError, LabelledDistanceTo
    from .result import Distance, DistanceMatrix
    from .trianglewad import TriangleWad, trianglewad

__all__ = [
    "METHODS",
    "ClassPart",
    "Direct",
    "Distance",
    "DistanceMatrix",
    "DistanceTo",
    "DistanceWithError",
    "FedWaD",
    "Joint",
    "LabelledDistanceTo",
    "Pairwise",
    "Parts",
    "Pooled",
    "PrivateDistance",
    "TriangleWad",
    "WithReference",
    "direct",
    "fedwad",
    "pooled",
    "private",
    "trianglewad",
]

lazily(__name__)
