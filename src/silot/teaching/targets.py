"""What happens at targets: models are combined, adjusted and evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ..distances.questions import encode_classes
from ..errors import HolderError
from ..federation.answer import Answer, Array
from ..federation.protocol import Steps, required
from ..options import anything, none_or, option, word
from .federated import RULES, Combination, DensitySpec, ModelSpec, Rule, check_density
from .federated.devices import ask_each
from .federated.modelling import Labelled
from .federated.questions.models import described
from .matching import excess
from .means import Means
from .plan import LinkPlan
from .pricing import Evidence
from .questions.combinations import EvaluateCombination
from .questions.models import FitDensity
from .training import settled

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
