"""Whether records are still of the law of a reference, how far off, and by which columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from silot_transport import cost_matrix
from silot_transport._solvers import unit_cost

from ..api.distances import distance
from ..data.measure import Measure
from ..distances.result import Distance
from ..options import count
from ..render.shown import Shown
from ._checks import check_level, check_option, names_of, seed_of

Array = npt.NDArray[np.float64]

# Records of each side whose exact distance is computed for every permutation, at most.
_MOST = 150
# Reference records, and others, without which nothing can be told from chance.
_LEAST, _FEWEST = 10, 2


@dataclass(frozen=True, kw_only=True)
class Shift(Shown):
    """How records differ from a reference.

    Attributes
    ----------
    distance
        Exact W2 between them and the reference, in standard deviations of the reference.
    lower, upper
        Its certified bounds.
    chance
        What the distance of two samples of one law, of these sizes, stays below in 95 % of cases;
        ``None`` for fewer than ten records.
    p_value
        Chance of a difference as clear as this where nothing shifted; what it is made of is told
        at ``ShiftDetector``.
    shifted
        Whether that is the level or less.
    columns
        Share (0..1) of each column in the squared distance, by name or place; they sum to 1.
    column_p_values
        For each column the chance that any column, where nothing shifted, differs as clearly.
    blamed
        Columns for which that is the level or less, the clearest first.
    result
        The distance as ``silot.distance`` gives it, with its status.
    """

    view: ClassVar = "shift_view:shift"

    distance: float
    lower: float
    upper: float
    chance: float | None
    p_value: float
    shifted: bool
    columns: Mapping[str, float]
    column_p_values: Mapping[str, float]
    blamed: tuple[str, ...]
    result: Distance = field(repr=False)


class ShiftDetector(BaseEstimator):
    r"""Test whether records are of the law that a reference is of, by transport distances.

    ``detect`` tells the exact distance W2 of records and reference, and a p-value of the clearest
    of four differences, each a distance or a lower bound of one (all maps in them are
    1-Lipschitz), in columns standardised by both sides together:

    - :math:`W_2` of at most 150 records of each side;
    - the gap of the means, :math:`|\bar x - \bar y| \le W_2`;
    - :math:`W_1` of each column, :math:`\int |F(t) - G(t)|\, dt`, the largest counting;
    - :math:`W_1` of how far records lie from the common mean.

    Both sides are put together and split at random ``permutations`` times. Each difference is
    measured in standard deviations of what these splits make it, and the largest compared
    with that of each split:

    .. math:: p = \frac{1 + \#\{b: T_b \ge T\}}{1 + B}.

    Parameters
    ----------
    level
        Chance of an alarm where nothing shifted, above 0 and up to 0.5.
    permutations
        Random splits B, 19 or more; p-values are no smaller than ``1 / (1 + B)``.
    random_state
        Of the splits. A whole number makes results the same every time.

    Attributes
    ----------
    reference_
        The records of ``fit`` (n, d).
    scale_
        Their standard deviations (d,), 1 for constant columns: the units of distances.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ValueError
        Fewer than ten reference records or two others, or values that are no finite numbers.
    InputError
        Of ``fit``: ``option-level``, ``option-permutations``.
    MemoryShortError
        Of ``detect``: costs of all pairs do not fit into memory.

    Notes
    -----
    The level holds at every size for independent records, for the splits are as likely as what
    was seen (a permutation test; p-values of columns after Westfall and Young, 1993). Records of
    one patient on several days are not independent.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.estimators import ShiftDetector
    >>> rng = np.random.default_rng(0)
    >>> detector = ShiftDetector().fit(rng.normal(size=(200, 3)))
    >>> detector.detect(rng.normal(size=(100, 3))).shifted
    False
    >>> shift = detector.detect(rng.normal(size=(100, 3)) + [0.0, 1.0, 0.0])
    >>> shift.shifted, shift.p_value, shift.blamed
    (True, 0.005, ('1',))
    """

    def __init__(
        self, *, level: float = 0.05, permutations: int = 199, random_state: Any = 0
    ) -> None:
        self.level = level
        self.permutations = permutations
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Keep reference records.

        Parameters
        ----------
        X
            Reference records (n, d), ten or more.
        y
            Not looked at.

        Returns
        -------
        ShiftDetector
            This one.
        """
        check_level(self.level, "level")
        check_option(count(19), self.permutations, "permutations")
        self.reference_ = np.asarray(
            validate_data(self, X, dtype=np.float64, ensure_min_samples=_LEAST, copy=True)
        )
        spread = self.reference_.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        return self

    def detect(self, X: Any) -> Shift:  # noqa: N803
        """Compare records with the reference.

        Parameters
        ----------
        X
            Records (m, d), two or more.

        Returns
        -------
        Shift
            Distance, chance level, p-value and columns to blame.
        """
        check_is_fitted(self)
        points = np.asarray(
            validate_data(self, X, reset=False, dtype=np.float64, ensure_min_samples=_FEWEST)
        )
        names = names_of(self) or tuple(str(k) for k in range(points.shape[1]))
        seed = seed_of(self.random_state)
        first, second = (
            Measure(side / self.scale_, columns=names) for side in (points, self.reference_)
        )
        result = distance(first, second, method="direct", why=True, seed=seed)
        p_value, of_columns = p_values(self.reference_, points, self.permutations, seed)
        order = np.argsort(of_columns, kind="stable")
        return Shift(
            distance=result.value,
            lower=result.lower,
            upper=result.upper,
            chance=result.chance,
            p_value=p_value,
            shifted=p_value <= self.level,
            columns={} if result.parts is None else dict(result.parts.columns),
            column_p_values=dict(zip(names, of_columns.tolist(), strict=True)),
            blamed=tuple(names[k] for k in order if of_columns[k] <= self.level),
            result=result,
        )


def p_values(x: Array, y: Array, permutations: int, seed: int) -> tuple[float, Array]:
    """Compute the p-value of the clearest difference, and that of each column."""
    # Whatever is computed of both sides together is the same for every split.
    pooled = np.concatenate([x, y])
    pooled = pooled - pooled.mean(axis=0)
    spread = pooled.std(axis=0)
    pooled /= np.where(spread > 0, spread, 1.0)
    rng = np.random.default_rng([seed, 61])
    size, total = len(x), len(pooled)
    actual = np.concatenate([rng.permutation(size), size + rng.permutation(total - size)])
    splits = np.stack([actual, *(rng.permutation(total) for _ in range(permutations))])
    masses = np.full(splits.shape, -1.0 / (total - size))
    np.put_along_axis(masses, splits[:, :size], 1.0 / size, axis=1)
    columns = np.column_stack([_line(column, masses) for column in pooled.T])
    families = [
        _joint(pooled, splits, size),
        np.linalg.norm(masses @ pooled, axis=1),
        _standard(columns).max(axis=1),
        _line(np.linalg.norm(pooled, axis=1), masses),
    ]
    clearest = _standard(np.column_stack(families)).max(axis=1)
    by_column = _standard(columns)
    return float(_as_clear(clearest, clearest[0])), _as_clear(by_column.max(axis=1), by_column[0])


def _line(values: Array, masses: Array) -> Array:
    """Compute ``W_1`` on the line between the sides of each split (B,)."""
    order = np.argsort(values, kind="stable")
    return np.abs(np.cumsum(masses[:, order], axis=1)[:, :-1]) @ np.diff(values[order])


def _joint(pooled: Array, splits: npt.NDArray[np.int64], size: int) -> Array:
    """Compute the exact squared ``W_2`` between a few records of both sides of each split (B,)."""
    few = min(size, len(pooled) - size, _MOST)
    return np.array(
        [
            unit_cost(cost_matrix(pooled[split[:few]], pooled[split[size : size + few]]))
            for split in splits
        ]
    )


def _standard(differences: Array) -> Array:
    """Standardize differences (B, k) by their mean and standard deviation over all splits."""
    spread = differences.std(axis=0)
    return (differences - differences.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _as_clear(differences: Array, actual: npt.ArrayLike) -> Array:
    """Return the share of splits whose difference is as large; the actual split counts too."""
    # Equal but for rounding is equal.
    return np.mean(differences[:, None] >= np.atleast_1d(actual) - 1e-9, axis=0).squeeze()
