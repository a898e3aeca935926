"""Mean features of a device: of all its records, and of its labelled ones by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import HolderError
from ..federation.answer import Answer, Array

# Random features have norm 1, and their means no more.
_NORM = 1.0 + 1e-9


@dataclass(frozen=True)
class Means:
    """Mean features of one device: of all its records, and of its labelled ones by class."""

    mean: Array
    by_class: Array
    counts: npt.NDArray[np.int64]


def read_means(answer: Answer, classes: int, features: int, *, by_class: bool) -> Means:
    """Mean features as a device told them, or an error that stands for what is wrong with them."""
    mean = answer.array("mean", ndim=1)
    if not by_class:
        if mean.shape != (features,) or not np.linalg.norm(mean) <= _NORM:
            raise HolderError("a mean that is none.", code="answer-malformed")
        return Means(mean, np.zeros((classes, features)), np.zeros(classes, dtype=np.int64))
    return _means_by_class(answer, mean, classes, features)


def _means_by_class(answer: Answer, mean: Array, classes: int, features: int) -> Means:
    by_class = answer.array("means", ndim=2)
    counts = answer.arrays.get("counts")
    fits = mean.shape == (features,) and by_class.shape == (classes, features)
    if not fits or counts is None or counts.dtype != np.int64 or counts.shape != (classes,):
        raise HolderError("means that are none.", code="answer-malformed")
    norms = np.linalg.norm(np.vstack([mean[None], by_class]), axis=1)
    if (counts < 0).any() or not (norms <= _NORM).all():
        raise HolderError("counts or means that are none.", code="answer-malformed")
    return Means(mean, by_class, counts)
