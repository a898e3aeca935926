"""What distances to a target are made of, as holders tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...data.measure import Embedding
from ...federation.answer import Answer, Failure
from ...federation.protocol import Steps
from ...federation.result import Array
from ..cost_parts import Parts, other_name
from ..parts import ROUNDING, malformed
from ..questions.parts import CostParts, features_of
from ..result import Distance
from .result import Contributions
from .target import Target


def told_parts(
    targets: Mapping[str, Target],
    distances: Mapping[str, Distance],
    label_weight: float,
    embedding: Embedding,
) -> Steps[dict[str, Parts | Failure]]:
    """Ask holders what their distances to a target are made of."""
    answers = yield {
        name: parts_question(target, label_weight, embedding) for name, target in targets.items()
    }
    found: dict[str, Parts | Failure] = {}
    for name, target in targets.items():
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Answer):
            found[name] = _read(answer, target, distances[name], embedding)
        else:
            found[name] = answer
    return found


def parts_question(target: Target, label_weight: float, embedding: Embedding) -> CostParts:
    """The question that goes with ``target.distance_question``."""
    used = target.weights > 0
    size = max(len(target.classes), 1)
    return CostParts(
        target=target.atoms[used],
        target_weights=target.weights[used],
        target_codes=target.codes[used],
        classes=target.text,
        class_distances=target.metric if target.by_class else np.zeros((size, size)),
        class_slack=np.zeros(size),
        label_weight=label_weight if target.by_class else 0.0,
        embedding=embedding,
    )


def _read(answer: Answer, target: Target, distance: Distance, embedding: Embedding) -> Parts:
    """Parts as a holder told them: they sum to the distance it told before."""
    features = features_of(target.atoms.shape[1], embedding)
    columns = answer.array("columns", ndim=1, columns=features)
    labels = answer.number("labels")
    labelled = target.by_class or embedding != "none"
    half = answer.rounding("columns")
    cost, room = float(columns.sum()) + labels, features * half + answer.rounding("labels")
    # Where a plan is not proven optimal, another order of the records may give another.
    slack = ROUNDING if distance.converged else 1.0
    low, high = distance.lower**2 * (1.0 - slack), distance.upper**2 * (1.0 + slack)
    if columns.min() < 0 or not low - room <= cost <= high + room or labels * (not labelled):
        raise malformed("parts that do not sum to the distance it told")
    if not target.classes:
        return Parts.of_costs(columns, labels if labelled else None)
    costs, masses = _of_classes(answer, len(target.classes) + 1, cost, room)
    return Parts.of_costs(
        columns,
        labels,
        classes=[*target.classes, other_name(target.classes)],
        class_costs=costs,
        masses=masses,
    )


def _of_classes(answer: Answer, size: int, cost: float, room: float) -> tuple[Array, Array]:
    """Costs and masses of classes, of which the costs sum to that of the columns."""
    costs = answer.array("class_costs", ndim=1, columns=size)
    masses = answer.array("masses", ndim=1, columns=size)
    room += size * answer.rounding("class_costs") + ROUNDING * cost
    off = abs(float(masses.sum()) - 1.0) > ROUNDING + size * answer.rounding("masses")
    if costs.min() < 0 or masses.min() < 0 or off or abs(float(costs.sum()) - cost) > room:
        raise malformed("parts of classes that do not sum to the distance it told")
    return costs, masses


def with_parts(result: Contributions, told: Mapping[str, Parts | Failure]) -> Contributions:
    """The result with the parts of its distances, and words on those that were not told."""
    if not told:
        return result
    items = tuple(
        replace(item, distance=replace(item.distance, parts=parts))
        if isinstance(parts := told.get(item.holder), Parts)
        else item
        for item in result.holders
    )
    failures = {name: each for name, each in told.items() if isinstance(each, Failure)}
    refused = [f"{name} ({failures[name].code})" for name in sorted(failures)]
    words = f"; what distances are made of was not told by {', '.join(refused)}" if refused else ""
    return replace(result, holders=items, status=result.status + words)
