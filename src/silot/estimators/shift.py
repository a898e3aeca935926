"""Whether records still come from the distribution of a reference, how far off, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from silot_transport import TwoSampleResult, two_sample

from ..api.distances import distance
from ..data.measure import Measure
from ..data.reported import Reported
from ..distances.result import Distance, fields_by_name
from ..options import count
from ._checks import check_level, check_option, names_of, seed_of

Array = npt.NDArray[np.float64]

# Reference records, and others, without which nothing can be tested.
_LEAST, _FEWEST = 10, 2


@dataclass(frozen=True, kw_only=True)
class Shift(Reported):
    """How records differ from a reference.

    Attributes
    ----------
    distance
        Exact W2 between them and the reference, in standard deviations of the reference.
    lower, upper
        Its certified bounds.
    test
        The test: p-value, which columns drive a difference and by how much, from the reference to
        the records, and which difference would have been detected.
    columns
        Share (0..1) of each column in the squared distance, by name or place; they sum to 1.
    result
        The distance as ``silot.distance`` gives it, with its status.
    """

    view: ClassVar = "view:shift"

    distance: float
    lower: float
    upper: float
    test: TwoSampleResult
    columns: Mapping[str, float]
    result: Distance = field(repr=False)

    @property
    def value(self) -> float:
        """The distance."""
        return self.distance

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        names = ("distance", "lower", "upper", "test", "columns", "shifted")
        return fields_by_name(self, *names)

    @property
    def shifted(self) -> bool:
        """Whether the records differ from the reference."""
        return self.test.verdict == "different"

    @property
    def p_value(self) -> float:
        """How often records of the reference's distribution would differ as clearly."""
        return self.test.p_value

    @property
    def drivers(self) -> tuple[str, ...]:
        """Columns that differ by themselves, the clearest first."""
        return self.test.drivers


class ShiftDetector(BaseEstimator):
    r"""Test whether records come from the distribution of a reference (``two_sample``).

    ``detect`` gives the verdict of ``silot.transport.two_sample``, a permutation test that sees
    changes of location, spread, tails and dependence, with the columns that drive it, and the
    exact distance W2 of records and reference in standard deviations of the reference.

    Parameters
    ----------
    level
        How often there is an alarm where nothing shifted, above 0 and up to 0.5.
    permutations
        19 or more; p-values are no smaller than ``1 / (1 + permutations)``.
    random_state
        Of the permutations. A whole number makes results the same every time.

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
        Fewer than ten reference records or two others, or values that are not finite numbers.
    InputError
        Of ``fit``: ``option-level``, ``option-permutations``.
    MemoryShortError
        Of ``detect``: costs of all pairs do not fit into memory.

    Notes
    -----
    The level holds at every size for independent records. Records of one patient on several days
    are not independent.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.estimators import ShiftDetector
    >>> rng = np.random.default_rng(0)
    >>> detector = ShiftDetector().fit(rng.normal(size=(200, 3)))
    >>> detector.detect(rng.normal(size=(100, 3))).shifted
    False
    >>> shift = detector.detect(rng.normal(size=(100, 3)) + [0.0, 1.0, 0.0])
    >>> shift.shifted, shift.p_value, shift.drivers
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
            Distance, and the verdict with what drives it.
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
        verdict = two_sample(
            self.reference_, points, columns=names, level=self.level,
            permutations=self.permutations, seed=seed,
        )  # fmt: skip
        result = distance(first, second, method="direct", why=True, seed=seed)
        return Shift(
            distance=result.value,
            lower=result.lower,
            upper=result.upper,
            test=verdict,
            columns={} if result.parts is None else dict(result.parts.columns),
            # The test of the distance has the other direction, and scaled columns.
            result=replace(result, test=verdict),
        )
