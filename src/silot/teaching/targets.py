"""What happens at targets: models are combined, adjusted and evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..distances.questions.labelled import encode_classes
from ..errors import HolderError
from ..federation.answer import Answer, Array
from ..federation.protocol import Steps, required
from ..learning import Combination, DensitySpec, ModelSpec, Rule, check_density
from .devices import Means, ask_each
from .matching import excess
from .plan import LinkPlan
from .questions.combinations import EvaluateCombination
from .questions.models import FitDensity, described

# A law explains the records of a target whose mean is off by no more than this times what chance
# makes of it, squared.
_EXPLAINED = 1.25
# Records of the senders' class shares that are added to those of a target: few tell little.
_PRIOR = 5.0
# Least share of a class a target is taken to have, and most a class is raised by: the shares
# are estimates.
_LEAST_SHARE = 1e-3
_LARGEST_FACTOR = 20.0


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
    device; ``shares`` the estimated class
    proportions of every device, when models are to be adjusted to them, where the ``guard``, if
    there is one, allows it.
    """

    spec: ModelSpec
    classes: tuple[str, ...]
    unlabelled: str
    rule: Rule
    dimensions: int
    sharpness: float
    seed: int
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
                models[name], classes=self._text, unlabelled=self.unlabelled
            )
            for name in plan.targets
            if name in models
        }
        told, failed = yield from ask_each(questions, lambda _, answer: _accuracy(answer))
        accuracies: dict[str, float | None] = dict.fromkeys(plan.targets)
        reasons = {name: "unserved" for name in plan.targets if name not in models}
        reasons |= {name: failure.code for name, failure in failed.items()}
        return accuracies | told, reasons

    @property
    def _text(self) -> str:
        return encode_classes(list(self.classes))

    @property
    def _law(self) -> DensitySpec:
        return DensitySpec(
            self.spec.inputs, self.spec.classes, self.dimensions, self.seed, self.sharpness
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
            unlabelled=self.unlabelled,
            dimensions=self.dimensions,
            seed=self.seed,
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
