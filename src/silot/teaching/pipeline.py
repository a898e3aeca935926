"""The steps of an adaptation, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..distances.questions.labelled import encode_classes
from ..errors import HolderError, MismatchError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import Questions, Steps
from ..learning import ModelSpec
from ..learning.features import effective_columns
from .costs import NoEligibleSource
from .coverage import solve_coverage
from .devices import (
    Devices,
    Means,
    Trained,
    ask_columns,
    ask_each,
    codes_of,
    count,
    read_means,
    read_trained,
)
from .divergence import Divergences
from .divergences import divergences
from .matching import Matching, match
from .options import Choices, costs_of, energy_share
from .plan import LinkPlan
from .questions.combinations import Disagreement
from .questions.divergences import MeanFeatures
from .questions.models import ClassFeatures, TrainModel, described
from .result import Adaptation
from .targets import Guard, Targets

# Fewest numbers of the records behind each number told, by which features are chosen.
_NUMBERS = 5
_FEWEST_FEATURES = 2
# Fewest records of a class that tell anything about it.
_LEAST = 3


@dataclass(frozen=True)
class Plan:
    """An adaptation of devices, named in the order of the alphabet."""

    holders: tuple[str, ...]
    choices: Choices

    def start(self) -> Steps[Adaptation]:
        choices, devices = self.choices, Devices()
        classes = yield from count(self.holders, choices.classes, choices.unlabelled, devices)
        if choices.model != "cnn" and not isinstance(choices.model, ModelSpec):
            # Columns have units of their own; pixels of an image have one.
            yield from ask_columns(devices)
        spec = self._spec(devices, classes)
        trained = yield from self._train(devices, spec, classes)
        told = yield from self._features(devices, spec, trained, classes)
        apart = yield from self._divergences(devices)
        sources = {name: trained[name].parameters for name in trained if name in devices.counted}
        disagreement = yield from self._disagreement(devices, spec, sources)
        models = {name: value for name, value in sources.items() if name in devices.counted}
        matching = self._match(devices, told, trained, classes)
        costs = costs_of(choices, devices, trained, spec, apart, matching, disagreement)
        if choices.objective == "coverage" and matching is not None:
            plan = solve_coverage(
                costs,
                budget=choices.budget_of(int(costs.eligible.sum())),
                time_limit=choices.time_limit,
                gap=choices.gap,
            )
        else:
            plan = choices.solve(costs)
        targets = Targets(
            spec=spec,
            classes=classes,
            unlabelled=choices.unlabelled,
            rule=choices.rule,
            dimensions=choices.dimensions,
            sharpness=choices.sharpness,
            shares=matching.shares if matching and choices.prior != "source" else None,
            guard=self._guard(devices, told, matching),
            seed=choices.seed,
            counts={name: devices.counted[name].by_class(classes) for name in models},
            records={name: devices.counted[name].records for name in devices.names},
        )
        found = yield from targets.combine(plan, models)
        accuracies, unevaluated = yield from targets.evaluate(plan, found)
        names = devices.names
        guessing = _guessing(trained, devices, classes)
        adjusted = None
        if choices.prior != "source":
            adjusted = [k for k in plan.targets if k in found and found[k].factors is not None]
        return Adaptation(
            names=names,
            classes=classes,
            plan=plan,
            costs=costs,
            divergences=apart,
            labelled={name: devices.counted[name].labelled for name in names},
            unlabelled={name: devices.counted[name].unlabelled for name in names},
            errors={name: trained[name].error for name in models},
            shares=None if matching is None else matching.shares,
            models=found,
            spec=spec,
            parameters=models,
            rule=choices.rule,
            accuracies=accuracies,
            energy=plan.energy,
            energy_share=energy_share(plan, costs),
            status=_status(plan, devices, guessing, adjusted, unevaluated),
            seed=choices.seed,
            excluded=codes_of(devices.excluded),
            missing=codes_of(devices.missing),
            unevaluated=unevaluated,
        )

    def _spec(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        counted = [devices.counted[name] for name in devices.names]
        inputs = counted[0].dimension
        model = self.choices.model
        if len(classes) < 2 or not any(item.labelled for item in counted):
            raise NoEligibleSource(
                f"{len(classes)} class(es) have labelled records; two or more are needed. Give "
                "labels to a device, or the label of unlabelled records (unlabelled=...).",
                code="no-eligible-source",
            )
        if isinstance(model, ModelSpec):
            if model.inputs != inputs or model.classes != len(classes):
                raise MismatchError(
                    f"the model is for {model.inputs} numbers and {model.classes} classes; "
                    f"records have {inputs} and there are {len(classes)} classes.",
                    code="model-mismatch",
                )
            return model
        kind = cast("Any", model)
        centre, scale = devices.units()
        made = ModelSpec(
            kind,
            self.choices.shape or (inputs,),
            len(classes),
            centre=tuple(centre.tolist()) if len(centre) > 1 else float(centre[0]),
            scale=tuple(scale.tolist()) if len(scale) > 1 else float(scale[0]),
        )
        if made.inputs != inputs:
            raise MismatchError(
                f"shape holds {made.inputs} numbers; records have {inputs}.", code="model-mismatch"
            )
        return made

    def _train(
        self, devices: Devices, spec: ModelSpec, classes: tuple[str, ...]
    ) -> Steps[dict[str, Trained]]:
        choices = self.choices
        able: list[str] = []
        for name in devices.names:
            labelled = devices.counted[name].labelled
            if labelled >= choices.minimum_labelled:
                able.append(name)
            elif labelled:
                devices.excluded[name] = Failure("labels-few")
        question = TrainModel(
            **described(spec),
            classes=encode_classes(list(classes)),
            unlabelled=choices.unlabelled,
            least=_LEAST,
            folds=choices.folds,
            **choices.training,
        )
        trained, failed = yield from ask_each(
            dict.fromkeys(able, question), lambda _, answer: read_trained(answer, spec)
        )
        devices.excluded.update(failed)
        if not trained:
            reasons = ", ".join(f"{k} ({v.code})" for k, v in sorted(devices.excluded.items()))
            raise NoEligibleSource(
                f"no device could train a model: {reasons or 'none has labels'}. A source needs "
                f"{choices.minimum_labelled} labels or more and a policy of level 'record'.",
                code="no-eligible-source",
            )
        return trained

    def _features(
        self,
        devices: Devices,
        spec: ModelSpec,
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Steps[dict[str, Means]]:
        choices = self.choices
        if choices.objective == "bound":
            return {}
        scale = np.atleast_1d(spec.scale)
        variances = [
            devices.columns[name][1] / scale**2 for name in devices.names if name in devices.columns
        ]
        if not variances:
            variances = [
                np.full(item.dimension, item.variance / item.dimension) / scale**2
                for item in devices.counted.values()
            ]
        bandwidth = choices.bandwidth
        if bandwidth is None:
            # A device's records are this far apart, root mean squared.
            bandwidth = 0.5 * float(np.mean([2.0 * each.sum() for each in variances])) ** 0.5 or 1.0
        if len(scale) == 1:
            bandwidth, scale = bandwidth * float(scale[0]), np.zeros(0)
        question = ClassFeatures(
            classes=encode_classes(list(classes)),
            unlabelled=choices.unlabelled,
            least=_LEAST,
            features=self._how_many(devices, variances),
            bandwidth=bandwidth,
            seed=choices.seed,
            scale=scale,
        )
        # A target's mean is all that is needed of it, and that is no more than an aggregate.
        alone = MeanFeatures(
            features=question.features,
            bandwidth=bandwidth,
            seed=choices.seed,
            least=_LEAST,
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
            return self.choices.features
        # A column counts as the part it has in the variance, as it does for the holder.
        columns = min(map(effective_columns, variances))
        held = columns * min(item.records for item in items)
        usual = min(float(np.quantile(sizes, 0.25)) * items[0].dimension, held) / _NUMBERS
        return min(self.choices.features, max(_FEWEST_FEATURES, 2 * int(usual / 2)))

    def _divergences(self, devices: Devices) -> Steps[Divergences | None]:
        choices = self.choices
        if choices.divergence == "none":
            return None
        found = yield from divergences(
            devices.names,
            method=choices.divergence,
            seed=choices.seed,
            **choices.divergence_options,
        ).start()
        devices.drop({name: Failure(code) for name, code in found.missing.items()})
        return found

    def _disagreement(
        self, devices: Devices, spec: ModelSpec, models: Mapping[str, Array]
    ) -> Steps[Array | None]:
        if self.choices.mixing != "ambiguity":
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
        found = np.zeros((len(names),) * 3)
        for j, name in enumerate(names):
            found[np.ix_([j], places, places)] = told[name][np.ix_(kept, kept)]
        return found

    def _match(
        self,
        devices: Devices,
        told: Mapping[str, Means],
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Matching | None:
        if not told:
            return None
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
            domain_weight=self.choices.domain_weight,
        )

    def _guard(
        self, devices: Devices, told: Mapping[str, Means], matching: Matching | None
    ) -> Guard | None:
        if matching is None or self.choices.prior != "auto":
            return None
        names = devices.names
        return Guard(
            tuple(told[name] for name in names),
            tuple(devices.counted[name].records for name in names),
            matching.excess,
        )


def _status(
    plan: LinkPlan,
    devices: Devices,
    guessing: list[str],
    adjusted: list[str] | None,
    unevaluated: Mapping[str, str],
) -> str:
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
    if not plan.targets:
        return f"{text}; no device is a target: each has its own model, and nobody taught anybody"
    if adjusted is not None:
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


def _guessing(
    trained: Mapping[str, Trained], devices: Devices, classes: tuple[str, ...]
) -> list[str]:
    """Sources whose model is wrong as often as who always names its largest class."""
    found: list[str] = []
    for name in sorted(trained.keys() & devices.counted.keys()):
        counts = devices.counted[name].by_class(classes)
        largest = counts.max() / counts.sum()
        # Of one class there is nothing to guess.
        if largest < 1.0 and trained[name].error >= 1.0 - largest:
            found.append(name)
    return found
