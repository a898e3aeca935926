"""How likely each class is for a record, by models that learn from the holder's records too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from silot_transport._check import Array

from ._arrays import Codes, Flags, log_votes, normed
from .flips import LARGEST

_FOLDS = 5
# Trees of each of the two kinds, and what a class is that none voted for, in votes of a hundred.
_TREES, _UNSEEN = 100, 0.5
# Records that one tree, and one linear model, is fitted on at most.
_DRAWN, _FITTED = 20_000, 6_000
# Strengths of logistic regression, alone and on kernel features, and rates of these kernels.
_STRENGTHS, _STRONG, _RATES = (0.003, 0.03, 0.3), 3.0, (0.1, 0.4)
_CENTRES, _KERNEL = 200, 100
# Beyond so many columns a forest of the best few is one of the models, and linear ones see fewer.
_WIDE, _BEST, _MOST = 40, 20, 500
# Standard deviations beyond which a value says no more to a linear model, and its least share.
_CLIPPED, _LEAST = 5.0, 1e-3
_RIDGE, _TILTED, _ROUNDS = 0.01, 0.06, 4
# The share of wrong labels that is assumed at first, and the least and the largest one.
_ASSUMED, _LOWEST, _HIGHEST = 0.1, 0.01, 0.6

Model = Callable[[Array, Codes, Array, Array], Array]
"""From records, classes and weights of a fit, and other records, log shares of these (k, C)."""


@dataclass(frozen=True)
class Both:
    """Validation records and a holder's, in the same units.

    Attributes
    ----------
    z, codes, masses
        Records (n, d), classes (n,), and what each counts for (n,), 1 on average.
    trusted
        Which are validation records (n,).
    classes
        How many there are; a code from there on is of a class that is not judged.
    seed
        Of trees, folds and centres.
    """

    z: Array = field(repr=False)
    codes: Codes = field(repr=False)
    masses: Array = field(repr=False)
    trusted: Flags = field(repr=False)
    classes: int
    seed: int

    @property
    def judged(self) -> Flags:
        """Records that have a class which may be right or wrong."""
        return (self.codes < self.classes) & (self.masses > 0)


class Learned(NamedTuple):
    """Log shares of the classes for each record (n, C), and the share of wrong labels."""

    shares: Array
    wrong: float


def learn(both: Both, first: Array) -> Learned:
    r"""Judge each record by models that did not see it: of validation records, and of others too.

    Validation records count in full, a holder's by how likely its label is right by the models of
    validation records alone. Forests judge it out of bag, linear models and those of kernels in
    folds. The scores :math:`S_j` are pooled,

    .. math:: \log p(k | x) = \sum_j w_j S_j(x, k) - \text{const}, \quad w_j \ge 0,

    by the log loss of validation records at their class, and of the holder's under labels of
    which a share :math:`\pi` is wrong, :math:`(1 - \pi)\, p(l | x) + \pi\, (1 - p(l | x)) /
    (C - 1)`, with the :math:`\pi` that this itself makes likely.

    Parameters
    ----------
    both
        Records.
    first
        Log shares (n, C) by models of validation records; of these, by those that left them out.
    """
    before = _pool([first], both, _ASSUMED)
    sound = expit(-np.clip(odds_of_flip(before, both.codes), -LARGEST, LARGEST))
    weights = both.masses * both.judged * np.where(both.trusted, 1.0, sound)
    return _pool([first, *_scores(both, weights)], both, before.wrong)


def odds_of_flip(learned: Learned, codes: Codes) -> Array:
    """Log odds (n,) that a label is wrong, where every other class is equally likely then."""
    own = _own(learned.shares, codes)
    with np.errstate(divide="ignore"):
        others = np.log(-np.expm1(np.minimum(own, -1e-12))) - np.log(learned.shares.shape[1] - 1)
    return others - own + np.log(learned.wrong / (1.0 - learned.wrong))


def _own(shares: Array, codes: Codes) -> Array:
    """Each record's own entry (n,); of an unknown class, that of the last."""
    return shares[np.arange(len(codes)), np.minimum(codes, shares.shape[1] - 1)]


