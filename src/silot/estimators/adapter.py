"""A classifier for records of another law: the least change that explains how it differs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import wasserstein_distance
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from ..errors import InputError, MismatchError
from ..federation.result import Shown
from ..options import word
from ..records._arrays import quantiles
from ..transport import exact_plan
from ..value.mixtures import best_mixture
from ._checks import asked_of, chance, checked, names_of, seed_of
from .shift import p_values

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Change = Literal["none", "classes", "units", "transport", "unexplained"]
Otherwise = Literal["leave", "transport"]

# Records of each side that changes are tried on, at most, and records of a side without which
# nothing can be told from chance.
_MOST, _LEAST = 600, 10
# Classes up to which each is tried as most of the target; rounds of columns and classes in turn,
# and the change of a share at which they end.
_FEW, _ROUNDS, _SETTLED = 5, 8, 5e-3
_TILTED = 0.8
# Random splits of a test, and the least part of the source that it is made with.
_SPLITS, _THIRD, _SEEDS = 199, 1.0 / 3.0, 2**31 - 1
# Part of the weights that stays with the source's shares.
_KEPT = 0.2
# What no class falls below, as a part of its records' share: classifiers divide by it.
_FLOOR = 1e-6
# Less spread than this part of the values is rounding.
_FLAT = 1e-12


@dataclass(frozen=True, kw_only=True)
class Step:
    """One explanation that was tried.

    Attributes
    ----------
    change
        Which one.
    distance
        W2 between the source so changed and the target, in deviations of columns.
    p_value
        Chance of a difference as clear as theirs between samples of one law (``ShiftDetector``).
    explains
        Whether that is above the level.
    """

    change: Change
    distance: float
    p_value: float
    explains: bool


@dataclass(frozen=True, kw_only=True)
class Adaptation(Shown):
    """How a target differs from a source, and what was done about it.

    Attributes
    ----------
    change
        The least change that explains the target: ``"none"``; ``"classes"``, other shares of the
        classes; ``"units"``, another scale and offset of each column, and shares. Or
        ``"unexplained"``, and nothing was changed; or ``"transport"``, where records were moved
        because nothing less explains it.
    steps
        What was tried, in that order.
    shares
        By class, its share of the source, and of the target as far as it is known.
    scale, offset
        By column: target = scale * source + offset. Ones and zeros unless ``change`` is units.
    """

    view: ClassVar = "adaptation_view:adaptation"

    change: Change
    steps: tuple[Step, ...]
    shares: Mapping[str, tuple[float, float]]
    scale: Mapping[str, float]
    offset: Mapping[str, float]


@dataclass(frozen=True)
class _Fitted:
    """A change of the source: shares of classes, and columns."""

    shares: Mapping[Any, float]
    scale: Array
    offset: Array


class DomainAdapter(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""Fit a classifier for a target whose labels are unknown, on a labelled source.

    Of the changes that may have happened between source P and target Q the least is taken that
    explains Q, that is, leaves no difference that is clear (``ShiftDetector``):

    1. none;
    2. other shares of the classes c: the nearest mixture,
       :math:`\min_\lambda W_2(\sum_c \lambda_c P_c, Q)`;
    3. another scale and offset of each column, and shares: both in turn, from several starts, with
       columns of the mixture brought as near to the target's as mean and deviation, quartiles or
       ends of each do.

    The classifier is fitted on source records so changed, weighted by the shares where it takes
    ``sample_weight``; a fifth of the source's own shares stays in the weights, for shares that are
    found from few records are too sharp. A classifier without weights gets records drawn by them.
    Plain transport of all records does the second by the third and worse: where the target has
    more of one class, it moves records of the other there.

    Parameters
    ----------
    estimator
        The classifier.
    otherwise
        Where nothing explains the target: ``"leave"`` the source as it is and warn, or
        ``"transport"`` each record to its barycentric image
        :math:`\hat x_i = \sum_j P_{ij} y_j / a_i` in the target (Courty et al., 2017), under the
        shares of step 2.
    level
        Chance, above 0 and up to 0.5, that records of one law are found to differ: lower, and less
        is changed.
    random_state
        Of the 600 records of each side, at most, that changes are tried on. A whole number makes
        results the same every time.

    Attributes
    ----------
    estimator_
        The fitted classifier; it takes records as the target has them.
    adaptation_
        What was found, an ``Adaptation``; ``None`` without a target.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ValueError
        Values that are no finite numbers, fewer than ten records of a side.
    InputError, MismatchError
        Of ``fit``: ``option-otherwise``, ``option-level``; ``sample-domain`` for domains that
        are none.
    MemoryShortError
        Of ``fit`` with transport: costs of all pairs do not fit into memory.

    See Also
    --------
    ShiftDetector : Whether anything differs at all.

    Notes
    -----
    What the target's labels are nobody tells it: where the classes themselves changed places, or
    what another unit does looks like other shares, no method can know, and the least change may
    be the wrong one. N. Courty, R. Flamary, D. Tuia and A. Rakotomamonjy, "Optimal transport for
    domain adaptation", IEEE TPAMI 39 (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from silot.estimators import DomainAdapter
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [200, 400])
    >>> X = rng.normal(size=(600, 3)) + 2.0 * y[:, None]
    >>> domain = np.where(rng.random(600) < 0.5, 1, -2)
    >>> X[domain < 0] = 18.0 * X[domain < 0] + 5.0
    >>> model = DomainAdapter(LogisticRegression()).fit(X, y, sample_domain=domain)
    >>> model.adaptation_.change, round(model.adaptation_.scale["0"], 0)
    ('units', 18.0)
    >>> model.score(X[domain < 0], y[domain < 0]) > 0.9
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        otherwise: Otherwise = "leave",
        level: float = 0.05,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.otherwise = otherwise
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_domain: Any = None) -> Self:  # noqa: N803
        """Find what changed, and fit the classifier on the source so changed.

        Parameters
        ----------
        X
            Records of both (n, d).
        y
            Labels (n,); those of the target are not looked at.
        sample_domain
            Above 0 for records of the source, below 0 for those of the target (n,), as skada has
            it. ``None``: all are of the source, and the classifier is fitted as it is.

        Returns
        -------
        DomainAdapter
            This one.
        """
        checked(word("leave", "transport"), self.otherwise, "otherwise")
        chance(self.level, "level")
        points, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        labels = column_or_1d(labels, warn=True)
        of_source = _sources(sample_domain, len(labels))
        source, own = np.asarray(points)[of_source], labels[of_source]
        self.adaptation_, params = None, {}
        if not of_source.all():
            rng = np.random.default_rng([seed_of(self.random_state), 62])
            target = np.asarray(points)[~of_source]
            source, shares = self._adapted(source, own, target, rng)
            if shares and has_fit_parameter(self.estimator, "sample_weight"):
                params["sample_weight"] = _masses(own, shares) * len(own)
            elif shares:
                chosen = _drawn(own, shares, len(own), rng)
                source, own = source[chosen], own[chosen]
        made: Any = clone(self.estimator)
        self.estimator_ = made.fit(source, own, **params)
        self.classes_ = self.estimator_.classes_
        return self

    def _adapted(
        self, x: Array, labels: Any, y: Array, rng: np.random.Generator
    ) -> tuple[Array, Mapping[Any, float] | None]:
        """The source as it would be in the target, and shares of its classes if others than now."""
        for name, side in (("source", x), ("target", y)):
            if len(side) < _LEAST:
                raise ValueError(
                    f"{len(side)} sample(s) of the {name} while a minimum of {_LEAST} is required."
                )
        of_x, of_y = _some(rng, len(x)), _some(rng, len(y))
        unit = _deviations(x, y)
        clear = _Clear(x[of_x] / unit, labels[of_x], y[of_y] / unit, self.level, rng)
        steps, found = _explained(clear)
        change = steps[-1].change if steps[-1].explains else "unexplained"
        own = {each: float(np.mean(labels == each)) for each in np.unique(labels)}
        # A rare class may have no record among those that were looked at.
        shares = {each: float(found.shares.get(each, own[each])) for each in own}
        scale, offset = found.scale, found.offset * unit
        if change == "unexplained" and self.otherwise == "transport":
            change = "transport"
            mass = _masses(labels, shares)
            plan = exact_plan(x / unit, y / unit, mass)
            x = np.asarray(plan.plan @ y) / mass[:, None]
        elif change == "unexplained":
            warnings.warn(
                "neither other shares of the classes nor other units of the columns explain the "
                "target, and nothing is changed: see adaptation_, or set otherwise='transport'.",
                UserWarning,
                stacklevel=3,
            )
        else:
            x = x * scale + offset
        names = names_of(self) or tuple(str(k) for k in range(x.shape[1]))
        self.adaptation_ = Adaptation(
            change=change,
            steps=steps,
            shares={str(each): (own[each], shares[each]) for each in own},
            scale=dict(zip(names, scale.tolist(), strict=True)),
            offset=dict(zip(names, offset.tolist(), strict=True)),
        )
        if change in ("none", "unexplained"):
            return x, None
        return x, {each: (1.0 - _KEPT) * shares[each] + _KEPT * own[each] for each in own}

    @asked_of("predict")
    def predict(self, X: Any) -> Any:  # noqa: N803
        """Classes (n,) of records of the target."""
        return self._asked("predict", X)

    @asked_of("predict_proba")
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Probabilities of classes (n, C) of records of the target."""
        return self._asked("predict_proba", X)

    @asked_of("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:  # noqa: N803
        """Log probabilities of classes (n, C) of records of the target."""
        return self._asked("predict_log_proba", X)

    @asked_of("decision_function")
    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """The classifier's decision function, (n,) or (n, C), at records of the target."""
        return self._asked("decision_function", X)

    def _asked(self, method: str, X: Any) -> Any:  # noqa: N803
        check_is_fitted(self)
        points = validate_data(self, X, reset=False, dtype=np.float64)
        return getattr(self.estimator_, method)(points)

    def __sklearn_tags__(self) -> Tags:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.classifier_tags = own.classifier_tags
        tags.input_tags.sparse = False
        tags.target_tags.multi_output = False
        return tags


def _sources(sample_domain: Any, size: int) -> npt.NDArray[np.bool_]:
    """Which records are of the source."""
    if sample_domain is None:
        warnings.warn(
            "no record is of a target: say by sample_domain=, numbers above 0 for the source and "
            "below for the target.",
            UserWarning,
            stacklevel=3,
        )
        return np.ones(size, dtype=np.bool_)
    domain = np.asarray(sample_domain)
    if domain.shape != (size,):
        raise MismatchError(
            f"sample_domain has shape {domain.shape} and there are {size} records. Give a number "
            "for each.",
            code="sample-domain",
        )
    if domain.dtype.kind not in "if" or not (np.isfinite(domain).all() and domain.all()):
        raise InputError(
            "sample_domain is not a number above or below 0 for each record: above for the source, "
            "below for the target.",
            code="sample-domain",
        )
    return domain > 0


def _some(rng: np.random.Generator, size: int) -> Places:
    return np.sort(rng.permutation(size)[:_MOST])


def _deviations(x: Array, y: Array) -> Array:
    """Standard deviations of columns within both, or of both together where they are constant."""
    within = np.sqrt(0.5 * (_spread(x) ** 2 + _spread(y) ** 2))
    unit = np.where(within > 0.0, within, _spread(np.concatenate([x, y])))
    return np.where(unit > 0.0, unit, 1.0)


def _spread(x: Array, mass: Array | None = None) -> Array:
    """Standard deviations; zero where they are but rounding."""
    mass = np.full(len(x), 1.0 / len(x)) if mass is None else mass
    found = np.sqrt(mass @ (x - mass @ x) ** 2)
    return np.where(found > _FLAT * np.abs(x).max(axis=0), found, 0.0)


def _masses(labels: Any, shares: Mapping[Any, float]) -> Array:
    mass = np.empty(len(labels))
    for each, share in shares.items():
        own = labels == each
        mass[own] = max(share / own.sum(), _FLOOR / len(labels))
    return mass / mass.sum()


@dataclass(frozen=True)
class _Clear:
    """A source with labels and a target, and whether a change leaves them clearly different."""

    x: Array
    labels: Any
    y: Array
    level: float
    rng: np.random.Generator

    def moved(self, change: _Fitted) -> Array:
        return self.x * change.scale + change.offset

    def distance(self, change: _Fitted) -> float:
        mass = _masses(self.labels, change.shares)
        return exact_plan(self.moved(change), self.y, mass).distance

    def step(self, name: Change, change: _Fitted) -> Step:
        seed = int(self.rng.integers(_SEEDS))
        # As many as there are without any twice, or a third of all: records that are there twice
        # make a difference clearer.
        held = {each: float(np.sum(self.labels == each)) for each in change.shares}
        room = min(held[each] / share for each, share in change.shares.items() if share > 0.0)
        size = max(room, _THIRD * len(self.x))
        chosen = self.moved(change)[_drawn(self.labels, change.shares, size, self.rng)]
        p_value, _ = p_values(chosen, self.y, _SPLITS, seed)
        return Step(
            change=name,
            distance=self.distance(change),
            p_value=p_value,
            explains=p_value > self.level,
        )


def _drawn(
    labels: Any, shares: Mapping[Any, float], size: float, rng: np.random.Generator
) -> Places:
    """About so many records in these shares, some more than once where there are too few."""
    chosen: list[Places] = []
    for each, share in shares.items():
        places = np.flatnonzero(labels == each)
        count = round(share * size)
        chosen.append(rng.choice(places, count, replace=count > len(places)))
    return np.concatenate(chosen)


def _explained(clear: _Clear) -> tuple[tuple[Step, ...], _Fitted]:
    """The least change that explains a target, or all that were tried and shares alone."""
    x, labels, y = clear.x, clear.labels, clear.y
    classes, counts = np.unique(labels, return_counts=True)
    same, none = np.ones(x.shape[1]), np.zeros(x.shape[1])
    here = _Fitted(dict(zip(classes, counts / len(labels), strict=True)), same, none)
    steps = [clear.step("none", here)]
    if steps[-1].explains:
        return tuple(steps), here
    shares = _Fitted(_shares(x, labels, y), same, none)
    steps.append(clear.step("classes", shares))
    if steps[-1].explains:
        return tuple(steps), shares
    tried = [_in_turn(x, labels, y, start) for start in _starts(here.shares, shares.shares)]
    units = min(tried, key=clear.distance)
    steps.append(clear.step("units", units))
    return tuple(steps), units if steps[-1].explains else shares


def _starts(own: Mapping[Any, float], found: Mapping[Any, float]) -> Iterable[Mapping[Any, float]]:
    """Shares to start from: where columns differ too, those found first may be far off."""
    yield own
    yield found
    yield dict.fromkeys(own, 1.0 / len(own))
    if len(own) <= _FEW:
        for most in own:
            yield {c: (1.0 - _TILTED) * own[c] + _TILTED * (c == most) for c in own}


def _in_turn(x: Array, labels: Any, y: Array, shares: Mapping[Any, float]) -> _Fitted:
    """Columns and shares, each the best for the other."""
    found = _columns(x, labels, y, shares)
    for _ in range(_ROUNDS):
        better = _shares(x * found.scale + found.offset, labels, y)
        moved = max(abs(better[each] - found.shares[each]) for each in better)
        found = _columns(x, labels, y, better)
        if moved < _SETTLED:
            break
    return found


def _columns(x: Array, labels: Any, y: Array, shares: Mapping[Any, float]) -> _Fitted:
    """Scale and offset of each column that bring a mixture nearest to the target.

    By mean and deviation, by quartiles, or by the ends, which alone fit a column of few values.
    """
    mass = _masses(labels, shares)
    even = np.full(len(y), 1.0 / len(y))
    candidates: list[tuple[Array, Array]] = []
    for own, other in zip(_summaries(x, mass), _summaries(y, even), strict=True):
        ratio = other[1] / np.where(own[1] > 0.0, own[1], 1.0)
        scale = np.where((own[1] > 0.0) & (other[1] > 0.0), ratio, 1.0)
        candidates.append((scale, other[0] - scale * own[0]))
    off = [
        [wasserstein_distance(s * c + o, t, mass) for c, t, s, o in zip(x.T, y.T, *k, strict=True)]
        for k in candidates
    ]
    best = np.argmin(off, axis=0), np.arange(x.shape[1])
    scale, offset = (np.stack(k)[best] for k in zip(*candidates, strict=True))
    return _Fitted(shares, scale, offset)


def _summaries(x: Array, mass: Array) -> list[tuple[Array, Array]]:
    """Places and widths of columns: mean and deviation, median and quartiles, middle and ends."""
    quarters = quantiles(x, mass, np.array([0.25, 0.5, 0.75]))
    low, high = x.min(axis=0), x.max(axis=0)
    return [
        (mass @ x, _spread(x, mass)),
        (quarters[1], quarters[2] - quarters[0]),
        (0.5 * (low + high), high - low),
    ]


def _shares(x: Array, labels: Any, y: Array) -> dict[Any, float]:
    classes = np.unique(labels)
    if not _spread(y).any():
        return {each: float(np.mean(labels == each)) for each in classes}
    clouds = {str(k): _cloud(x[labels == each]) for k, each in enumerate(classes)}
    return dict(zip(classes, best_mixture(clouds, _cloud(y)).values(), strict=True))


def _cloud(points: Array) -> tuple[Array, Array]:
    return points, np.full(len(points), 1.0 / len(points))
