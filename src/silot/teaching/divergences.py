"""Protocols that measure how far apart the data of devices are, one class for each method."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, Unpack, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ..data.measure import Embedding
from ..distances.direct import Direct, compute_exact_distance
from ..distances.fedwad import FedWaD
from ..distances.methods import Pairwise, pair_rounds
from ..distances.questions import Records
from ..distances.result import Distance
from ..distances.shared_options import switch
from ..distances.sides import agree_on_dimension, describe_missing, read_weights
from ..distances.sketches.decoded import LEAST_NU, DecodedSketches
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch
from ..distances.trianglewad import TriangleWad
from ..errors import (
    HolderError,
    InputError,
    MismatchError,
    RefusedError,
    SilotError,
    WaitingError,
    WireError,
)
from ..federation.answer import WAITING, Answer, Array, Failure, build_malformed_error
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Protocol, Questions, Steps, failure_error, parallel
from ..options import (
    Check,
    Options,
    anything,
    count,
    declared,
    none_or,
    number,
    option,
    part,
    seed,
    taking,
    truth,
    word,
)
from .federated import ModelSpec, initial
from .federated.modelling import ask_each, codes_of, read_spread
from .federated.training import LARGEST_PARAMETER
from .questions import (
    MOST_FEATURES,
    MOST_LOG_ODDS,
    MOST_SEED,
    DomainErrors,
    DomainScores,
    MeanFeatures,
    Spread,
    TrainDomain,
)
from .result import Divergences, Reading

if TYPE_CHECKING:
    from ..keywords import DivergenceKeywords

T = TypeVar("T")
Pair = tuple[str, str]
Pairs = Mapping[Pair, float]

# Squares of larger numbers, and sums of these, come near to overflow.
_LARGEST = 1e100


@dataclass
class Devices:
    """Devices of one run: who still answers, and why the others do not."""

    names: tuple[str, ...]
    quorum: int
    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise InputError(
                f"{len(self.names)} device(s) given; a divergence needs two or more.",
                code="holder-names",
            )
        integer(self.quorum, "quorum", "option-quorum", least=2, most=len(self.names))

    @property
    def present(self) -> tuple[str, ...]:
        """Devices that have not failed so far, in the order of all."""
        return tuple(name for name in self.names if name not in self.missing)

    def ask(self, questions: Questions, read: Callable[[str, Answer], T]) -> Steps[dict[str, T]]:
        """Ask and read, in the order of the questions, without those that fail."""
        values, failures = yield from ask_each(questions, read)
        self.missing.update(failures)
        self.check()
        return {name: values[name] for name in questions if name in values}

    def drop(self, error: HolderError) -> None:
        """Leave out the device that failed in the steps of another protocol."""
        kinds: dict[type, str] = {RefusedError: "refused", WaitingError: WAITING}
        self.missing[error.holder] = Failure(error.code, kinds.get(type(error), "failed"))

    def check(self) -> None:
        """Raise what the first failure means, when fewer than the quorum are present."""
        if len(self.present) < self.quorum:
            raise failure_error(*next(iter(self.missing.items())))


class Divergence(Options):
    """Compare all devices with one another, by one method."""

    disclosure: ClassVar[Disclosure] = Disclosure.RECORD
    reading: ClassVar[Reading]
    unit: ClassVar[str] = ""

    seed: int = option(
        "Seed of everything drawn. The result does not depend on the order of ``holders``.",
        seed(),
        default=0,
    )
    quorum: int = option(
        "Fewest devices that must answer. One that fails is named in ``missing`` and left out.",
        # How many are too many, the devices say.
        anything("int, 2 or more"),
        default=2,
    )

    def among(self, holders: Sequence[str]) -> Protocol[Divergences]:
        """Return the protocol of some devices."""
        devices = Devices(tuple(holders), self.quorum)
        return Protocol(
            self.name,
            devices.names,
            self.disclosure,
            lambda: self.steps(replace(devices, missing={})),
            self.parameters(),
            expected_rounds=self.most_rounds(devices.names),
        )

    def most_rounds(self, names: tuple[str, ...]) -> int:
        """Most exchanges it makes among some devices."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Scalar]:
        """Return the options that transcripts record: those that are one number or text."""
        plain = (item.name for item in declared(type(self)) if item.check.kind is not None)
        return self.values(*plain)

    def steps(self, run: Devices) -> Steps[Divergences]:
        """Questions, and the divergences that follow from the answers."""
        raise NotImplementedError

    def result(self, run: Devices, pairs: Pairs, *, status: str, **others: Any) -> Divergences:
        """Return the divergences of the pairs of all devices that are present."""
        return Divergences(
            names=run.present,
            values=symmetric(run.present, pairs),
            method=self.name,
            reading=self.reading,
            status=status + describe_missing(run.missing),
            seed=self.seed,
            missing=codes_of(run.missing),
            **{"unit": self.unit, **others},
        )


