"""Distilling one model from many teachers' predictions, where labels have a geometry.

Losses need torch (extra ``silot[torch]``) and are loaded when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ExtraError
from .labels import LabelCodes, LabelSpace
from .options import Asking, Fit, Training, Weighing
from .scores import ClassScores, Scores, scores
from .text import Vocabulary, noise, noise_vectors
from .weights import Weights, majority, teacher_weights

if TYPE_CHECKING:
    from .fitting import fit, module_predict
    from .losses import entropy_loss, sinkhorn_loss
    from .models import BagOfWords, Transformer, VectorHead, pretrained
    from .modules import load_parameters, parameters_of
    from .trainer import Epoch, History, train

__all__ = [
    "Asking",
    "BagOfWords",
    "ClassScores",
    "Epoch",
    "Fit",
    "History",
    "LabelCodes",
    "LabelSpace",
    "Scores",
    "Training",
    "Transformer",
    "VectorHead",
    "Vocabulary",
    "Weighing",
    "Weights",
    "entropy_loss",
    "fit",
    "load_parameters",
    "majority",
    "module_predict",
    "noise",
    "noise_vectors",
    "parameters_of",
    "pretrained",
    "scores",
    "sinkhorn_loss",
    "teacher_weights",
    "train",
]

# Names that need torch, and the module they are in.
_LATE = {
    "BagOfWords": "models",
    "Epoch": "trainer",
    "History": "trainer",
    "Transformer": "models",
    "VectorHead": "models",
    "entropy_loss": "losses",
    "fit": "fitting",
    "load_parameters": "modules",
    "module_predict": "fitting",
    "parameters_of": "modules",
    "pretrained": "models",
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
            "distillation needs torch. Run: pip install 'silot[torch]'.", code="extra-torch"
        ) from None
    return getattr(import_module(f".{_LATE[name]}", __name__), name)
