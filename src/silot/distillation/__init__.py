"""Distil one model from the predictions of many teachers, where labels have a geometry.

Losses and models need torch (extra ``silot[torch]``), which is imported when they are first used.
"""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .fitting import fit, module_predict
    from .labels import LabelCodes, LabelSpace
    from .losses import entropy_loss, sinkhorn_loss
    from .models import BagOfWords, VectorHead, pretrained
    from .modules import load_parameters, parameters_of
    from .options import Asking, Fit, Training, Weighing
    from .result import Distillation
    from .scores import ClassScores, Scores, scores
    from .teacher import Teacher
    from .text import Vocabulary, noise, noise_vectors
    from .trainer import Epoch, History, train
    from .weights import Weights, majority, teacher_weights

__all__ = [
    "Asking",
    "BagOfWords",
    "ClassScores",
    "Distillation",
    "Epoch",
    "Fit",
    "History",
    "LabelCodes",
    "LabelSpace",
    "Scores",
    "Teacher",
    "Training",
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

lazily(__name__, extra="torch")
