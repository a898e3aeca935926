"""Algorithm 1: divergences from classifiers that pairs of devices train together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Steps
from ..options import Check, count, none_or, number, option, truth, word
from .between import Devices, Divergence, Width, ask_width, odd, symmetric, within
from .divergence import Divergences
from .federated import ModelSpec, initial
from .questions.divergences import MOST_LOG_ODDS, DomainErrors, DomainScores, TrainDomain

Threshold = Literal["best", "half"]
_QUANTILES = 65
# Larger parameters belong to no model that was trained, and overflow in every layer.
_LARGEST = 1e6

# Features that hardly vary are not blown up beyond this share of the average one.
_LEAST_SCALE = 0.1


def _two_classes(model: Any, *_: str) -> ModelSpec:
    if not isinstance(model, ModelSpec):
        raise InputError(
            f"model is {type(model).__name__}; a ModelSpec is needed.", code="option-model"
        )
    return replace(model, classes=2)


class Classifier(Divergence):
    r"""Empirical H-divergence by pairwise domain classifiers (Algorithm 1).

    Devices i and j start from one hypothesis, label all their records 0 and 1, train alone for
    ``iterations`` steps, exchange and average their parameters, and do so for ``rounds`` rounds.
    With the errors :math:`e_i, e_j` of the final average on either device and
    :math:`e = \tfrac12 (e_i + e_j)`,

    .. math:: d_H = 2\, (1 - 2 \min(e, 1 - e)) \in [0, 2]

    The minimum stands for the symmetry of the hypotheses: with h, 1 - h is one too. All pairs go
    in step, one question a device a round.

    Returns
    -------
    Protocol[Divergences]
        ``errors`` has both errors of every pair. Discloses records: parameters after a few steps
        can be inverted. The side of a pair that is labelled 0 is the first in the order of names.

    Raises
    ------
    InputError
        Options out of range.
    ExtraError
        A cnn, and torch is not installed.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    Algorithm 1 and appendix F. Errors are on the records trained on, as there: few records and a
    large model make devices of one law look apart.
    """

    name = "classifier"
    disclosure = Disclosure.RECORD
    sends = (
        "means and variances, a round the parameters of a classifier for each other device, "
        "averages of its sorted scores, and its errors"
    )
    needs = (
        "13 rounds; for n devices, n - 1 models a device a round; a cnn needs the extra named torch"
    )
    guarantees = (
        "an estimate from 0 to 2: what one classifier learnt in the given steps; with "
        "threshold='half' as published"
    )
    privacy = "none: parameters after a few steps can be inverted"

    model: ModelSpec | None = option(
        "Architecture; its classes are replaced by two. Default: one hidden layer of 64 units.",
        none_or(Check(_two_classes, None, "ModelSpec")),
        default=None,
    )
    rounds: int = option(r"Averagings (:math:`\tau^d`).", count(1, 10_000), default=10)
    iterations: int = option(
        "Steps between two averagings (:math:`T^d`). Between averagings a device sees one label "
        "only and its model drifts towards it: keep ``iterations`` few.",
        count(1, 100_000),
        default=5,
    )
    batch: int = option("Of stochastic gradient descent.", count(), default=10)
    rate: float = option("Of stochastic gradient descent.", number(), default=0.01)
    momentum: float = option("Of stochastic gradient descent.", number(), default=0.0)
    standardise: bool | None = option(
        "Whether features are shifted and scaled by mean and standard deviation of all devices "
        'together. Default: for all models but ``"cnn"``, whose ``ModelSpec.scale`` does that; '
        "then a feature that hardly varies is not blown up, as if all had one unit. "
        "``True`` is for tables, whose columns have units of their own.",
        none_or(truth()),
        default=None,
    )
    threshold: Threshold = option(
        '``"half"``, as the paper: a record is taken for side 1 where that is the more probable. '
        '``"best"``: where its log odds exceed a threshold, for each pair the one of least error, '
        "which the devices' quantiles of log odds tell. It is the same hypothesis with another "
        'bias. Training on one label moves the bias most: with ``"half"`` both devices often take '
        "all records for one side, whose error of ½ reads as no divergence at all.",
        word(*get_args(Threshold)),
        default="best",
    )

    def fit(self) -> None:
        if not (self.rate > 0 and 0 <= self.momentum < 1):
            raise InputError(
                f"rate is {self.rate!r} and momentum {self.momentum!r}; rate > 0 and 0 <= momentum "
                "< 1 are needed.",
                code="option-training",
            )

    @property
    def training(self) -> dict[str, Any]:
        """Of stochastic gradient descent, between two averagings."""
        return {name: getattr(self, name) for name in ("iterations", "batch", "rate", "momentum")}

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return self.rounds + 2 + (self.threshold == "best")

    def parameters(self) -> dict[str, Scalar]:
        return {
            "rounds": self.rounds,
            **self.training,
            "threshold": self.threshold,
            "seed": self.seed,
        }

    def steps(self, run: Devices) -> Steps[Divergences]:
        told = yield from ask_width(run)
        spec = self._spec(told)
        names = tuple(sorted(told.names))
        parameters = dict.fromkeys(combinations(names, 2), initial(spec, run.seed))
        fixed = {"model": spec.to_text(), **self._frame(told, spec)}
        history: list[Mapping[str, float]] = []
        for k in range(self.rounds):
            questions = {
                name: TrainDomain(
                    **_batch(parameters, name),
                    seeds=_seeds(parameters, name, run.seed, k),
                    **fixed,
                    **self.training,
                )
                for name in names
            }
            answers = yield from run.ask(questions)
            trained = run.read(answers, partial(_read, parameters))
            names = tuple(trained)
            moved = _averages(trained, names)
            history.append({"moved": _moved(parameters, moved)})
            parameters = moved
        thresholds = dict.fromkeys(parameters, 0.0)
        if self.threshold == "best":
            questions = {
                name: DomainScores(**_batch(parameters, name), **fixed, quantiles=_QUANTILES)
                for name in names
            }
            answers = yield from run.ask(questions)
            # With the hypotheses that were asked about: some of their devices may have left.
            scores = run.read(answers, partial(_scores, parameters))
            names = tuple(scores)
            parameters = {pair: k for pair, k in parameters.items() if set(pair) <= set(names)}
            thresholds = {
                (a, b): _best_threshold(scores[a][a, b], scores[b][a, b]) for a, b in parameters
            }
        questions = {
            name: DomainErrors(
                **_batch(parameters, name),
                **fixed,
                thresholds=np.array([thresholds[k] for k in _partners(parameters, name)]),
            )
            for name in names
        }
        answers = yield from run.ask(questions)
        told_errors = run.read(answers, partial(_errors, parameters))
        order = tuple(name for name in run.names if name in told_errors)
        return self._result(run, order, told_errors, spec, history)

    def _spec(self, told: Width) -> ModelSpec:
        spec = self.model or ModelSpec("mlp", (told.dimension,), 2)
        if spec.inputs != told.dimension:
            raise MismatchError(
                f"the model takes {spec.inputs} features and the records have {told.dimension}.",
                code="dimension-mismatch",
            )
        return spec

    def _frame(self, told: Width, spec: ModelSpec) -> dict[str, Array]:
        chosen = spec.kind != "cnn" if self.standardise is None else self.standardise
        if not chosen:
            return {"centre": np.zeros(told.dimension), "scale": np.ones(told.dimension)}
        pooled = told.pooled
        least = 0.0 if self.standardise else _LEAST_SCALE * float(np.mean(pooled)) ** 0.5
        scale = np.maximum(np.sqrt(pooled), least)
        return {"centre": told.centre, "scale": np.where(scale > 0, scale, 1.0)}

    def _result(
        self,
        run: Devices,
        names: tuple[str, ...],
        told: Mapping[str, Mapping[str, float]],
        spec: ModelSpec,
        history: list[Mapping[str, float]],
    ) -> Divergences:
        size = len(names)
        errors = np.zeros((size, size))
        for (i, a), (j, b) in combinations(enumerate(names), 2):
            errors[i, j], errors[j, i] = told[a][b], told[b][a]
        halves = {
            (i, j): 0.5 * float(errors[i, j] + errors[j, i])
            for i, j in combinations(range(size), 2)
        }
        values = {key: 2.0 * (1.0 - 2.0 * min(e, 1.0 - e)) for key, e in halves.items()}
        turned = sum(error > 0.5 for error in halves.values())
        note = f"; {turned} classifiers were turned round" if turned else ""
        return Divergences(
            names=names,
            values=symmetric(size, values),
            method="classifier",
            unit="0: the classifier cannot tell the devices apart; 2: it always can",
            law="half",
            errors=errors,
            status=f"estimate: what a {spec.kind} of {spec.size} parameters learnt in "
            f"{self.rounds} rounds of {self.iterations} steps" + note + run.note,
            seed=run.seed,
            details={"parameters": spec.size, "turned": turned},
            history=tuple(history),
            missing=run.codes,
        )


Pair = tuple[str, str]
"""Two devices in the order of their names: the first labels its records 0, the other 1."""


def _partners(parameters: Mapping[Pair, Array], name: str) -> list[Pair]:
    return sorted(pair for pair in parameters if name in pair)


def _batch(parameters: Mapping[Pair, Array], name: str) -> dict[str, npt.NDArray[Any]]:
    """All hypotheses a device shares, one a row, and the label it has in each."""
    pairs = _partners(parameters, name)
    return {
        "parameters": np.array([parameters[pair] for pair in pairs]),
        "sides": np.array([pair.index(name) for pair in pairs], dtype=np.int64),
    }


def _seeds(
    parameters: Mapping[Pair, Array], name: str, seed: int, round_: int
) -> npt.NDArray[np.int64]:
    """Seeds by the names of the pair: who else takes part, and where, changes nothing."""
    found = [
        hashlib.sha256(f"{seed}\0{round_}\0{a}\0{b}\0{name}".encode()).digest()[:7]
        for a, b in _partners(parameters, name)
    ]
    return np.array([int.from_bytes(digest, "big") for digest in found], dtype=np.int64)


def _read(parameters: Mapping[Pair, Array], name: str, answer: Answer) -> dict[Pair, Array]:
    width = len(next(iter(parameters.values())))
    table = within(answer.array("parameters", ndim=2, columns=width), _LARGEST)
    return _rows(table, parameters, name)


def _scores(parameters: Mapping[Pair, Array], name: str, answer: Answer) -> dict[Pair, Array]:
    table = within(answer.array("scores", ndim=2), MOST_LOG_ODDS * (1.0 + 1e-9))
    if table.shape[1] > _QUANTILES:
        raise odd(f"{table.shape[1]} quantiles for {_QUANTILES}")
    # Rounding may break the order, and the range a threshold may have.
    table = np.clip(np.maximum.accumulate(table, axis=1), -MOST_LOG_ODDS, MOST_LOG_ODDS)
    return _rows(table, parameters, name)


def _rows(table: Array, parameters: Mapping[Pair, Array], name: str) -> dict[Pair, Array]:
    pairs = _partners(parameters, name)
    if len(table) != len(pairs):
        raise odd(f"{len(table)} rows for {len(pairs)} pairs")
    return dict(zip(pairs, table, strict=True))


def _best_threshold(zero: Array, one: Array) -> float:
    """Log odds that part the quantiles of the two sides with the least error, either way."""
    scores = np.unique(np.concatenate([zero, one, [0.0]]))
    between = np.concatenate([[0.0], 0.5 * (scores[1:] + scores[:-1])])
    below_zero, below_one = (
        np.searchsorted(side, between, side="right") / len(side) for side in (zero, one)
    )
    apart = np.abs(below_zero - below_one)
    # Of equally good ones the nearest to the classifier's own.
    good = between[apart >= apart.max() - 1e-12]
    return float(good[np.argmin(np.abs(good))])


def _errors(parameters: Mapping[Pair, Array], name: str, answer: Answer) -> dict[str, float]:
    pairs = _partners(parameters, name)
    errors = answer.array("errors", ndim=1)
    if len(errors) != len(pairs) or errors.min() < 0 or errors.max() > 1:
        raise odd(f"{len(errors)} errors for {len(pairs)} pairs, or some that are no shares")
    others = [a if b == name else b for a, b in pairs]
    return dict(zip(others, errors.tolist(), strict=True))


def _averages(
    trained: Mapping[str, Mapping[Pair, Array]], names: Sequence[str]
) -> dict[Pair, Array]:
    return {
        (a, b): 0.5 * (trained[a][a, b] + trained[b][a, b])
        for a, b in combinations(sorted(names), 2)
    }


def _moved(before: Mapping[Pair, Array], after: Mapping[Pair, Array]) -> float:
    """How far a round moved the hypotheses, on average."""
    return float(np.mean([np.linalg.norm(after[pair] - before[pair]) for pair in sorted(after)]))