@dataclass(frozen=True)
class Width:
    """What all devices together say of their records."""

    centre: Array  # mean of the devices' means
    pooled: Array  # variance of every feature over all devices, each counted alike
    within: float  # total variance of a device's records, on average


def ask_width(run: Devices, embedding: Embedding = "none") -> Steps[Width]:
    """Ask every device for its mean and variances."""
    questions = dict.fromkeys(run.names, Spread(embedding=embedding))
    spreads = yield from run.ask(questions, lambda _, answer: read_spread(answer))
    agree_on_dimension({name: len(mean) for name, (mean, _) in spreads.items()})
    # In the order of names, or rounding would depend on the order given.
    means, variances = (np.array([spreads[name][k] for name in sorted(spreads)]) for k in (0, 1))
    centre = means.mean(axis=0)
    pooled = (variances + (means - centre) ** 2).mean(axis=0)
    return Width(centre, pooled, float(np.mean([variance.sum() for variance in variances])))


def within(numbers: Array, most: float = _LARGEST) -> Array:
    """Return numbers of an answer, or raise when one is larger than it can be."""
    if np.abs(numbers).max() > most:
        raise build_malformed_error("numbers larger than is possible")
    return numbers


def symmetric(names: Sequence[str], pairs: Pairs) -> Array:
    """Build a symmetric matrix from entries off the diagonal; zero where no entry is."""
    place = {name: k for k, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names)))
    for (a, b), value in pairs.items():
        matrix[place[a], place[b]] = matrix[place[b], place[a]] = value
    return matrix


# Of random features, where the asker names no number.
_FEATURES = 2048
# Features have norm 1, and their means no more.
_NORM = 1.0 + 1e-9
_ROUNDING = 1e-12


def _even(features: Any, name: str, code: str) -> int:
    number = integer(features, name, code, least=2, most=MOST_FEATURES)
    if number % 2:
        raise InputError(
            f"features is {features}; they come in pairs, so an even number is needed.",
            code=code,
        )
    return number


class Mmd(Divergence):
    r"""Maximum mean discrepancy with a Gaussian kernel, by random Fourier features.

    .. math:: \mathrm{MMD}^2(\mu, \nu) = \mathbb{E} k(x, x') + \mathbb{E} k(y, y')
        - 2\, \mathbb{E} k(x, y), \quad k(x, y) = e^{-|x - y|^2 / 2 h^2}

    Every device sends the mean of its features, corrected so that the square has the right
    expectation whatever the number of records: it is 0 on average for devices of one distribution.

    Notes
    -----
    Rahimi and Recht, *Random Features for Large-Scale Kernel Machines*, 2007; Gretton et al.,
    *A Kernel Two-Sample Test*, 2012 (eq. 3, here with weights). The error of the features is
    about ``features ** -0.5`` of the kernel's. Means of as many features as there are numbers in
    the records determine these.
    """

    name = "mmd"
    disclosure = Disclosure.STATISTICS
    reading = "root"
    unit = (
        "1 is the distance of two mean embeddings; records so far apart that the kernel "
        "vanishes are sqrt(2) apart"
    )

    embedding: Embedding = option(
        "Label coordinates added to the records.", word(*get_args(Embedding)), default="none"
    )
    seed: int = option("Public seed of the random features.", count(0, MOST_SEED), default=0)
    features: int | None = option(
        "Random features, an even number. Default: 2048.",
        none_or(Check(_even, int, "int, 2 or more")),
        default=None,
        code="option-count",
    )
    bandwidth: float | None = option(
        "Bandwidth h. Default: the root mean squared distance of two records of all "
        "devices together, from the means and variances that they send.",
        none_or(number(above=0)),
        default=None,
    )
    standardise: bool = switch(
        "Whether columns are divided by their standard deviation over all devices together: for "
        "tables, whose columns have units of their own."
    )

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 2

    def steps(self, run: Devices) -> Steps[Divergences]:
        width = yield from ask_width(run, self.embedding)
        scale, pooled = np.zeros(0), width.pooled
        if self.standardise:
            scale = np.sqrt(pooled)
            # Of a constant only rounding varies.
            scale = np.where(scale > _ROUNDING * np.abs(width.centre), scale, 1.0)
            pooled = pooled / scale**2
        bandwidth = self.bandwidth or (2.0 * float(pooled.sum())) ** 0.5 or 1.0
        features = self.features or _FEATURES
        question = MeanFeatures(
            features=features,
            bandwidth=bandwidth,
            seed=self.seed,
            scale=scale,
            embedding=self.embedding,
        )
        answers = yield from run.ask(
            dict.fromkeys(run.present, question), lambda _, answer: _read_mean(answer, features)
        )
        norms: dict[str, float] = {}
        for name, (mean, square) in answers.items():
            norms[name] = float((mean**2).sum())
            # A device of one record has no pair of different records: it is compared as it is.
            if square < 1.0 - 1e-9:
                norms[name] = (norms[name] - square) / (1.0 - square)
        squares = {
            (a, b): norms[a] + norms[b] - 2.0 * float(answers[a][0] @ answers[b][0])
            for a, b in combinations(answers, 2)
        }
        return self.result(
            run,
            {pair: max(0.0, square) ** 0.5 for pair, square in squares.items()},
            status=f"estimate: {features} random features, bandwidth {bandwidth:.4g}; unbiased in "
            "the square",
            details={"features": features, "bandwidth": bandwidth},
        )