def _pool(scores: list[Array], both: Both, wrong: float) -> Learned:
    """Weights of models, and the share of wrong labels, in turn."""
    used, stacked, count = both.judged, np.stack(scores), len(scores)
    part, codes, trusted = stacked[:, used], both.codes[used], both.trusted[used]
    masses = both.masses[used] / both.masses[used].sum()
    rows, others = np.arange(len(codes)), max(both.classes - 1, 1)
    weights = np.full(count, 1.0 / count)

    def shares_of(fitted: Array, stacked: Array, trusted: Flags) -> Array:
        # How much commoner classes are at the holder.
        tilts = np.where(trusted[:, None], 0.0, fitted[count:])
        return normed(np.tensordot(fitted[:count], stacked, 1) + tilts)

    def loss(fitted: Array) -> tuple[float, Array]:
        shares = shares_of(fitted, part, trusted)
        chance = np.exp(shares)
        # Of a label that is wrong, each of the other classes is equally likely.
        other = np.where(trusted, 1e-12, wrong / others)
        kept = np.where(trusted, 1.0, 1.0 - wrong - wrong / others)
        likely = kept * chance[rows, codes] + other
        pull = masses * kept * chance[rows, codes] / likely
        slope = ((part[:, rows, codes] - (chance * part).sum(axis=2)) * pull).sum(axis=1)
        own = pull * ~trusted
        tilt = np.bincount(codes, own, minlength=both.classes) - own @ chance
        away = fitted - start
        ridge = np.where(np.arange(len(fitted)) < count, _RIDGE, _TILTED)
        value = -float(masses @ np.log(likely)) + float(ridge @ away**2)
        return value, 2.0 * ridge * away - np.concatenate([slope, tilt])

    start = np.concatenate([weights, np.zeros(both.classes)])
    fitted, bounds = start, [(0.0, None)] * count + [(None, None)] * both.classes
    for _ in range(_ROUNDS):
        fitted = np.asarray(minimize(loss, fitted, jac=True, bounds=bounds).x)
        if trusted.all():
            break
        shares = shares_of(fitted, part[:, ~trusted], trusted[~trusted])
        own = np.exp(_own(shares, codes[~trusted]))
        bad = wrong * (1.0 - own) / others
        chances = bad / np.maximum(bad + (1.0 - wrong) * own, 1e-300)
        mean = float(np.average(chances, weights=masses[~trusted]))
        wrong = min(max(mean, _LOWEST), _HIGHEST)
    return Learned(shares_of(fitted, stacked, both.trusted), wrong)


def _scores(both: Both, weights: Array) -> Iterator[Array]:
    """Yield log shares of all records (n, C) by each kind of model."""
    width, seed = both.z.shape[1], both.seed % (1 << 32)
    yield _grown(both, weights, seed)
    yield _folded(both, weights, [_linear(both.classes, strength) for strength in _STRENGTHS])
    if width > _WIDE:
        yield _folded(both, weights, [_best_columns(both.classes, seed)])
    if width <= _KERNEL:
        yield _folded(both, weights, [_kernel(both.classes, rate, seed) for rate in _RATES])


