"""Distilling one model from many teachers' predictions, where labels have a geometry.

Losses need torch (extra ``silot[torch]``) and are loaded when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ExtraError
from .confidence import Weights, teacher_weights
from .labels import LabelSpace
from .scores import ClassScores, Scores, scores

if TYPE_CHECKING:
    from .losses import entropy_loss, sinkhorn_loss
    from .trainer import Epoch, History, train

__all__ = [
    "ClassScores",
    "Epoch",
    "History",
    "LabelSpace",
    "Scores",
    "Weights",
    "entropy_loss",
    "scores",
    "sinkhorn_loss",
    "teacher_weights",
    "train",
]

# Names that need torch, and the module they are in.
_LATE = {
    "Epoch": "trainer",
    "History": "trainer",
    "entropy_loss": "losses",
    "sinkhorn_loss": "losses",
    "train": "trainer",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ExtraError(
            f"{name} needs torch. Run: pip install 'silot[torch]'.", code="extra-torch"
        ) from None
    return getattr(import_module(f".{_LATE[name]}", __name__), name)