def _read_mean(answer: Answer, features: int) -> tuple[Array, float]:
    """Mean of the features of a device, and the sum of its squared weights."""
    mean = answer.array("mean", ndim=1, columns=features)
    squares = answer.number("squares")
    # Before it is squared.
    within(mean, _NORM)
    if float(np.linalg.norm(mean)) > _NORM or not 0 < squares <= _NORM:
        raise build_malformed_error("a mean or a sum of squared weights that is not possible")
    return mean, squares


Threshold = Literal["best", "half"]
_QUANTILES = 65

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

    ``errors`` has both errors of every pair. Parameters after a few steps can be inverted, so this
    discloses records. The side of a pair that is labelled 0 is the first in the order of names.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    Algorithm 1 and appendix F. Errors are on the records trained on, as there: few records and a
    large model make devices of one distribution look apart.
    """

    name = "classifier"
    reading = "half"
    unit = "0: the classifier cannot tell the devices apart; 2: it always can"

    model: ModelSpec | None = option(
        "Architecture of the classifier, which has two classes. Default: one hidden "
        "layer of 64 units.",
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
    batch: int = option("Records in a step of gradient descent.", count(), default=10)
    rate: float = option(
        "Learning rate of gradient descent.", number(above=0), default=0.01, code="option-training"
    )
    momentum: float = option(
        "Momentum of gradient descent.", part("number"), default=0.0, code="option-training"
    )
    standardise: bool | None = option(
        "Whether features are shifted and scaled by mean and standard deviation of all devices "
        'together. Default: for all models but ``"cnn"``, whose ``ModelSpec.scale`` does that; '
        "then a feature that hardly varies is not blown up, as if all had one unit. "
        "``True`` is for tables, whose columns have units of their own.",
        none_or(truth()),
        default=None,
    )
    threshold: Threshold = option(
        '``"half"``, as the paper: a record is assigned to side 1 if that is more probable. '
        '``"best"``: if its log odds exceed the threshold of least error, which follows for each '
        "pair from the devices' quantiles of log odds. It is the same hypothesis with another "
        'bias. Training on one label moves the bias most: with ``"half"`` both devices often '
        "assign all records to one side, and its error of ½ looks like no divergence.",
        word(*get_args(Threshold)),
        default="best",
    )

    @property
    def training(self) -> dict[str, Any]:
        """Options of stochastic gradient descent, between two averagings."""
        return self.values("iterations", "batch", "rate", "momentum")

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return self.rounds + 2 + (self.threshold == "best")

    def steps(self, run: Devices) -> Steps[Divergences]:
        width = yield from ask_width(run)
        dimension = len(width.centre)
        spec = self.model or ModelSpec("mlp", (dimension,), 2)
        if spec.inputs != dimension:
            raise MismatchError(
                f"the model takes {spec.inputs} features and the records have {dimension}.",
                code="dimension-mismatch",
            )
        names = tuple(sorted(run.present))
        parameters = dict.fromkeys(combinations(names, 2), initial(spec, self.seed))
        fixed = {"model": spec.to_text(), **self._frame(width, spec)}
        history: list[Mapping[str, float]] = []
        for k in range(self.rounds):
            questions = {
                name: TrainDomain(
                    **_batch(parameters, name),
                    seeds=_seeds(parameters, name, self.seed, k),
                    **fixed,
                    **self.training,
                )
                for name in names
            }
            trained = yield from run.ask(questions, partial(_read, parameters))
            names = tuple(trained)
            moved = {(a, b): 0.5 * (trained[a][a, b] + trained[b][a, b])
                     for a, b in combinations(names, 2)}  # fmt: skip
            steps = [np.linalg.norm(moved[pair] - parameters[pair]) for pair in moved]
            history.append({"moved": float(np.mean(steps))})
            parameters = moved
        thresholds = dict.fromkeys(parameters, 0.0)
        if self.threshold == "best":
            questions = {
                name: DomainScores(**_batch(parameters, name), **fixed, quantiles=_QUANTILES)
                for name in names
            }
            scores = yield from run.ask(questions, partial(_scores, parameters))
            names = tuple(scores)
            # Devices may have failed since the hypotheses were trained.
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
        errors = yield from run.ask(questions, partial(_errors, parameters))
        return self._conclude(run, errors, spec, history)

    def _frame(self, width: Width, spec: ModelSpec) -> dict[str, Array]:
        chosen = spec.kind != "cnn" if self.standardise is None else self.standardise
        if not chosen:
            return {"centre": np.zeros(spec.inputs), "scale": np.ones(spec.inputs)}
        least = 0.0 if self.standardise else _LEAST_SCALE * float(np.mean(width.pooled)) ** 0.5
        scale = np.maximum(np.sqrt(width.pooled), least)
        return {"centre": width.centre, "scale": np.where(scale > 0, scale, 1.0)}

    def _conclude(
        self,
        run: Devices,
        answers: Mapping[str, Mapping[str, float]],
        spec: ModelSpec,
        history: list[Mapping[str, float]],
    ) -> Divergences:
        names = run.present
        errors = np.array([[0.0 if a == b else answers[a][b] for b in names] for a in names])
        halves = {(a, b): 0.5 * (answers[a][b] + answers[b][a]) for a, b in combinations(names, 2)}
        turned = sum(error > 0.5 for error in halves.values())
        note = f"; the sides of {turned} classifiers were exchanged" if turned else ""
        return self.result(
            run,
            {pair: 2.0 * (1.0 - 2.0 * min(e, 1.0 - e)) for pair, e in halves.items()},
            errors=errors,
            status=f"estimate: from a {spec.kind} of {spec.size} parameters after "
            f"{self.rounds} rounds of {self.iterations} steps" + note,
            details={"parameters": spec.size, "turned": turned},
            history=tuple(history),
        )


# Two devices of a pair are in the order of their names: the first labels its records 0, the
# other 1.
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
    digests = [
        hashlib.sha256(f"{seed}\0{round_}\0{a}\0{b}\0{name}".encode()).digest()[:7]
        for a, b in _partners(parameters, name)
    ]
    return np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.int64)


def _read(parameters: Mapping[Pair, Array], name: str, answer: Answer) -> dict[Pair, Array]:
    width = len(next(iter(parameters.values())))
    table = within(answer.array("parameters", ndim=2, columns=width), LARGEST_PARAMETER)
    return _rows(table, parameters, name)


def _scores(parameters: Mapping[Pair, Array], name: str, answer: Answer) -> dict[Pair, Array]:
    table = within(answer.array("scores", ndim=2), MOST_LOG_ODDS * (1.0 + 1e-9))
    if table.shape[1] > _QUANTILES:
        raise build_malformed_error(f"{table.shape[1]} quantiles for {_QUANTILES}")
    # Rounding may break the order, and the range a threshold may have.
    table = np.clip(np.maximum.accumulate(table, axis=1), -MOST_LOG_ODDS, MOST_LOG_ODDS)
    return _rows(table, parameters, name)


def _rows(table: Array, parameters: Mapping[Pair, Array], name: str) -> dict[Pair, Array]:
    pairs = _partners(parameters, name)
    if len(table) != len(pairs):
        raise build_malformed_error(f"{len(table)} rows for {len(pairs)} pairs")
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
        raise build_malformed_error(
            f"{len(errors)} errors for {len(pairs)} pairs, or some that are not shares"
        )
    others = [a if b == name else b for a, b in pairs]
    return dict(zip(others, errors.tolist(), strict=True))


PairDistances = dict[Pair, Distance]


class ByDistance(Divergence):
    """Distances between all devices by a method for two, several pairs at once."""

    method: ClassVar[type[Pairwise]]
    reading = "normal"

    distance: Pairwise | None = option(
        "The distance between two devices; the method's own when None.",
        anything("Pairwise, or None"),
        default=None,
    )

    def __init_subclass__(cls, method: type[Pairwise], **arguments: Any) -> None:
        """Take name and disclosure from the method."""
        cls.method, cls.name, cls.disclosure = method, method.name, method.disclosure
        super().__init_subclass__(**arguments)

    @cached_property
    def pair(self) -> Pairwise:
        """Distance between two devices."""
        return self.distance or self.method(seed=self.seed)

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 1 + len(pair_rounds(names)) * self.pair.between("a", "b").expected_rounds

    def parameters(self) -> dict[str, Scalar]:
        return {**self.pair.parameters(), **super().parameters()}

    def steps(self, run: Devices) -> Steps[Divergences]:
        width = yield from ask_width(run, self.pair.embedding)
        distances: PairDistances = {}
        unread: dict[Pair, SilotError] = {}
        for stage in pair_rounds(sorted(run.present)):
            pairs = [pair for pair in stage if not set(pair) & set(run.missing)]
            runs = {str(k): _caught(self.pair.between(*pair)) for k, pair in enumerate(pairs)}
            results = yield from parallel(runs)
            for k, pair in enumerate(pairs):
                result = results[str(k)]
                if isinstance(result, Distance):
                    distances[pair] = result
                elif isinstance(result, HolderError) and result.holder:
                    run.drop(result)
                else:
                    # Nobody failed to answer: what an answer held is wrong.
                    unread[pair] = result
            run.check()
        _leave_out(run, unread)
        return self.conclude(run, distances, width.within**0.5)

    def conclude(
        self, run: Devices, distances: PairDistances, scale: float, **others: Any
    ) -> Divergences:
        """Return the distances of devices that are present; ``scale`` is their deviation."""
        kept = {pair: k for pair, k in distances.items() if set(pair) <= set(run.present)}
        slow = [k for k in kept.values() if not k.converged]
        status = f"converged: all {len(kept)} pairs"
        if slow:
            status = (
                f"{len(slow)} of {len(kept)} pairs did not converge; "
                f"{' and '.join(slow[0].holders)}: {slow[0].status}"
            )
        lower, upper = (
            symmetric(run.present, {pair: getattr(k, what) for pair, k in kept.items()})
            for what in ("lower", "upper")
        )
        own: dict[str, Any] = {
            "unit": f"the unit of the features: Wasserstein distance of order {self.pair.p}",
            "lower": lower,
            "upper": upper,
            "status": status,
            "converged": not slow,
            "details": {"p": self.pair.p},
        }
        values = {pair: k.value for pair, k in kept.items()}
        return self.result(run, values, scale=scale, **{**own, **others})


class FedWaDs(ByDistance, method=FedWaD):
    """FedWaD between every two devices."""


class TriangleWads(ByDistance, method=TriangleWad):
    """TriangleWad between every two devices."""


def _leave_out(run: Devices, unread: Mapping[Pair, SilotError]) -> None:
    """Exclude whose answers could not be read: the device that all such pairs share.

    The answers of one pair do not say which of its two devices is at fault; the other pairs do.
    """
    while pairs := [pair for pair in unread if not set(pair) & set(run.missing)]:
        error = unread[pairs[0]]
        first, second, *_ = Counter(name for pair in pairs for name in pair).most_common()
        if first[1] == second[1]:
            who = " and ".join(map(repr, pairs[0]))
            raise type(error)(f"{who}: {error.message}", code=error.code)
        run.missing[first[0]] = Failure(error.code)
    run.check()


class Pooled(ByDistance, method=Direct):
    """Exact distances of pooled records: the baseline. Discloses every record."""

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 1

    def steps(self, run: Devices) -> Steps[Divergences]:
        pair = self.pair
        questions = dict.fromkeys(run.names, Records(embedding=pair.embedding))
        clouds = yield from run.ask(questions, lambda _, answer: _read_records(answer))
        agree_on_dimension({name: points.shape[1] for name, (points, _) in clouds.items()})
        distances = {
            (a, b): compute_exact_distance(clouds[a], clouds[b], (a, b), pair.p, self.seed)
            for a, b in combinations(sorted(clouds), 2)
        }
        spread = [_variance(*clouds[name]) for name in sorted(clouds)]
        return self.conclude(run, distances, float(np.mean(spread)) ** 0.5)


def _read_records(answer: Answer) -> tuple[Array, Array]:
    cloud = within(answer.array("points", ndim=2))
    return cloud, read_weights(answer, len(cloud))


class Sketched(ByDistance, method=Sketch):
    """Distances from one differentially private release of every device, as ``sketches``."""

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return self.pair.between("a", "b").expected_rounds

    def steps(self, run: Devices) -> Steps[Divergences]:
        while True:
            release = self.pair.release(run.present)
            assert release is not None
            try:
                released: Sketches = yield from release.start()
                break
            except HolderError as error:
                if not error.holder:
                    raise
                # Once more without it: what a device released before costs it nothing.
                run.drop(error)
                run.check()
        book = released.book
        assert isinstance(book, DecodedSketches)
        decoded = {name: book.pages[name].decoded for name in sorted(released.names)}
        spread = [k.scatter + _variance(k.atoms, k.weights.sum(axis=0)) for k in decoded.values()]
        distances = {pair: book.distance(*pair) for pair in combinations(decoded, 2)}
        return self.conclude(
            run,
            distances,
            float(np.mean(spread)) ** 0.5,
            lower=None,
            upper=None,
            status=book.status,
            converged=book.nu >= LEAST_NU,
            details={"cells": released.cells, "nu": released.nu},
        )


def _caught(protocol: Protocol[Distance]) -> Steps[Distance | SilotError]:
    """Run the steps of a pair; an error that ends them is their result."""
    try:
        return (yield from protocol.start())
    except (HolderError, InputError, WireError) as error:
        return error


def _variance(atoms: Array, weights: Array) -> float:
    """Total variance of a weighted cloud."""
    masses = weights / weights.sum()
    return float(masses @ ((atoms - masses @ atoms) ** 2).sum(axis=1))


DIVERGENCES: dict[str, type[Divergence]] = {
    kind.name: kind for kind in (Mmd, Classifier, FedWaDs, TriangleWads, Sketched, Pooled)
}
"""The divergences by name."""


def divergence_of(method: str, *, seed: int = 0, quorum: int = 2, **options: Any) -> Divergence:
    """Build a divergence by name, or raise an ``InputError`` that lists methods or options."""
    if not isinstance(method, str) or method not in DIVERGENCES:
        raise InputError(
            f"method is {method!r}; give one of {', '.join(DIVERGENCES)}.", code="option-method"
        )
    kind = DIVERGENCES[method]
    if issubclass(kind, ByDistance):
        if "why" in options:
            raise InputError(
                f"method {method!r} has no option 'why' for many devices: use a distance of two.",
                code="option-unknown",
            )
        options = {"distance": kind.method(seed=seed, **options)}
    return kind(seed=seed, quorum=quorum, **options)


@taking(also=(Mmd, Classifier, FedWaD, TriangleWad, Sketch, Direct), without=("why",))
def divergences(
    holders: Sequence[str],
    *,
    method: str = "mmd",
    seed: int = 0,
    quorum: int = 2,
    **options: Unpack[DivergenceKeywords],
) -> Protocol[Divergences]:
    r"""Divergence between every two devices, for :math:`\tfrac12 d` of the transfer cost (18).

    Records count whether labelled or not; labels are not used, unless an ``embedding`` is.

    Parameters
    ----------
    holders
        Names of two devices or more.
    method
        ``"mmd"``, ``"classifier"`` (Algorithm 1 of the paper), ``"fedwad"``,
        ``"trianglewad"``, ``"sketch"`` or ``"direct"``; the classes in ``DIVERGENCES`` describe
        them.
    seed
        Seed of everything drawn. The result does not depend on the order of ``holders``.
    quorum
        Fewest devices that must answer. One that fails is named in ``missing`` and left out.
    **options
        Of the method.

    Raises
    ------
    InputError
        An unknown method or option, or one out of range; fewer than two devices.
    MismatchError
        Devices whose records have different numbers of features (in the run).

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    sec. IV-B, has Algorithm 1 only. The others cost less and predict transfer errors as well:
    docs/results/stlf-divergences.md.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(900, 2))
    >>> fed = LocalFederation({"a": x[:300], "b": x[300:600], "far": x[600:] + 9.0})
    >>> apart = fed.run(divergences(["a", "b", "far"], method="mmd"))
    >>> apart["a", "b"] < 0.2, apart["a", "far"] > 0.6, apart.disclosure
    (True, True, 'statistics')
    """
    return divergence_of(method, seed=seed, quorum=quorum, **options).among(holders)
