"""Scores of predictions: the named label, and how far off the expected coordinates are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..distances.result import fields_by_name
from ..errors import InputError, MismatchError
from ..federation.result import plain
from .labels import LabelSpace, are_probabilities, are_rows

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the quantiles in ``ClassScores``: whiskers, box and median of a box plot."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassScores:
    """Scores of the records of one class."""

    name: str
    """Name of the class."""
    code: int
    """Row of the class in the label space."""
    records: int
    """How many there are; never 0."""
    f1: float
    """F1 of the named labels."""
    recall: float
    """Recall of the named labels."""
    distance: float
    """Mean Euclidean distance of the expected coordinates from the class's own."""
    distance_quantiles: Array
    """Shape (5,): quantiles of that distance at ``LEVELS``."""
    expected: Array
    """Shape (k,): mean of the expected coordinates."""
    expected_quantiles: Array
    """Shape (5, k): their quantiles at ``LEVELS``, coordinate by coordinate."""

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON."""
        return plain(vars(self))


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of predictions on labelled records."""

    accuracy: float
    """Share of records whose most probable label is right; of equally probable ones the first
    counts."""
    macro_f1: float
    """Mean F1 of the classes that have records or are named for some record, each counting alike. A
    class that is named and has no records has F1 0."""
    semantic_distance: float
    """Mean over the classes that have records of ``ClassScores.distance``; in the unit of the
    coordinates, Euclidean whatever the metric of the label space."""
    per_class: tuple[ClassScores, ...]
    """Scores of every class that has records, in the order of the label space."""
    confusion: Codes
    """Shape (L, L): number of records of class i whose most probable label is j."""

    @property
    def records(self) -> int:
        """Number of records."""
        return int(self.confusion.sum())

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON."""
        names = ("records", "accuracy", "macro_f1", "semantic_distance", "per_class", "confusion")
        return fields_by_name(self, *names)


def scores(probabilities: npt.ArrayLike, codes: npt.ArrayLike, space: LabelSpace) -> Scores:
    r"""Score predictions against true labels.

    .. math::
        \mathrm{SD} = \frac{1}{|\mathcal{C}|} \sum_{c \in \mathcal{C}} \frac{1}{n_c}
            \sum_{i : y_i = c} \Big\lVert \sum_l h_l(x_i)\, x_l - x_c \Big\rVert_2

    Parameters
    ----------
    probabilities
        Shape (n, L), n >= 1.
    codes
        Shape (n,): the true labels, as whole numbers from 0 to L - 1.
    space
        The labels.

    Raises
    ------
    InputError, MismatchError
        No probabilities or no labels of this space; numbers that do not agree.

    Notes
    -----
    Paper 004, section 5.4.

    Examples
    --------
    >>> space = LabelSpace.preset("sentiment-5")
    >>> near = scores([[0.2, 0.7, 0.1, 0.0, 0.0]], [0], space)
    >>> far = scores([[0.4, 0.1, 0.1, 0.1, 0.3]], [0], space)
    >>> near.accuracy, round(near.semantic_distance, 3)
    (0.0, 0.9)
    >>> far.accuracy, round(far.semantic_distance, 3)
    (1.0, 1.8)
    """
    predictions, truth = _check(probabilities, codes, space)
    named = predictions.argmax(axis=1)
    confusion = np.zeros((space.size, space.size), dtype=np.int64)
    np.add.at(confusion, (truth, named), 1)
    of_class, of_label = confusion.sum(axis=1), confusion.sum(axis=0)
    right = np.diagonal(confusion)
    # Of a class without records that no record is taken for F1 is 0 / 0; it is in no mean.
    f1 = 2.0 * right / np.maximum(of_class + of_label, 1)
    expected = space.expected(predictions)
    # Euclidean whatever the metric of the space: the paper's semantic distance.
    off = np.linalg.norm(expected - space.coordinates[truth], axis=1)
    if not space.dimension:
        # Of labels without coordinates: what a prediction is expected to cost.
        off = np.einsum("nl,nl->n", predictions, space.cost[truth])
    per_class: list[ClassScores] = []
    for code in np.flatnonzero(of_class):
        rows = truth == code
        per_class.append(
            ClassScores(
                name=space.names[code],
                code=int(code),
                records=int(of_class[code]),
                f1=float(f1[code]),
                recall=float(right[code] / of_class[code]),
                distance=float(off[rows].mean()),
                distance_quantiles=np.quantile(off[rows], LEVELS),
                expected=expected[rows].mean(axis=0),
                expected_quantiles=np.quantile(expected[rows], LEVELS, axis=0),
            )
        )
    return Scores(
        accuracy=float(right.sum() / len(truth)),
        macro_f1=float(f1[(of_class > 0) | (of_label > 0)].mean()),
        semantic_distance=float(np.mean([own.distance for own in per_class])),
        per_class=tuple(per_class),
        confusion=confusion,
    )


def _check(
    probabilities: npt.ArrayLike, codes: npt.ArrayLike, space: LabelSpace
) -> tuple[Array, Codes]:
    predictions = np.asarray(probabilities, dtype=np.float64)
    truth = np.asarray(codes)
    if predictions.ndim != 2 or predictions.shape[1] != space.size:
        raise MismatchError(
            f"probabilities of shape {predictions.shape} arrived for {space.size} labels.",
            code="scores-shape",
        )
    if truth.shape != (len(predictions),):
        raise MismatchError(
            f"{len(predictions)} predictions and labels of shape {truth.shape} arrived.",
            code="scores-shape",
        )
    if len(predictions) == 0:
        raise InputError("no predictions arrived: nothing to score.", code="scores-empty")
    if not are_rows(truth, space.size):
        raise InputError(
            f"labels must be whole numbers from 0 to {space.size - 1}.", code="scores-codes"
        )
    if not are_probabilities(predictions).all():
        raise InputError(
            "predictions are not probabilities: an entry is not finite or negative, or a row does "
            "not sum to 1.",
            code="outputs-simplex",
        )
    return predictions, truth.astype(np.int64)
