"""Membership: what answers tell of whether a given record was in the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from ..distances.questions.distances import Moments
from ..distances.questions.labelled import decode_classes
from ..learning import DensitySpec, ModelSpec, probabilities, random_features
from ..learning.density import log_density
from ..learning.features import in_units
from ..teaching.questions.divergences import MeanFeatures, Spread, TrainDomain
from ..teaching.questions.models import ClassFeatures, FitDensity, TrainModel
from ._case import Case
from ._clock import look
from ._evidence import Array
from ._likelihood import Candidates, Scores
from ._queries import Queried, codes_of_candidates, queried
from .result import NEEDS

_NEIGHBOURS = 10
_LEAST = 1e-4
_SHADOWS = 8
_MISSING = f"{NEEDS}truth (records that were in the data) and outsiders (records that were not)"

Codes = npt.NDArray[np.intp]


def prediction_membership(case: Case) -> Scores | str:
    """Predictions of records a model was trained on are surer, and more often right."""
    seen = queried(case)
    if isinstance(seen, str):
        return seen
    if case.candidates is None:
        return f"{_MISSING}, with labels, both among the inputs that were asked about"
    return _prediction_scores(case, seen, case.candidates)


def _prediction_scores(case: Case, seen: Queried, given: Candidates) -> Scores | str:
    inside, outside = seen.places(given.inside), seen.places(given.outside)
    if (inside >= 0).sum() < 2 or (outside >= 0).sum() < 2:
        return f"{NEEDS}inputs that were asked about among the truth and the outsiders"
    labels = codes_of_candidates(given.labels, seen.labels, seen.told.shape[1])
    codes = None if labels is None else np.split(labels, [len(given.inside)])
    parts: list[Array] = []
    for k, (places, points) in enumerate(((inside, given.inside), (outside, given.outside))):
        there = places >= 0
        own = None if codes is None else codes[k][there]
        parts.append(_columns(seen, places[there], own, points[there]))
    note = "" if codes is not None else "without labels, by how sure the predictions are"
    shadows = None if codes is None else _shadows(case, seen, given)
    if shadows is not None and codes is not None:
        for k, (places, points) in enumerate(((inside, given.inside), (outside, given.outside))):
            there = places >= 0
            usual = shadows(points[there], codes[k][there])
            offline = (parts[k][:, 0] - usual[:, 0]) / usual[:, 1]
            parts[k] = np.column_stack([offline, parts[k], usual[:, 0]])
        note = "with shadow models trained on the public records"
    return Scores(parts[0], parts[1], note)


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


def parameter_membership(case: Case) -> Scores | str:
    """A model fits the records it was trained on better than others."""
    if not case.outside:
        return "no parameters of a model were seen"
    models: list[tuple[TrainModel | TrainDomain, Array]] = []
    for item in case.view.about(case.target):
        if isinstance(item.question, TrainModel | TrainDomain) and item.answer is not None:
            ndim = 1 if isinstance(item.question, TrainModel) else 2
            models.append((item.question, item.answer.array("parameters", ndim=ndim)))
    if not models:
        return "no parameters of a model were seen"
    given = case.candidates
    if given is None:
        return f"{_MISSING}, with labels"
    columns: list[Array] = []
    for question, parameters in models:
        named = isinstance(question, TrainModel)
        spec = question.spec if named else ModelSpec.from_text(question.model)
        if spec.inputs != given.rows.shape[1]:
            continue
        if named:
            names = decode_classes(question.classes)
            labels = codes_of_candidates(given.labels, names, len(names))
            if labels is None:
                return f"{NEEDS}labels with the truth and the outsiders"
            told = probabilities(spec, parameters, given.rows)
            own = _log_odds(_of_labels(told, labels))
            columns.append(np.column_stack([own, own - _hardness(given.rows, told, labels)]))
        else:
            moved = (given.rows - question.centre) / question.scale
            for row, side in zip(parameters, question.sides.tolist(), strict=True):
                told = probabilities(spec, row, moved)
                columns.append(_log_odds(_of_labels(told, np.full(len(moved), side)))[:, None])
    if not columns:
        return "no model of the records themselves was seen"
    return _split(_averaged(columns), given, f"by {len(models)} models")


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


def feature_membership(case: Case) -> Scores | str:
    """Means of random features are a smoothed picture of where the records lie."""
    told = [
        (item.question, item.answer)
        for item in case.view.about(case.target)
        if isinstance(item.question, MeanFeatures | ClassFeatures) and item.answer is not None
    ]
    if not case.outside or not told:
        return "no means of random features were seen"
    given = case.candidates
    if given is None:
        return _MISSING
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
            names = decode_classes(question.classes)
            labels = codes_of_candidates(given.labels, names, len(names))
            if labels is not None:
                means = answer.array("means", ndim=2)[labels]
                found.insert(0, found[0] + np.einsum("ij,ij->i", lifted, means) - usual)
        columns.append(np.column_stack(found))
    return _split(_averaged(columns), given, f"by {len(told)} answers")


def mean_membership(case: Case) -> Scores | str:
    """Records lean towards the mean they are part of, and fit the law that was told of them."""
    seen = [item for item in case.view.about(case.target) if item.answer is not None]
    told = [k for k in seen if isinstance(k.question, Moments | Spread | FitDensity)]
    if not case.outside or not told or case.embedding != "none":
        return "no moments of records were seen"
    given = case.candidates
    if given is None:
        return _MISSING
    points, members = given.rows, len(given.inside)
    scale = points.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    columns: list[Array] = []
    for item in told:
        assert item.answer is not None
        question = item.question
        if isinstance(question, FitDensity):
            spec = question.spec
            law = DensitySpec(spec.inputs, spec.classes, question.dimensions, question.seed)
            if spec.inputs == points.shape[1]:
                density = item.answer.array("density", ndim=1)
                columns.append(log_density(law, density, spec.scaled(points)))
            continue
        mean = item.answer.array("mean", ndim=1)
        if mean.shape != points.shape[1:]:
            continue
        # The mean of the outsiders, without the candidate itself where it is one.
        total, count = given.outside.sum(axis=0), len(given.outside)
        own = (np.arange(len(points)) >= members)[:, None]
        usual = (total - own * points) / (count - own)
        columns.append(np.einsum("ij,ij->i", (points - usual) / scale, (mean - usual) / scale))
    if not columns:
        return "no moments of the records themselves were seen"
    return _split(np.column_stack(columns), given, f"by {len(told)} answers")


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


def _split(columns: Array, given: Candidates, note: str) -> Scores:
    members = len(given.inside)
    return Scores(columns[:members], columns[members:], note)


def _log_odds(share: Array) -> Array:
    share = np.clip(share, _LEAST, 1.0 - _LEAST)
    return np.log(share) - np.log(1.0 - share)
