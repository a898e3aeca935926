"""The short way: data in, results out, through a federation."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from ..distillation.options import Distill
    from ..records.decisions import Decision
    from ._methods import METHODS
    from .comparison import SiteComparison
    from .sketch import sketches

__all__ = [
    "METHODS",
    "Decision",
    "Distill",
    "SiteComparison",
    "sketches",
]

lazily(__name__)
