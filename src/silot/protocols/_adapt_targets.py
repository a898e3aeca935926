"""What happens at targets: models are combined, adjusted and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import HolderError, SilotError
from ..federation.answer import Array
from ..federation.combinations import EvaluateCombination
from ..federation.hypotheses import FitDensity, described
from ..federation.labelled import encode_classes
from ..federation.protocol import Steps, failure_error
from ..learning import Combination, DensitySpec, ModelSpec, Rule, check_density
from ..results import LinkPlan
from ._adapt_devices import gather

# Least share of a class a target is taken to have, and most a class is raised by: the shares
# are estimates.
_LEAST_SHARE = 1e-3
_LARGEST_FACTOR = 20.0


@dataclass(frozen=True)
class Targets:
    """How targets use the models they receive.

    ``counts`` are the labelled records of every source by class; ``shares`` the estimated class
    proportions of every device, when models are to be adjusted to them.
    """

    spec: ModelSpec
    classes: tuple[str, ...]
    unlabelled: str
    rule: Rule
    dimensions: int
    sharpness: float
    seed: int
    counts: Mapping[str, npt.NDArray[np.int64]]
    shares: Array | None = None

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
        told, failed = yield from gather(questions)
        accuracies: dict[str, float | None] = dict.fromkeys(plan.targets)
        reasons = {name: "unserved" for name in plan.targets if name not in models}
        reasons |= {name: failure.code for name, failure in failed.items()}
        for name, answer in told.items():
            try:
                accuracy = answer.number("accuracy")
                if accuracy > 1:
                    raise HolderError("an accuracy above 1.", code="answer-malformed")
                accuracies[name] = accuracy
            except SilotError as error:
                reasons[name] = error.code
        return accuracies, reasons

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
        if self.rule != "density":
            return {}
        senders = [
            name for name, row in zip(plan.names, plan.alpha, strict=True) if (row > 0).any()
        ]
        question = FitDensity(
            **described(self.spec),
            classes=self._text,
            unlabelled=self.unlabelled,
            dimensions=self.dimensions,
            seed=self.seed,
        )
        told, failed = yield from gather(dict.fromkeys(senders, question))
        if failed:
            # The plan rests on this source: without its density there is no rule to go by.
            raise failure_error(*next(iter(failed.items())))
        found = {name: answer.array("density", ndim=1) for name, answer in told.items()}
        for density in found.values():
            check_density(self._law, density)
        return found

    def _factors(self, plan: LinkPlan, target: int, senders: list[str]) -> Array | None:
        """Class proportions of a target over those of the models it receives."""
        if self.shares is None:
            return None
        own = np.maximum(self.shares[target], _LEAST_SHARE)
        rows: list[Array] = []
        for sender in senders:
            counts = self.counts[sender] + 1.0 / self.spec.classes
            rows.append(np.minimum(own / (counts / counts.sum()), _LARGEST_FACTOR))
        return np.stack(rows)
