"""The protocol of ST-LF: devices train, links are chosen, targets combine models and evaluate them.

``Adapt`` inherits its options from one class for each stage: what devices train (``Learning``),
how errors at targets are estimated (``Features``), what links cost and are chosen for
(``Choosing``), and how targets combine models (``Combining``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import whole

from ..distances.questions.labelled import encode_classes
from ..errors import HolderError, InputError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol, Questions, Steps, required
from ..options import Check, anything, count, documented, none_or, number, option, word
from .costs import NoEligibleSource
from .divergences import DIVERGENCES, Divergence, divergence_of
from .federated import RULES, Combination, DensitySpec, ModelSpec, Rule, check_density
from .federated.features import effective_columns
from .federated.modelling import (
    Devices,
    Labelled,
    Modelling,
    Trained,
    ask_columns,
    ask_each,
    codes_of,
    count_labelled,
    read_trained,
)
from .federated.questions import TrainModel, described
from .matching import Matching, excess, match
from .objectives import AIMS, Choosing, Evidence, energy_share
from .plan import LinkPlan
from .questions import ClassFeatures, Disagreement, EvaluateCombination, FitDensity, MeanFeatures
from .result import Adaptation, Divergences

T = TypeVar("T")

# Fewest records of a class that tell anything about it.
LEAST = 3


def settled(value: T | None) -> T:
    """An option that no default is left to choose for."""
    assert value is not None
    return value


class Learning(Modelling):
    """What devices train."""

    iterations: int = option(
        "Steps of training at a device, as in ``learning.train``. The paper's are 100 iterations "
        "without momentum, which leaves its CNN near chance on small devices.",
        count(1, 1_000_000),
        default=300,
        brief="Steps of training at a device.",
    )
    passes: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.0, flag=False
    )
    batch: int = option(
        "Of the training, as in ``learning.train``.", count(), default=10, flag=False
    )
    rate: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.01, flag=False
    )
    momentum: float = option(
        "Of the training, as in ``learning.train``.", number(), default=0.9, flag=False
    )
    folds: int | None = option(
        "Parts for the held-out error, by default 2; 0 believes the error on the training "
        "records, as the paper does, which is too low.",
        none_or(count(0, 100)),
        default=None,
        flag=False,
    )
    minimum_labelled: int = option(
        "Fewest labelled records of a source.",
        count(),
        default=5,
        code="option-labelled",
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        if self.folds == 1:
            raise InputError("folds is 1; give 0 for none, or two or more.", code="option-folds")
        if not (self.rate > 0 and 0 <= self.momentum < 1 and self.passes >= 0):
            raise InputError(
                "rate > 0, 0 <= momentum < 1 and passes >= 0 are needed.", code="option-training"
            )

    def spec_of(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        """The model that devices train, which must fit their records."""
        counted = [devices.counted[name] for name in devices.names]
        if len(classes) < 2 or not any(item.labelled for item in counted):
            raise NoEligibleSource(
                f"{len(classes)} class(es) have labelled records; two or more are needed. Give "
                "labels to a device, or the label of unlabelled records (unlabelled=...).",
                code="no-eligible-source",
            )
        return super().spec_of(devices, classes)

    def train(
        self, devices: Devices, spec: ModelSpec, classes: tuple[str, ...]
    ) -> Steps[dict[str, Trained]]:
        """Models of the devices that have labels enough; the others are excluded."""
        able: list[str] = []
        for name in devices.names:
            labelled = devices.counted[name].labelled
            if labelled >= self.minimum_labelled:
                able.append(name)
            elif labelled:
                devices.excluded[name] = Failure("labels-few")
        question = TrainModel(
            **described(spec),
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            least=LEAST,
            folds=settled(self.folds),
            iterations=self.iterations,
            passes=self.passes,
            batch=self.batch,
            rate=self.rate,
            momentum=self.momentum,
            seed=self.seed,
        )
        trained, failed = yield from ask_each(
            dict.fromkeys(able, question), lambda _, answer: read_trained(answer, spec)
        )
        devices.excluded.update(failed)
        if not trained:
            reasons = ", ".join(f"{k} ({v.code})" for k, v in sorted(devices.excluded.items()))
            raise NoEligibleSource(
                f"no device could train a model: {reasons or 'none has labels'}. A source needs "
                f"{self.minimum_labelled} labels or more and a policy of level 'record'.",
                code="no-eligible-source",
            )
        return trained


def guessing(trained: dict[str, Trained], devices: Devices, classes: tuple[str, ...]) -> list[str]:
    """Sources whose model is wrong as often as who always names its largest class."""
    found: list[str] = []
    for name in sorted(trained.keys() & devices.counted.keys()):
        counts = devices.counted[name].by_class(classes)
        largest = counts.max() / counts.sum()
        # Of one class there is nothing to guess.
        if largest < 1.0 and trained[name].error >= 1.0 - largest:
            found.append(name)
    return found


# Random features have norm 1, and their means no more.
_NORM = 1.0 + 1e-9


@dataclass(frozen=True)
class Means:
    """Mean features of one device: of all its records, and of its labelled ones by class."""

    mean: Array
    by_class: Array
    counts: npt.NDArray[np.int64]


def read_means(answer: Answer, classes: int, features: int, *, by_class: bool) -> Means:
    """Mean features as a device told them, or an error that stands for what is wrong with them."""
    mean = answer.array("mean", ndim=1)
    if not by_class:
        if mean.shape != (features,) or not np.linalg.norm(mean) <= _NORM:
            raise HolderError("a mean that is none.", code="answer-malformed")
        return Means(mean, np.zeros((classes, features)), np.zeros(classes, dtype=np.int64))
    return _means_by_class(answer, mean, classes, features)


def _means_by_class(answer: Answer, mean: Array, classes: int, features: int) -> Means:
    by_class = answer.array("means", ndim=2)
    counts = answer.arrays.get("counts")
    fits = mean.shape == (features,) and by_class.shape == (classes, features)
    if not fits or counts is None or counts.dtype != np.int64 or counts.shape != (classes,):
        raise HolderError("means that are none.", code="answer-malformed")
    norms = np.linalg.norm(np.vstack([mean[None], by_class]), axis=1)
    if (counts < 0).any() or not (norms <= _NORM).all():
        raise HolderError("counts or means that are none.", code="answer-malformed")
    return Means(mean, by_class, counts)


# Fewest numbers of the records behind each number told, by which features are chosen.
_NUMBERS = 5
_FEWEST_FEATURES = 2


def _even(value: Any, name: str, code: str) -> int:
    features = whole(value, name, code, least=2, most=1 << 16)
    return features - 1 if features % 2 else features


class Features(Labelled):
    """How errors at targets are estimated from mean features."""

    features: int = option(
        "Of the matching: most random features.",
        Check(_even, int, f"int, 2 or more, at most {1 << 16}"),
        default=512,
        flag=False,
    )
    bandwidth: float | None = option(
        "Bandwidth of their kernel, by default half of the root mean squared distance of two "
        "records of a device.",
        none_or(number(above=0)),
        default=None,
        flag=False,
    )
    domain_weight: float = option(
        "Of the matching: error per unit of distance.",
        number(least=0),
        default=1.0,
        code="option-matching",
        flag=False,
    )

    def ask_features(
        self,
        devices: Devices,
        spec: ModelSpec,
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Steps[dict[str, Means]]:
        """Mean features of all devices, of sources by class too."""
        scale = np.atleast_1d(spec.scale)
        variances = [
            devices.columns[name][1] / scale**2 for name in devices.names if name in devices.columns
        ]
        if not variances:
            variances = [
                np.full(item.dimension, item.variance / item.dimension) / scale**2
                for item in devices.counted.values()
            ]
        bandwidth = self.bandwidth
        if bandwidth is None:
            # A device's records are this far apart, root mean squared.
            bandwidth = 0.5 * float(np.mean([2.0 * each.sum() for each in variances])) ** 0.5 or 1.0
        if len(scale) == 1:
            bandwidth, scale = bandwidth * float(scale[0]), np.zeros(0)
        question = ClassFeatures(
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            least=LEAST,
            features=self._how_many(devices, variances),
            bandwidth=bandwidth,
            seed=self.seed,
            scale=scale,
        )
        # A target's mean is all that is needed of it, and that is no more than an aggregate.
        alone = MeanFeatures(
            features=question.features,
            bandwidth=bandwidth,
            seed=self.seed,
            least=LEAST,
            scale=scale,
        )
        questions: Questions = {k: question if k in trained else alone for k in devices.names}

        def read(name: str, answer: Answer) -> Means:
            known = name in trained
            return read_means(answer, len(classes), question.features, by_class=known)

        means, failed = yield from ask_each(questions, read)
        devices.drop(failed)
        return means

    def _how_many(self, devices: Devices, variances: list[Array]) -> int:
        """Features that small classes can tell the mean of, without telling their records."""
        items = list(devices.counted.values())
        sizes = [size for item in items for size in item.counts.values() if size >= _NUMBERS]
        if not sizes:
            return self.features
        # A column counts as the part it has in the variance, as it does for the holder.
        columns = min(map(effective_columns, variances))
        held = columns * min(item.records for item in items)
        usual = min(float(np.quantile(sizes, 0.25)) * items[0].dimension, held) / _NUMBERS
        return min(self.features, max(_FEWEST_FEATURES, 2 * int(usual / 2)))

    def match(
        self,
        devices: Devices,
        told: Mapping[str, Means],
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Matching:
        """Class proportions of all devices, and errors to be expected there."""
        names = devices.names
        sources = np.array([name in trained for name in names])
        errors = np.ones((len(names), len(classes)))
        for j, name in enumerate(names):
            if name in trained:
                errors[j] = trained[name].class_errors
        counts = np.where(sources[:, None], np.stack([told[name].counts for name in names]), 0)
        labelled = np.stack([devices.counted[name].by_class(classes) for name in names])
        return match(
            np.stack([told[name].mean for name in names]),
            np.stack([told[name].by_class for name in names]),
            counts,
            errors,
            # Two answers of one device need not agree.
            labelled=np.maximum(np.where(sources[:, None], labelled, 0), counts),
            records=[devices.counted[name].records for name in names],
            domain_weight=self.domain_weight,
        )


Prior = Literal["auto", "source", "matched"]

# A law explains the records of a target whose mean is off by no more than this times what chance
# makes of it, squared.
_EXPLAINED = 1.25
# Records of the senders' class shares that are added to those of a target: few tell little.
_PRIOR = 5.0
# Least share of a class a target is taken to have, and most a class is raised by: the shares
# are estimates.
_LEAST_SHARE = 1e-3
_LARGEST_FACTOR = 20.0


class Combining(Labelled):
    """How targets use the models they receive."""

    rule: Rule | None = option(
        'How targets combine models (``learning.combine``); by default ``"output"``.',
        none_or(word(*RULES)),
        default=None,
        brief="How a target combines models. Default: output, or parameter with --method st-lf.",
    )
    dimensions: int = option('Of ``rule="density"``.', anything("int"), default=16)
    sharpness: float = option(
        'Of ``rule="density"``.', anything("float, above 0, at most 1"), default=1.0
    )
    prior: Prior | None = option(
        '``"matched"`` adjusts each model\'s predictions from the class proportions it was trained '
        "with to those that the target's own records seem to have; "
        '``"source"`` leaves them. ``"auto"`` does the first at targets where it can be told that '
        "proportions are what differs: their mean features are farther from those of the senders' "
        "records than chance makes them on average, and within 1.25 times of that (squared) of "
        "those of some proportions of the sources' classes. By default "
        '``"auto"`` where it can be: not with ``objective="bound"``, which estimates no '
        'proportions, nor with ``rule="parameter"``.',
        none_or(word(*get_args(Prior))),
        default=None,
        brief="Adjust models to the class shares a target seems to have (matched), leave them "
        "(source), or adjust where shares are what differs (auto). Default: auto where they are "
        "estimated.",
    )

    def fit(self) -> None:
        super().fit()
        # Checks its options; the records' dimension is not known yet.
        DensitySpec(1, 2, self.dimensions, self.seed, self.sharpness)

    def targets(
        self,
        evidence: Evidence,
        classes: tuple[str, ...],
        means: Mapping[str, Means],
        sources: Iterable[str],
    ) -> Targets:
        """What happens at the targets of some devices, from what these told."""
        devices, matching = evidence.devices, evidence.matching
        names = devices.names
        records = {name: devices.counted[name].records for name in names}
        guard = None
        if matching is not None and self.prior == "auto":
            told = tuple(means[name] for name in names)
            guard = Guard(told, tuple(records.values()), matching.excess)
        return Targets(
            options=self,
            spec=evidence.spec,
            classes=classes,
            counts={name: devices.counted[name].by_class(classes) for name in sources},
            records=records,
            shares=matching.shares if matching and self.prior != "source" else None,
            guard=guard,
        )


@dataclass(frozen=True)
class Guard:
    """Whether the records of a target are what class shares alone make of those of its sources.

    ``told`` are the mean features of every device, in the order of the plan; ``records`` are
    those behind them, and ``excess`` is that of the ``Matching``.
    """

    told: tuple[Means, ...]
    records: tuple[int, ...]
    excess: Array

    def allows(self, target: int, senders: Sequence[int], weights: Array) -> bool:
        """Whether models at a target are to be adjusted to its class shares.

        Not where its records look like those the models were trained on: the estimate of the
        shares would only add noise. Nor where no shares of the classes make its records: then
        classes themselves look different there, and shares say nothing.
        """
        if self.excess[target] > _EXPLAINED:
            return False
        shares = [weight * told / max(1, told.sum()) for weight, told in
                  zip(weights, (self.told[i].counts for i in senders), strict=True)]  # fmt: skip
        mixed = np.concatenate(shares)
        if not mixed.any():
            return True
        left = excess(
            self.told[target].mean,
            self.records[target],
            np.concatenate([self.told[i].by_class for i in senders]).T,
            np.concatenate([self.told[i].counts for i in senders]),
            mixed / mixed.sum(),
        )
        # As near as on average, and there is nothing to adjust.
        return left > 1.0


@dataclass(frozen=True)
class Targets:
    """How targets use the models they receive.

    ``counts`` are the labelled records of every source by class, ``records`` all of every
    device; ``shares`` the estimated class proportions of every device, when models are to be
    adjusted to them, where the ``guard``, if there is one, allows it.
    """

    options: Combining
    spec: ModelSpec
    classes: tuple[str, ...]
    counts: Mapping[str, npt.NDArray[np.int64]]
    records: Mapping[str, int]
    shares: Array | None = None
    guard: Guard | None = None

    def combine(self, plan: LinkPlan, models: Mapping[str, Array]) -> Steps[dict[str, Combination]]:
        """The model of every device that has one: its own, or the combination it received."""
        densities = yield from self._densities(plan)
        found: dict[str, Combination] = {}
        for j, name in enumerate(plan.names):
            if plan.psi[j] == 0:
                found[name] = Combination(
                    spec=self.spec, parameters=models[name][None], weights=np.ones(1)
                )
                continue
            senders = [plan.names[i] for i in np.flatnonzero(plan.alpha[:, j] > 0)]
            if not senders:
                continue
            weights = plan.alpha[plan.alpha[:, j] > 0, j]
            combination = Combination(
                spec=self.spec,
                parameters=np.stack([models[sender] for sender in senders]),
                weights=weights / weights.sum(),
                rule=self.rule,
                factors=self._factors(plan, j, senders),
            )
            if self.rule == "density":
                combination = replace(
                    combination,
                    density=self._law,
                    densities=np.stack([densities[sender] for sender in senders]),
                )
            found[name] = combination
        return found

    def evaluate(
        self, plan: LinkPlan, models: Mapping[str, Combination]
    ) -> Steps[tuple[dict[str, float | None], dict[str, str]]]:
        """Accuracy of every target on its evaluation records, and why there is none."""
        questions = {
            name: EvaluateCombination.about(
                models[name], classes=self._text, unlabelled=self.options.unlabelled
            )
            for name in plan.targets
            if name in models
        }
        told, failed = yield from ask_each(questions, lambda _, answer: _accuracy(answer))
        accuracies: dict[str, float | None] = dict.fromkeys(plan.targets)
        reasons = {name: "unserved" for name in plan.targets if name not in models}
        reasons |= {name: failure.code for name, failure in failed.items()}
        return accuracies | told, reasons

    def status(
        self,
        plan: LinkPlan,
        models: Mapping[str, Combination],
        unevaluated: Mapping[str, str],
    ) -> str:
        """What was done at targets, and what is not known of them."""
        if not plan.targets:
            return "; no device is a target: each has its own model, and nobody taught anybody"
        text = ""
        if self.options.prior != "source":
            adjusted = [k for k in plan.targets if k in models and models[k].factors is not None]
            where = f"{len(adjusted)} of {len(plan.targets)} targets"
            text += f"; models adjusted to class shares at {where}"
        absent = [name for name, code in unevaluated.items() if code == "evaluation-absent"]
        silent = [name for name in unevaluated if name not in absent]
        if len(absent) == len(plan.targets):
            text += "; no accuracy, for no target has evaluation records"
        elif absent:
            text += f"; without evaluation records: {', '.join(absent)}"
        if silent:
            text += f"; without an accuracy of {', '.join(silent)}"
        return text

    @property
    def rule(self) -> Rule:
        """How models are combined."""
        return settled(self.options.rule)

    @property
    def _text(self) -> str:
        return encode_classes(list(self.classes))

    @property
    def _law(self) -> DensitySpec:
        of = self.options
        return DensitySpec(
            self.spec.inputs, self.spec.classes, of.dimensions, of.seed, of.sharpness
        )

    def _densities(self, plan: LinkPlan) -> Steps[dict[str, Array]]:
        """Where the records of every source that has a link lie."""
        senders = [
            name for name, row in zip(plan.names, plan.alpha, strict=True) if (row > 0).any()
        ]
        if self.rule != "density" or not senders:
            return {}
        question = FitDensity(
            **described(self.spec),
            classes=self._text,
            unlabelled=self.options.unlabelled,
            dimensions=self.options.dimensions,
            seed=self.options.seed,
        )
        answers = yield dict.fromkeys(senders, question)
        # The plan rests on these sources: without their densities there is no rule to go by.
        found = {name: required(answers, name).array("density", ndim=1) for name in sorted(senders)}
        for density in found.values():
            check_density(self._law, density)
        return found

    def _factors(self, plan: LinkPlan, target: int, senders: list[str]) -> Array | None:
        """Class proportions of a target over those of the models it receives."""
        if self.shares is None:
            return None
        places = [plan.names.index(sender) for sender in senders]
        if self.guard and not self.guard.allows(target, places, plan.alpha[places, target]):
            return None
        counts = np.stack([self.counts[sender] for sender in senders]) + 1.0 / self.spec.classes
        trained = counts / counts.sum(axis=1, keepdims=True)
        records = self.records[plan.names[target]]
        told = plan.alpha[places, target] @ trained
        own = (records * self.shares[target] + _PRIOR * told) / (records + _PRIOR)
        return np.minimum(np.maximum(own, _LEAST_SHARE) / trained, _LARGEST_FACTOR)


def _accuracy(answer: Answer) -> float:
    accuracy = answer.number("accuracy")
    if accuracy > 1:
        raise HolderError("an accuracy above 1.", code="answer-malformed")
    return accuracy


# Sketches need public records, which no flag gives.
_COMPARED = (*(name for name in DIVERGENCES if name != "sketch"), "none")
# The paper as published, and what is ours.
_PUBLISHED: dict[str, Any] = {
    "objective": "bound",
    "divergence": "classifier",
    "constants": "log10",
    "folds": 0,
    "rule": "parameter",
}
_OURS: dict[str, Any] = {
    "objective": "coverage",
    "constants": "none",
    "folds": 2,
    "rule": "output",
}
# What other options decide on where it is not given.
_LEFT = (*_PUBLISHED, "prior")


class Adapt(Combining, Choosing, Features, Learning):
    r"""Train at labelled devices, choose links, combine models at the others, and evaluate.

    Devices tell how many labels they have; those with labels train models from one common
    start; divergences and costs follow; a plan is solved; targets combine the models their
    links bring.

    ``method``, ``mixing``, ``mixing_scale`` and ``allow_unserved`` are for ``"matched"`` and
    ``"bound"``. ``mixing="ambiguity"`` sends every model to every device, which no energy of the
    plan counts. ``method="st-lf"`` is the paper as published: besides the solver it makes
    ``objective="bound"``, ``divergence="classifier"`` (its Algorithm 1), ``constants="log10"``,
    ``folds=0`` and ``rule="parameter"`` the defaults.

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023.
    ``"coverage"`` and ``"matched"`` are ours: the paper's bound never rewards more than one
    source a target. Everything they use is computed without labels of the target.

    Models go from devices to targets through the coordinator here, and their bytes are on the
    bill; ``energy`` is that of the paper's model, where devices send directly.

    Examples
    --------
    >>> Adapt(method="st-lf").settled.divergence
    'classifier'
    """

    name = "adapt"

    divergence: str | None = option(
        'Method of ``divergences``, or ``"none"``. By default ``"mmd"`` where the plan rests on '
        'divergences, with ``objective="bound"`` or ``mixing="mmd"``, else none. Columns are '
        "scaled as for the model.",
        anything("str, or None", _COMPARED),
        default=None,
        brief="How it is measured how far apart data are. Default: mmd where it is used.",
    )
    divergence_options: Mapping[str, Any] | None = option(
        "Options of that divergence.", anything("dict, or None"), default=None
    )

    def fit(self) -> None:
        if self.settled is self:
            self._check_together()
            super().fit()

    @cached_property
    def settled(self) -> Adapt:
        """The same options, with those chosen that were left to the others."""
        given = {name: getattr(self, name) for name in _LEFT}
        given = {name: value for name, value in given.items() if value is not None}
        chosen = (_PUBLISHED if self.method == "st-lf" else _OURS) | given
        estimates = AIMS[chosen["objective"]].estimates
        compares = not estimates or self.needs == "kernel"
        adjusts = estimates and chosen["rule"] != "parameter"
        chosen.setdefault("divergence", "mmd" if compares else "none")
        chosen.setdefault("prior", "auto" if adjusts else "source")
        return self if chosen == given else self.having(**chosen)

    def _check_together(self) -> None:
        """Raise where options of several stages do not go together."""
        if self.prior != "source" and not (self.aim.estimates and self.rule != "parameter"):
            raise InputError(
                f"prior={self.prior!r} needs the class proportions that objective='coverage' or "
                "'matched' estimates, and a rule other than 'parameter'.",
                code="option-prior",
            )
        if self.needs == "kernel" and self.divergence != "mmd":
            raise InputError(
                "mixing='mmd' needs divergence='mmd', which tells the kernel.",
                code="option-mixing",
            )
        if self.divergence == "none" and self.divergence_options:
            raise InputError(
                "divergence_options are given, and no divergence. Give divergence='mmd'.",
                code="option-divergence",
            )
        if self.comparison is None and not self.aim.estimates:
            raise InputError(
                "objective='bound' needs a divergence. Give divergence='mmd'.",
                code="option-divergence",
            )

    def protocol(self, holders: Sequence[str]) -> Protocol[Adaptation]:
        """The protocol of some devices, by name."""
        options, names = self.settled, tuple(holders)
        if len(names) < 2:
            raise InputError(
                f"{len(names)} device(s) given; two or more are needed.", code="holder-names"
            )
        options.check_holders(names)
        comparison = options.comparison
        compared = 0 if comparison is None else comparison.among(names).expected_rounds
        model = options.model
        return Protocol(
            "adapt",
            names,
            Disclosure.RECORD,
            lambda: options.steps(names),
            {
                "model": model if isinstance(model, str) else model.to_text(),
                "iterations": options.iterations,
                "folds": options.folds,
                "divergence": options.divergence,
                "objective": options.objective,
                "mixing": options.mixing,
                "method": options.method,
                "rule": options.rule,
                "prior": options.prior,
                "seed": options.seed,
            },
            expected_rounds=8 + compared,
        )

    @cached_property
    def comparison(self) -> Divergence | None:
        """How devices are compared with one another, if at all."""
        method = settled(self.divergence)
        if method == "none":
            return None
        # Columns have units of their own for it, too.
        scaled = method in ("mmd", "classifier") and self.by_column
        more = {"standardise": True} if scaled else {}
        more |= self.divergence_options or {}
        return divergence_of(method, seed=self.seed, **more)

    def steps(self, holders: tuple[str, ...]) -> Steps[Adaptation]:
        """Questions, and the adaptation that follows from the answers."""
        devices = Devices()
        classes = yield from count_labelled(sorted(holders), self.classes, self.unlabelled, devices)
        if self.by_column:
            yield from ask_columns(devices)
        spec = self.spec_of(devices, classes)
        trained = yield from self.train(devices, spec, classes)
        means = {}
        if self.aim.estimates:
            means = yield from self.ask_features(devices, spec, trained, classes)
        apart = yield from self._compare(devices)
        sources = {name: trained[name].parameters for name in trained if name in devices.counted}
        disagreement = yield from self._disagreement(devices, spec, sources)
        models = {name: value for name, value in sources.items() if name in devices.counted}
        matching = self.match(devices, means, trained, classes) if means else None
        evidence = Evidence(devices, trained, spec, apart, matching, disagreement)
        costs = self.costs_of(evidence, holders)
        plan = self.aim.solve(self, costs)
        targets = self.targets(evidence, classes, means, models)
        combined = yield from targets.combine(plan, models)
        accuracies, unevaluated = yield from targets.evaluate(plan, combined)
        return Adaptation(
            names=devices.names,
            classes=classes,
            plan=plan,
            costs=costs,
            divergences=apart,
            labelled=devices.labelled,
            unlabelled=devices.unlabelled,
            errors={name: trained[name].error for name in models},
            shares=None if matching is None else matching.shares,
            models=combined,
            spec=spec,
            parameters=models,
            rule=targets.rule,
            accuracies=accuracies,
            energy=plan.energy,
            energy_share=energy_share(plan, costs),
            status=_status(plan, devices, guessing(trained, devices, classes))
            + targets.status(plan, combined, unevaluated),
            seed=self.seed,
            excluded=codes_of(devices.excluded),
            missing=codes_of(devices.missing),
            unevaluated=unevaluated,
        )

    def _compare(self, devices: Devices) -> Steps[Divergences | None]:
        if self.comparison is None:
            return None
        apart = yield from self.comparison.among(devices.names).start()
        devices.drop({name: Failure(code) for name, code in apart.missing.items()})
        return apart

    def _disagreement(
        self, devices: Devices, spec: ModelSpec, models: Mapping[str, Array]
    ) -> Steps[Array | None]:
        """Where the mixing needs it, how far models differ at every device."""
        if self.needs != "disagreement":
            return None
        question = Disagreement(**described(spec), parameters=np.stack(list(models.values())))

        def read(_: str, answer: Answer) -> Array:
            squares = answer.array("squares", ndim=2)
            if squares.shape != (len(models), len(models)):
                raise HolderError("a table of another size.", code="answer-malformed")
            return squares

        told, failed = yield from ask_each(dict.fromkeys(devices.names, question), read)
        devices.drop(failed)
        names = devices.names
        places = [names.index(name) for name in models if name in names]
        kept = [k for k, name in enumerate(models) if name in names]
        squares = np.zeros((len(names),) * 3)
        for j, name in enumerate(names):
            squares[np.ix_([j], places, places)] = told[name][np.ix_(kept, kept)]
        return squares


def adapt(holders: Sequence[str], **options: Any) -> Protocol[Adaptation]:
    """Train at labelled devices, choose links, combine models at the others, and evaluate.

    ``Adapt(**options).protocol(holders)``.

    Parameters
    ----------
    holders : sequence of str
        Names of the devices, two or more. A record without a label has the label
        ``unlabelled``; a device may have no labels at all.

    Returns
    -------
    Protocol[Adaptation]
        A device that fails or refuses to train is excluded as a source and may still receive; one
        that does not answer at all is missing. Discloses at level record: parameters of models.

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together; devices of different dimensions, or
        a model that does not fit them (in the run).
    NoEligibleSource
        No device has labels enough, or none of them could train (in the run).

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (x[:, 0] > 0).astype(int).astype(str)
    >>> fed = LocalFederation({
    ...     "a": Measure(x[:100], labels=y[:100]),
    ...     "b": Measure(x[100:200], labels=y[100:200]),
    ...     "new": Measure(x[200:]),
    ... })
    >>> found = fed.run(adapt(["a", "b", "new"], model="logistic"))
    >>> found.plan.targets, bool((found.predict("new", x[200:]) == y[200:]).mean() > 0.9)
    (('new',), True)
    """
    return Adapt(**options).protocol(holders)


adapt.__doc__ = documented(Adapt, adapt.__doc__)


def _status(plan: LinkPlan, devices: Devices, guessing: list[str]) -> str:
    """How the plan was found, who is left out, and who should not be relied on."""
    text = f"links: {plan.status}"
    if plan.optimal:
        text += ", which are estimates"
    for failures, words in (
        (devices.missing, "; without"),
        (devices.excluded, "; never sources:"),
    ):
        if failures:
            text += f"{words} {', '.join(f'{n} ({f.code})' for n, f in sorted(failures.items()))}"
    if guessing:
        text += (
            f"; no better than naming its largest class: {', '.join(guessing)}. Give more labels, "
            "or train longer"
        )
    return text
