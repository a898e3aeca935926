"""Records that are unlike trusted ones, as an outlier detector of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, OutlierMixin, TransformerMixin
from sklearn.impute import KNNImputer
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..api.records import value_records
from ..data.measure import Measure
from ..data.reading import Schema, read_by_schema
from ..data.tables import align
from ..distances.questions import decode_classes
from ..errors import InputError
from ..federation.party import Own
from ..options import part, truth
from ..records.result import RecordScores
from ..records.screen import FEWEST, odds, sound_odds
from ..records.validation import fitted
from ._checks import check_level, check_option, names_of, seed_of

Array = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int64]

_HINT = "For words and missing values give RecordScreener(schema=...): `silot schema draft TABLE`."


class RecordScreener(OneToOneFeatureMixin, TransformerMixin, OutlierMixin, BaseEstimator):
    r"""Screen records with models of trusted ones: ``value_records`` as an outlier detector.

    ``fit`` reads off trusted records what is normal. Each record x, with its label l where labels
    are judged, then has the log odds that it is faulty,

    .. math:: s(x, l) = \log \left( \frac{\pi_f}{1 - \pi_f} \frac{p(x | \text{broken})}
              {p(x | \text{sound})} + \frac{\pi_l}{1 - \pi_l}
              \frac{\sum_{k \ne l} p(k | x) / (C - 1)}{p(l | x)} \right),

    with shares :math:`\pi_f = 0.001` and :math:`\pi_l = 0.003`, whatever other records there are.
    Ratios are those of ``value_records``, which says where they come from.

    Parameters
    ----------
    labels
        Whether labels are judged too: ``fit`` then needs them.
    level
        Share of clean records that ``predict`` calls faulty, above 0 and up to 0.5.
    fdr
        Share of the records flagged by ``screen`` that may be clean, from 0 up to, not including,
        1; 0 flags nothing.
    random_state
        Of trees, folds and noise. A whole number makes results the same every time.
    schema
        The contract of a table, or its file: records are then data frames with words, dates and
        missing values, read as ``value_records`` reads them. ``None``: numbers alone.

    Attributes
    ----------
    offset_
        Score below which a record is called broken: the ``level`` quantile of the trusted
        records' own, each compared with the others.
    classes_
        Names of the classes of the trusted records, as texts; empty without labels.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; by a schema, the columns that it reads as features.

    Raises
    ------
    ValueError
        Of ``fit``: fewer than ten records, or values that are not finite numbers.
    InputError
        By a schema: ``schema-columns``, ``schema-fit``, ``schema-unit`` as ``Schema.measure``.
        Of ``fit``: ``option-level``, ``option-fdr``, ``option-labels``; ``labels-absent`` where
        labels are to be judged and there are none; ``validation-few``: fewer than ten records
        that are not copies of one another; of ``screen`` also too few for its level.

    See Also
    --------
    CleanedClassifier : Screen training records, and fit a classifier on what is kept.

    Notes
    -----
    In a pipeline records cannot be dropped, so ``transform`` repairs them: of a record that
    ``predict`` calls faulty, the column that fits the others least, if it is farther off than all
    but ``level`` of the trusted records are, gets the mean of the five nearest trusted records by
    the other columns; then the next, up to half of the columns. ``fit_transform`` on trusted
    records, as in ``Pipeline.fit``, changes about ``level`` of them at most.

    By a schema, columns are taken by name in any order and others are ignored, weights too; labels
    are ``y``, or without it the label column of the schema where the table has it. ``transform``
    then returns coordinates of the schema: numbers, in units of a column's public range, one for
    each of ``get_feature_names_out()``.

    ``predict`` judges each record by itself. ``screen`` looks at all of them: it learns from them
    too how many are faulty, finds copies, and flags by the share of sound
    records among the flagged.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.estimators import RecordScreener
    >>> trusted = np.random.default_rng(0).normal(size=(200, 3))
    >>> screener = RecordScreener().fit(trusted)
    >>> records = [[0.1, 0.2, -0.3], [0.1, 40.0, -0.3]]
    >>> screener.predict(records)
    array([ 1, -1])
    >>> screener.transform(records).round(1)[:, [0, 2]]
    array([[ 0.1, -0.3],
           [ 0.1, -0.3]])
    >>> bool(abs(screener.transform(records)[1, 1]) < 2)
    True
    """

    def __init__(
        self,
        *,
        labels: bool = False,
        level: float = 0.05,
        fdr: float = 0.1,
        random_state: Any = 0,
        schema: Schema | str | Path | None = None,
    ) -> None:
        self.labels = labels
        self.level = level
        self.fdr = fdr
        self.random_state = random_state
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Read off trusted records what is normal.

        Parameters
        ----------
        X
            Trusted records (n, d): ten or more, better hundreds.
        y
            Their labels (n,); not looked at unless ``labels``.

        Returns
        -------
        RecordScreener
            This one.
        """
        level = check_level(self.level, "level")
        labels = check_option(truth(), self.labels, "labels")
        check_option(part(), self.fdr, "fdr")
        trusted = self._read(X, y, reset=True)
        if labels and not trusted.labelled:
            raise InputError(
                "labels should be judged, but fit received none. Give y, or labels=False.",
                code="labels-absent",
            )
        points = trusted.points
        self._seed = seed_of(self.random_state)
        self._trusted = Own(trusted)
        self._screen, _, classes = fitted(self._trusted, labels=labels, seed=self._seed)
        self.classes_ = np.array(decode_classes(classes) if labels else [], dtype=np.str_)
        sound = sound_odds(self._screen, labels=labels)
        # Equal but for rounding is equal.
        self.offset_ = -float(np.quantile(sound, 1.0 - level, method="inverted_cdf")) - 1e-9
        off = odds(self._screen, points, None)[1].max(axis=1)
        self._usual = float(np.quantile(off, 1.0 - level, method="inverted_cdf"))
        self._scaler = StandardScaler().fit(points)
        self._imputer = KNNImputer(keep_empty_features=True).fit(self._scaler.transform(points))
        return self

    def score_samples(self, X: Any, y: Any = None) -> Array:  # noqa: N803
        """Return how normal each record is, by itself: minus the log odds that it is faulty.

        Parameters
        ----------
        X
            Records (n, d).
        y
            Their labels (n,); without, or of classes that trusted records lack, labels are not
            judged.

        Returns
        -------
        numpy.ndarray
            Shape (n,), higher means more normal.
        """
        check_is_fitted(self)
        records = self._read(X, y)
        return -odds(self._screen, records.points, self._codes(records))[0]

    def decision_function(self, X: Any, y: Any = None) -> Array:  # noqa: N803
        """``score_samples`` less ``offset_`` (n,): below 0 for records that are called faulty."""
        return self.score_samples(X, y) - self.offset_

    def predict(self, X: Any, y: Any = None) -> Signs:  # noqa: N803
        """-1 for each record (n,) that is called faulty, 1 for the others."""
        return np.where(self.decision_function(X, y) < 0, -1, 1)

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Repair the features of records that are called faulty.

        Parameters
        ----------
        X
            Records (n, d).

        Returns
        -------
        numpy.ndarray
            Shape (n, d), or a data frame after ``set_output``; clean records as they are.
        """
        check_is_fitted(self)
        points = self._read(X, None).points
        broken = np.flatnonzero(-odds(self._screen, points, None)[0] < self.offset_)
        repaired, records = points.copy(), points[broken]
        wrong = np.zeros(records.shape, dtype=np.bool_)
        for _ in range(max(points.shape[1] // 2, 1)):
            if not len(broken):
                break
            log_odds, off = odds(self._screen, repaired[broken], None)
            off[wrong] = 0.0
            worst = off.argmax(axis=1)
            again = np.flatnonzero((-log_odds < self.offset_) & (off.max(axis=1) > self._usual))
            if not len(again):
                break
            wrong[again, worst[again]] = True
            scaled = self._scaler.transform(np.where(wrong, np.nan, records))
            filled = np.asarray(self._scaler.inverse_transform(self._imputer.transform(scaled)))
            repaired[broken] = np.where(wrong, filled, records)
        return repaired

    def screen(self, X: Any, y: Any = None) -> RecordScores:  # noqa: N803
        """Screen records together: ``value_records`` with the trusted records.

        Parameters
        ----------
        X
            Records (n, d).
        y
            Their labels (n,), needed if ``labels``.

        Returns
        -------
        RecordScores
            Scores, flags at the level ``fdr``, what each record is flagged for, copies.
        """
        check_is_fitted(self)
        data = self._read(X, y)
        if self.labels and not data.labelled:
            raise InputError("labels should be judged. Give y.", code="labels-absent")
        return value_records(
            data, self._trusted, labels=self.labels, seed=self._seed, fdr=self.fdr, name="records"
        )

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Names of what ``transform`` returns: of the columns, or the coordinates of the schema."""
        check_is_fitted(self)
        if self._contract is None:
            return np.asarray(super().get_feature_names_out(input_features))
        return np.asarray(self._contract.features, dtype=object)

    def _read(self, X: Any, y: Any, *, reset: bool = False) -> Measure:  # noqa: N803
        """Read records, with their labels if these are judged."""
        y = align(X, y, "y") if self.labels else None
        if reset:
            self._contract = Schema.coerce(self.schema)
        if self._contract is None:
            try:
                least = FEWEST if reset else 1
                points = validate_data(
                    self, X, reset=reset, dtype=np.float64, ensure_min_samples=least
                )
            except ValueError as error:
                is_kind = "NaN" in str(error) or "could not convert" in str(error)
                raise ValueError(f"{error}\n{_HINT}" if is_kind else str(error)) from None
            return Measure(np.asarray(points), labels=y, columns=names_of(self))
        measure = read_by_schema(X, self._contract, complete=False).measure
        if reset:
            self.feature_names_in_ = np.asarray(list(self._contract.used), dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        labels = measure.labels if y is None and self.labels else y
        return Measure(measure.points, None, labels, measure.columns, schema=self._contract)

    def _codes(self, records: Measure) -> npt.NDArray[np.int64] | None:
        if records.names is None or not len(self.classes_):
            return None
        places = {name: code for code, name in enumerate(self.classes_.tolist())}
        return np.array([places.get(name, len(places)) for name in records.names], np.int64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        by_schema = self.schema is not None
        tags.target_tags.required = bool(self.labels) and not by_schema
        tags.input_tags.allow_nan = tags.input_tags.string = by_schema
        return tags
