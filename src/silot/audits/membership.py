"""Membership: what answers tell of whether a given record was in the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from ..distances.questions import Moments, decode_classes
from ..federation.answer import Answer
from ..teaching.federated import probabilities, random_features
from ..teaching.federated.density import log_density
from ..teaching.federated.features import in_units
from ..teaching.federated.questions.columns import Spread
from ..teaching.federated.questions.models import TrainModel
from ..teaching.federated.questions.rounds import TrainRound
from ..teaching.questions.divergences import MeanFeatures
from ..teaching.questions.models import ClassFeatures, FitDensity
from ._case import Case
from ._clock import look
from ._evidence import Array, InapplicableError
from ._likelihood import Candidates, Scores
from ._queries import Queried, Trained, codes_of_candidates, law_of, queried, trained
from .result import NEEDS

_NEIGHBOURS = 10
_LEAST = 1e-4
_SHADOWS = 8

Codes = npt.NDArray[np.intp]


def prediction_membership(case: Case) -> Scores:
    """Predictions of records a model was trained on are surer, and more often right."""
    seen = queried(case)
    given = case.compared(", with labels, both among the inputs that were asked about")
    places = np.concatenate([seen.places(given.inside), seen.places(given.outside)])
    members = np.arange(len(places)) < len(given.inside)
    asked = places >= 0
    if min((asked & members).sum(), (asked & ~members).sum()) < 2:
        raise InapplicableError(
            f"{NEEDS}inputs that were asked about among the truth and the outsiders"
        )
    points, places, inside = given.rows[asked], places[asked], int((asked & members).sum())
    labels = codes_of_candidates(given.labels, seen.labels, seen.told.shape[1])
    if labels is None:
        note = "without labels, by how sure the predictions are"
        return _split(_columns(seen, places, None, points), inside, note)
    codes = labels[asked]
    columns = _columns(seen, places, codes, points)
    shadows = _shadows(case, seen, given)
    if shadows is None:
        return _split(columns, inside, "")
    usual = shadows(points, codes)
    offline = (columns[:, 0] - usual[:, 0]) / usual[:, 1]
    columns = np.column_stack([offline, columns, usual[:, 0]])
    return _split(columns, inside, "with shadow models trained on the public records")


def _columns(seen: Queried, places: Codes, codes: Codes | None, points: Array) -> Array:
    """Log odds of the label, its margin, how sure the prediction is, and how hard the place."""
    told = np.clip(seen.told[places], _LEAST, 1.0 - _LEAST)
    sure = np.sum(told * np.log(told), axis=1)
    label = told.argmax(axis=1) if codes is None else codes
    rows = np.arange(len(told))
    own = told[rows, label]
    rest = told.copy()
    rest[rows, label] = 0.0
    columns = [_log_odds(own), np.log(own) - np.log(np.maximum(rest.max(axis=1), _LEAST)), sure]
    around = seen.around(points, _NEIGHBOURS)
    if around is not None:
        usual = np.take_along_axis(around, label[:, None], axis=1)[:, 0]
        columns.append(columns[0] - _log_odds(np.clip(usual, _LEAST, 1.0 - _LEAST)))
    return np.column_stack(columns)


def _shadows(
    case: Case, seen: Queried, given: Candidates
) -> Callable[[Array, Codes], Array] | None:
    """What models trained on other records say of a candidate: log odds, mean and deviation."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    codes = codes_of_candidates(given.public_labels, seen.labels, seen.told.shape[1])
    if given.public is None or codes is None or len(given.public) < 4 * _NEIGHBOURS:
        return None
    if seen.vectors is None:
        return None
    rng = np.random.default_rng([case.seed, 21])
    public, vectors, told = given.public, seen.vectors, seen.told
    centre, scale = public.mean(axis=0), public.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    size = min(max(len(public) // 2, 2), seen.size or len(public) // 2)

    def trained(kind: int, number: int) -> Callable[[Array], Array]:
        makes: tuple[Any, ...] = (
            RandomForestClassifier(100, random_state=number),
            LogisticRegression(max_iter=500),
            MLPClassifier((64,), max_iter=300, alpha=0.0, random_state=number),
        )
        look()
        rows = rng.permutation(len(public))[:size]
        with warnings.catch_warnings():
            # A shadow model need not have settled.
            warnings.simplefilter("ignore")
            model = makes[kind].fit((public[rows] - centre) / scale, codes[rows])

        def said(points: Array) -> Array:
            full = np.zeros((len(points), told.shape[1]))
            full[:, model.classes_.astype(np.intp)] = model.predict_proba((points - centre) / scale)
            return full

        return said

    # The kind of model whose predictions are spread like the ones that were told.
    spread = np.sort(told.max(axis=1))
    kinds = [trained(kind, 0) for kind in range(3)]
    apart = [float(np.abs(np.sort(one(vectors).max(axis=1)) - spread).mean()) for one in kinds]
    kind = int(np.argmin(apart))
    shadows = [trained(kind, number) for number in range(_SHADOWS)]

    def usual(points: Array, labels: Codes) -> Array:
        odds = np.stack(
            [
                _log_odds(np.clip(one(points)[np.arange(len(points)), labels], _LEAST, 1 - _LEAST))
                for one in shadows
            ]
        )
        return np.column_stack([odds.mean(axis=0), odds.std(axis=0) + 0.5])

    return usual


def parameter_membership(case: Case) -> Scores:
    """A model fits the records it was trained on better than others."""
    models = [one for one in trained(case) if one.whole]
    given = case.compared(", with labels")
    width = given.rows.shape[1]
    columns = [k for one in models if one.spec.inputs == width for k in _fits(one, given)]
    if not columns:
        raise InapplicableError("no model of the records themselves was seen")
    return _split(_averaged(columns), len(given.inside), f"by {len(models)} models")


def _fits(models: Trained, given: Candidates) -> Iterator[Array]:
    """How well models fit every candidate, with its label or as a record of the holder."""
    if isinstance(models.question, TrainModel | TrainRound):
        labels = _labels(given, models.question.classes)
        if labels is None:
            raise InapplicableError(f"{NEEDS}labels with the truth and the outsiders")
        told = probabilities(models.spec, models.after[0], given.rows)
        own = _log_odds(_of_labels(told, labels))
        yield np.column_stack([own, own - _hardness(given.rows, told, labels)])
    else:
        moved = (given.rows - models.centre) / models.scale
        for row, side in zip(models.after, models.question.sides.tolist(), strict=True):
            told = probabilities(models.spec, row, moved)
            yield _log_odds(_of_labels(told, np.full(len(moved), side)))[:, None]


def _labels(given: Candidates, classes: str) -> Codes | None:
    names = decode_classes(classes)
    return codes_of_candidates(given.labels, names, len(names))


def _of_labels(told: Array, labels: Codes) -> Array:
    return np.clip(told[np.arange(len(told)), labels], _LEAST, 1.0 - _LEAST)


def _hardness(points: Array, told: Array, labels: Codes) -> Array:
    """Log odds that neighbours among the candidates get for a candidate's label."""
    near = min(_NEIGHBOURS + 1, len(points))
    scale = points.std(axis=0)
    scaled = points / np.where(scale > 0, scale, 1.0)
    _, places = cKDTree(scaled).query(scaled, near)
    around = told[np.atleast_2d(places)[:, 1:]].mean(axis=1)
    return _log_odds(_of_labels(around, labels))


def feature_membership(case: Case) -> Scores:
    """Means of random features are a smoothed picture of where the records lie."""
    told = case.answered(MeanFeatures, ClassFeatures)
    if not told:
        raise InapplicableError("no means of random features were seen")
    given = case.compared()
    points, members = given.rows, len(given.inside)
    columns: list[Array] = []
    for question, answer in told:
        lifted = random_features(
            in_units(points, question.scale),
            features=question.features,
            bandwidth=question.bandwidth,
            seed=question.seed,
        )
        usual = _usual(lifted @ lifted[members:].T, members)
        found = [lifted @ answer.array("mean", ndim=1) - usual, usual]
        if isinstance(question, ClassFeatures):
            labels = _labels(given, question.classes)
            if labels is not None:
                means = answer.array("means", ndim=2)[labels]
                found.insert(0, found[0] + np.einsum("ij,ij->i", lifted, means) - usual)
        columns.append(np.column_stack(found))
    return _split(_averaged(columns), members, f"by {len(told)} answers")


def mean_membership(case: Case) -> Scores:
    """Records lean towards the mean they are part of, and fit the law that was told of them."""
    told = case.answered(Moments, Spread, FitDensity)
    if not told or case.embedding != "none":
        raise InapplicableError("no moments of records were seen")
    given = case.compared()
    columns = [
        _density(question, answer, given)
        if isinstance(question, FitDensity)
        else _leaning(answer.array("mean", ndim=1), given)
        for question, answer in told
    ]
    usable = [one for one in columns if one is not None]
    if not usable:
        raise InapplicableError("no moments of the records themselves were seen")
    return _split(np.column_stack(usable), len(given.inside), f"by {len(told)} answers")


def _density(question: FitDensity, answer: Answer, given: Candidates) -> Array | None:
    """Log density of every candidate, ``None`` where it is not one of records themselves."""
    spec = question.spec
    if spec.inputs != given.rows.shape[1]:
        return None
    density = answer.array("density", ndim=1)
    return log_density(law_of(question), density, spec.scaled(given.rows))


def _leaning(mean: Array, given: Candidates) -> Array | None:
    """How far every candidate lies on the side of the mean, seen from that of the outsiders."""
    points = given.rows
    if mean.shape != points.shape[1:]:
        return None
    scale = points.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    # The mean of the outsiders, without the candidate itself where it is one.
    total, count = given.outside.sum(axis=0), len(given.outside)
    own = (np.arange(len(points)) >= len(given.inside))[:, None]
    usual = (total - own * points) / (count - own)
    return np.einsum("ij,ij->i", (points - usual) / scale, (mean - usual) / scale)


def _usual(kernel: Array, members: int) -> Array:
    """Mean kernel with the outsiders, an outsider's own left out (n,)."""
    total = kernel.sum(axis=1)
    count = np.full(len(kernel), float(kernel.shape[1]))
    own = np.arange(members, len(kernel))
    total[own] -= kernel[own, own - members]
    count[own] -= 1.0
    return total / np.maximum(count, 1.0)


def _averaged(columns: list[Array]) -> Array:
    """Columns of several answers as those of one, as many as all of them have."""
    width = min(one.shape[1] for one in columns)
    return np.mean([one[:, :width] for one in columns], axis=0)


def _split(columns: Array, members: int, note: str) -> Scores:
    return Scores(columns[:members], columns[members:], note)


def _log_odds(share: Array) -> Array:
    share = np.clip(share, _LEAST, 1.0 - _LEAST)
    return np.log(share) - np.log(1.0 - share)
