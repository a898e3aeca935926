"""Membership: how well answers tell whether a record was in the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..distances.questions import Moments, decode_classes
from ..teaching.federated import probabilities, random_features
from ..teaching.federated.features import in_units
from ..teaching.questions import ClassFeatures, MeanFeatures, Spread, TrainModel, TrainRound
from .case import Candidates, Case
from .inversion import Array, InapplicableError
from .metrics import above
from .models import Codes, Queried, Trained, codes_of_labels, positive, queried, trained
from .result import NEEDS
from .time_limit import check_time

# Neighbours whose predictions say how hard the place of a candidate is.
_NEIGHBOURS = 10
# Probabilities are clipped here, so that log odds stay finite.
_LEAST = 1e-4
# Shadow models: their mean and deviation change little with more.
_SHADOWS = 8
_FOLDS = 5
# With fewer candidates of a kind than this for every column, a fit says less than the first column.
_FEWEST = 10
# Share of the outsiders that are named while the rate of named members is measured.
_FALSE_POSITIVES = 0.01


# From scores to an area under the curve.


@dataclass(frozen=True)
class Scores:
    """Scores of every candidate, in columns of which the first grows with membership."""

    inside: Array = field(repr=False)
    """Shape (m, q)."""
    outside: Array = field(repr=False)
    """Shape (k, q)."""
    note: str = ""
    """A sentence that the verdict adds."""


@dataclass(frozen=True)
class Membership:
    """How well scores tell members from outsiders."""

    auc: float
    interval: tuple[float, float]
    tpr: float


def measured(scores: Scores, seed: int = 0) -> Membership:
    """Compute the area, its interval, and the rate of members named at 1 % of outsiders.

    The score of a candidate is the log of the likelihood ratio of its columns, by a logistic
    fit to the *other* folds: no candidate is scored by a fit that used it. Where there are too
    few candidates for a fit, the first column is the score.
    """
    inside, outside = scores.inside, scores.outside
    if min(len(inside), len(outside)) < _FEWEST * inside.shape[1] or inside.shape[1] == 1:
        one, two = inside[:, 0], outside[:, 0]
    else:
        ratio = _log_ratios(np.vstack([inside, outside]), len(inside), seed)
        one, two = ratio[: len(inside)], ratio[len(inside) :]
    area, interval = area_with_interval(one, two)
    bar = np.quantile(two, 1.0 - _FALSE_POSITIVES, method="higher")
    return Membership(area, interval, float(np.mean(one > bar)))


def area_with_interval(inside: Array, outside: Array) -> tuple[float, tuple[float, float]]:
    """Compute the area under the ROC curve and its 95 % interval.

    With :math:`V_i` the share of outsiders that member i beats and :math:`U_j` the share of
    members that beat outsider j, the variance is :math:`s_V^2 / m + s_U^2 / k`. The interval is
    computed for the log odds of the area, so that it stays within (0, 1).

    Notes
    -----
    DeLong, DeLong and Clarke-Pearson, 1988.

    Examples
    --------
    >>> area, (low, high) = area_with_interval(np.arange(50.0) + 10.0, np.arange(50.0))
    >>> round(area, 3), low < area < high
    (0.68, True)
    """
    beats = above(inside, outside)
    beaten = 1.0 - above(outside, inside)
    area = float(beats.mean())
    variance = float(beats.var() / len(beats) + beaten.var() / len(beaten))
    # A separation without a mistake has no variance to estimate: half a mistake stands for it.
    edge = 0.5 / (len(inside) * len(outside))
    inner = min(max(area, edge), 1.0 - edge)
    spread = max(variance**0.5, (inner * (1.0 - inner)) ** 0.5 / max(len(beats), len(beaten)))
    reach = NormalDist().inv_cdf(0.975) * spread / (inner * (1.0 - inner))
    middle = np.log(inner / (1.0 - inner))
    low, high = (1.0 / (1.0 + np.exp(-(middle + side * reach))) for side in (-1.0, 1.0))
    return area, (float(low), float(high))


def _log_ratios(columns: Array, members: int, seed: int) -> Array:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    is_member = np.arange(len(columns)) < members
    ratios = np.empty(len(columns))
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    for others, fold in folds.split(columns, is_member):
        centre, scale = columns[others].mean(axis=0), positive(columns[others].std(axis=0))
        scaled = (columns - centre) / scale
        fit = LogisticRegression(max_iter=1000).fit(scaled[others], is_member[others])
        ratios[fold] = fit.decision_function(scaled[fold])
    return ratios


def _scores(columns: Array, members: int, note: str) -> Scores:
    return Scores(columns[:members], columns[members:], note)


def _averaged(columns: list[Array]) -> Array:
    """Average the columns of several answers, as many as all of them have."""
    width = min(one.shape[1] for one in columns)
    return np.mean([one[:, :width] for one in columns], axis=0)


# From predictions.


def prediction_membership(case: Case) -> Scores:
    """Predictions are more certain, and more often right, for records of the training."""
    answers = queried(case)
    people = case.compared(", with labels, both among the inputs of the questions")
    places = np.concatenate([answers.places(people.inside), answers.places(people.outside)])
    members = np.arange(len(places)) < len(people.inside)
    queried_rows = places >= 0
    inside = int((queried_rows & members).sum())
    # An area needs two of either kind.
    if min(inside, int((queried_rows & ~members).sum())) < 2:
        raise InapplicableError(
            f"{NEEDS}inputs of the questions that are among the truth and the outsiders"
        )
    points, places = people.rows[queried_rows], places[queried_rows]
    labels = codes_of_labels(people.labels, answers.labels, answers.predictions.shape[1])
    if labels is None:
        note = "without labels, by the confidence of the predictions"
        return _scores(_prediction_columns(answers, places, None, points), inside, note)
    codes = labels[queried_rows]
    columns = _prediction_columns(answers, places, codes, points)
    shadows = _shadow_statistics(case, answers, people)
    if shadows is None:
        return _scores(columns, inside, "")
    usual = shadows(points, codes)
    # How many deviations the prediction lies above that of models without the record (LiRA).
    offline = (columns[:, 0] - usual[:, 0]) / usual[:, 1]
    columns = np.column_stack([offline, columns, usual[:, 0]])
    return _scores(columns, inside, "with shadow models trained on the public records")


def _prediction_columns(
    answers: Queried, places: Codes, codes: Codes | None, points: Array
) -> Array:
    """Return log odds of the label, its margin, the negative entropy, and odds over neighbours."""
    clipped = np.clip(answers.predictions[places], _LEAST, 1.0 - _LEAST)
    certainty = np.sum(clipped * np.log(clipped), axis=1)
    label = clipped.argmax(axis=1) if codes is None else codes
    rows = np.arange(len(clipped))
    own = clipped[rows, label]
    others = clipped.copy()
    others[rows, label] = 0.0
    margin = np.log(own) - np.log(np.maximum(others.max(axis=1), _LEAST))
    columns = [_log_odds(own), margin, certainty]
    # A record whose neighbours are easy is certain without having been in the training.
    around = answers.around(points, _NEIGHBOURS)
    if around is not None:
        usual = np.take_along_axis(around, label[:, None], axis=1)[:, 0]
        columns.append(columns[0] - _log_odds(np.clip(usual, _LEAST, 1.0 - _LEAST)))
    return np.column_stack(columns)


def _shadow_statistics(
    case: Case, answers: Queried, people: Candidates
) -> Callable[[Array, Codes], Array] | None:
    """Return what models of other records say of a candidate: log odds, mean and deviation."""
    predictions = answers.predictions
    codes = codes_of_labels(people.public_labels, answers.labels, predictions.shape[1])
    if people.public is None or codes is None or len(people.public) < 4 * _NEIGHBOURS:
        return None
    if answers.vectors is None:
        return None
    half = len(people.public) // 2
    size = min(max(half, 2), answers.size or half)
    rng = np.random.default_rng([case.seed, 21])
    training = _ShadowTraining(people.public, codes, predictions.shape[1], size, rng)
    # The kind of model whose predictions are spread like the ones that were sent.
    spread = np.sort(predictions.max(axis=1))
    models = [training.trained(kind, 0) for kind in range(3)]
    distances = [
        float(np.abs(np.sort(one(answers.vectors).max(axis=1)) - spread).mean()) for one in models
    ]
    kind = int(np.argmin(distances))
    shadows = [training.trained(kind, number) for number in range(_SHADOWS)]

    def statistics(points: Array, labels: Codes) -> Array:
        odds = np.stack([_log_odds(_of_labels(one(points), labels)) for one in shadows])
        # Few shadow models estimate a deviation badly: a constant keeps it from 0.
        return np.column_stack([odds.mean(axis=0), odds.std(axis=0) + 0.5])

    return statistics


@dataclass(frozen=True)
class _ShadowTraining:
    """Trains models of several kinds on random parts of the public records."""

    public: Array
    codes: Codes
    classes: int
    size: int
    rng: np.random.Generator

    def trained(self, kind: int, number: int) -> Callable[[Array], Array]:
        """Train a model of a kind, and return its predictions as a function."""
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier

        kinds: tuple[Any, ...] = (
            RandomForestClassifier(100, random_state=number),
            LogisticRegression(max_iter=500),
            MLPClassifier((64,), max_iter=300, alpha=0.0, random_state=number),
        )
        check_time()
        centre, scale = self.public.mean(axis=0), positive(self.public.std(axis=0))
        rows = self.rng.permutation(len(self.public))[: self.size]
        with warnings.catch_warnings():
            # A shadow model need not have settled.
            warnings.simplefilter("ignore")
            model = kinds[kind].fit((self.public[rows] - centre) / scale, self.codes[rows])

        def predict(points: Array) -> Array:
            full = np.zeros((len(points), self.classes))
            full[:, model.classes_.astype(np.intp)] = model.predict_proba((points - centre) / scale)
            return full

        return predict


# From parameters.


def parameter_membership(case: Case) -> Scores:
    """A model fits the records it was trained on better than others."""
    models = [one for one in trained(case) if one.is_complete]
    people = case.compared(", with labels")
    width = people.rows.shape[1]
    columns = [k for one in models if one.spec.inputs == width for k in _fits(one, people)]
    if not columns:
        raise InapplicableError("no model of the records themselves was seen")
    return _scores(_averaged(columns), len(people.inside), f"by {len(models)} models")


def _fits(models: Trained, people: Candidates) -> Iterator[Array]:
    """Yield how well models fit every candidate, with its label or as a record of the holder."""
    if isinstance(models.question, TrainModel | TrainRound):
        labels = _labels(people, models.question.classes)
        if labels is None:
            raise InapplicableError(f"{NEEDS}labels with the truth and the outsiders")
        predictions = probabilities(models.spec, models.after[0], people.rows)
        own = _log_odds(_of_labels(predictions, labels))
        yield np.column_stack([own, own - _hardness(people.rows, predictions, labels)])
    else:
        # A classifier of two holders: each record has the label of its own holder.
        moved = (people.rows - models.centre) / models.scale
        for row, side in zip(models.after, models.question.sides.tolist(), strict=True):
            predictions = probabilities(models.spec, row, moved)
            yield _log_odds(_of_labels(predictions, np.full(len(moved), side)))[:, None]


def _labels(people: Candidates, classes: str) -> Codes | None:
    names = decode_classes(classes)
    return codes_of_labels(people.labels, names, len(names))


def _of_labels(predictions: Array, labels: Codes) -> Array:
    return np.clip(predictions[np.arange(len(predictions)), labels], _LEAST, 1.0 - _LEAST)


def _hardness(points: Array, predictions: Array, labels: Codes) -> Array:
    """Return the log odds that neighbours among the candidates get for a candidate's label."""
    near = min(_NEIGHBOURS + 1, len(points))
    scaled = points / positive(points.std(axis=0))
    _, places = cKDTree(scaled).query(scaled, near)
    around = predictions[np.atleast_2d(places)[:, 1:]].mean(axis=1)
    return _log_odds(_of_labels(around, labels))


