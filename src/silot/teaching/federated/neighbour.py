"""The class of the nearest of a few labelled points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...data.measure import Data, Measure
from ...errors import InputError, MismatchError
from ...privacy.cells import nearest
from .spec import Array

Names = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class NearestNeighbour:
    r"""1-nearest-neighbour classifier on labelled points, such as those of coresets.

    .. math:: h(x) = y_{k(x)}, \qquad k(x) = \arg\min_k \|x - q_k\|^2

    Of several points equally near the first counts.

    Examples
    --------
    >>> from silot import Measure
    >>> near = NearestNeighbour.of(Measure([[0.0], [4.0]], labels=["well", "sick"]))
    >>> near.predict([[1.0], [3.0]]).tolist()
    ['well', 'sick']
    """

    points: Array = field(repr=False)
    """The :math:`q_k` (K, d)."""
    labels: Names = field(repr=False)
    """Names of their classes (K,)."""

    @classmethod
    def of(cls, *measures: Measure) -> Self:
        """The classifier on all points of some labelled measures together.

        Raises
        ------
        InputError, MismatchError
            No measure, one without labels (``labels-absent``), measures of other dimensions.
        """
        if not measures:
            raise InputError("no measure is given; one or more are needed.", code="labels-absent")
        points: list[Array] = []
        labels: list[Names] = []
        for measure in measures:
            if measure.names is None:
                raise InputError(
                    "a coreset without labels cannot classify. Compute it with labels=True.",
                    code="labels-absent",
                )
            _check_dimension(measure.dimension, measures[0].dimension)
            # A point without mass stands for nobody.
            points.append(measure.points[measure.weights > 0])
            labels.append(measure.names[measure.weights > 0])
        return cls(np.vstack(points), np.concatenate(labels))

    def predict(self, data: Data) -> Names:
        """Names of the classes of records (n, d).

        Raises
        ------
        InputError, MismatchError
            Records that are not numbers, or of another dimension.
        """
        records = Measure.of(data)
        _check_dimension(records.dimension, self.points.shape[1])
        codes, _ = nearest(records.points, self.points)
        return self.labels[codes]

    def accuracy(self, records: Measure) -> float:
        """Mass of the records whose class is found, 0..1; classes are compared by their names.

        Raises
        ------
        InputError, MismatchError
            As ``predict``, or the records have no labels.
        """
        if records.names is None:
            raise InputError(
                "the records to test on have no labels. Give Measure(points, labels=...).",
                code="labels-absent",
            )
        right: Any = self.predict(records) == records.names
        return min(float(records.weights @ right), 1.0)


def _check_dimension(dimension: int, needed: int) -> None:
    if dimension != needed:
        raise MismatchError(
            f"points of {needed} features and of {dimension} are not compared. Give all the same "
            "features in the same order.",
            code="dimension-mismatch",
        )