def _grown(both: Both, weights: Array, seed: int) -> Array:
    """Votes of two forests: out of bag where a record was in one."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    used = weights > 0
    size = int(used.sum())
    shares = np.zeros((len(weights), both.classes))
    for kind in (ExtraTreesClassifier, RandomForestClassifier):
        model: Any = kind(
            _TREES,
            bootstrap=True,
            oob_score=True,
            max_samples=min(_DRAWN, size),
            random_state=seed,
        )
        with warnings.catch_warnings():
            # A record that every tree drew has no votes, and all classes then are alike.
            warnings.filterwarnings("ignore", "Some inputs do not have OOB", UserWarning)
            model.fit(both.z[used], both.codes[used], sample_weight=weights[used])
        columns = np.ix_(used, model.classes_)
        shares[columns] += np.nan_to_num(model.oob_decision_function_, nan=0.0)
        if not used.all():
            shares[np.ix_(~used, model.classes_)] += model.predict_proba(both.z[~used])
    total = shares.sum(axis=1, keepdims=True)
    mean = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
    return log_votes(mean, _UNSEEN)


def _folded(both: Both, weights: Array, models: list[Model]) -> Array:
    """Log shares of records by the models of the folds they are not in, of the best kind."""
    rng = np.random.default_rng([both.seed, 31])
    size = len(both.codes)
    fold, order = rng.permutation(size) % _FOLDS, rng.permutation(size)
    listed = np.minimum(both.codes, both.classes - 1)
    least, best = np.inf, np.full((size, both.classes), -np.log(both.classes))
    for model in models:
        shares = np.full((size, both.classes), -np.log(both.classes))
        for k in range(_FOLDS):
            inside = order[(fold[order] != k) & (weights[order] > 0)][:_FITTED]
            if len(np.unique(both.codes[inside])) > 1:
                fit = both.z[inside], both.codes[inside], weights[inside]
                shares[fold == k] = model(*fit, both.z[fold == k])
        loss = -float(weights @ shares[np.arange(size), listed])
        if loss < least:
            least, best = loss, shares
    return best


def _padded(model: Any, points: Array, classes: int) -> Array:
    shares = np.zeros((len(points), classes))
    shares[:, model.classes_] = model.predict_proba(points)
    return shares


def _logistic(
    strength: float, z: Array, codes: Codes, weights: Array, points: Array, classes: int
) -> Array:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # The folds judge what it is good for, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=200).fit(z, codes, sample_weight=weights)
    return np.log(np.clip(_padded(model, points, classes), _LEAST, 1.0))


def _clipped(z: Array) -> Array:
    return np.clip(z, -_CLIPPED, _CLIPPED)


def _telling(z: Array, codes: Codes, most: int) -> Codes:
    """The columns (k,) that differ most between classes."""
    between, centre = np.zeros(z.shape[1]), z.mean(axis=0)
    for code in np.unique(codes).tolist():
        own = z[codes == code]
        between += len(own) * (own.mean(axis=0) - centre) ** 2
    total = ((z - centre) ** 2).sum(axis=0)
    # The part of the variance that is between classes rises with the ratio of an F test.
    parts = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    return np.argsort(-parts, kind="stable")[:most]


def _linear(classes: int, strength: float) -> Model:
    def judge(z: Array, codes: Codes, weights: Array, points: Array) -> Array:
        if z.shape[1] > _MOST:
            chosen = _telling(z, codes, _MOST)
            z, points = z[:, chosen], points[:, chosen]
        return _logistic(strength, _clipped(z), codes, weights, _clipped(points), classes)

    return judge


def _kernel(classes: int, rate: float, seed: int) -> Model:
    def judge(z: Array, codes: Codes, weights: Array, points: Array) -> Array:
        from sklearn.kernel_approximation import Nystroem

        size = min(_CENTRES, max(int(0.6 * len(z)), 1))
        turn = Nystroem(gamma=rate / z.shape[1], n_components=size, random_state=seed)
        inside, others = turn.fit_transform(_clipped(z)), turn.transform(_clipped(points))
        return _logistic(_STRONG, 3.0 * inside, codes, weights, 3.0 * others, classes)

    return judge


def _best_columns(classes: int, seed: int) -> Model:
    def judge(z: Array, codes: Codes, weights: Array, points: Array) -> Array:
        from sklearn.ensemble import RandomForestClassifier

        # Chosen among the records of the other folds only: else folds would not be honest.
        chosen = _telling(z, codes, _BEST)
        model = RandomForestClassifier(_TREES, random_state=seed)
        model.fit(z[:, chosen], codes, sample_weight=weights)
        return log_votes(_padded(model, points[:, chosen], classes), _UNSEEN)

    return judge