def _log_odds(share: Array) -> Array:
    share = np.clip(share, _LEAST, 1.0 - _LEAST)
    return np.log(share) - np.log(1.0 - share)


# From means.


def feature_membership(case: Case) -> Scores:
    """Means of random features are a smoothed picture of where the records lie."""
    answers = case.answered(MeanFeatures, ClassFeatures)
    if not answers:
        raise InapplicableError("no means of random features were seen")
    people = case.compared()
    points, members = people.rows, len(people.inside)
    columns: list[Array] = []
    for question, answer in answers:
        lifted = random_features(
            in_units(points, question.scale),
            features=question.features,
            bandwidth=question.bandwidth,
            seed=question.seed,
        )
        # Without it, records where outsiders are dense would count as members.
        usual = _usual(lifted @ lifted[members:].T, members)
        scores = [lifted @ answer.array("mean", ndim=1) - usual, usual]
        if isinstance(question, ClassFeatures):
            labels = _labels(people, question.classes)
            if labels is not None:
                means = answer.array("means", ndim=2)[labels]
                own = np.einsum("ij,ij->i", lifted, means)
                scores.insert(0, scores[0] + own - usual)
        columns.append(np.column_stack(scores))
    return _scores(_averaged(columns), members, f"by {len(answers)} answers")


def mean_membership(case: Case) -> Scores:
    """Records lean towards the mean they are part of."""
    answers = case.answered(Moments, Spread)
    if not answers or case.embedding != "none":
        raise InapplicableError("no moments of records were seen")
    people = case.compared()
    columns = [_leaning(answer.array("mean", ndim=1), people) for _, answer in answers]
    usable = [one for one in columns if one is not None]
    if not usable:
        raise InapplicableError("no moments of the records themselves were seen")
    return _scores(np.column_stack(usable), len(people.inside), f"by {len(answers)} answers")


def _leaning(mean: Array, people: Candidates) -> Array | None:
    """Return how far candidates lie on the side of the mean, seen from that of the outsiders."""
    points = people.rows
    if mean.shape != points.shape[1:]:
        return None
    scale = positive(points.std(axis=0))
    # The mean of the outsiders, without the candidate itself where it is one.
    total, count = people.outside.sum(axis=0), len(people.outside)
    own = (np.arange(len(points)) >= len(people.inside))[:, None]
    usual = (total - own * points) / (count - own)
    return np.einsum("ij,ij->i", (points - usual) / scale, (mean - usual) / scale)


def _usual(kernel: Array, members: int) -> Array:
    """Return the mean kernel with the outsiders, an outsider's own left out (n,)."""
    total = kernel.sum(axis=1)
    count = np.full(len(kernel), float(kernel.shape[1]))
    own = np.arange(members, len(kernel))
    total[own] -= kernel[own, own - members]
    count[own] -= 1.0
    return total / np.maximum(count, 1.0)
