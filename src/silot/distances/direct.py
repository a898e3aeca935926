"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from silot_transport import ExactPlan
from silot_transport.auction import fitting_plan
from silot_transport.chance import chance_distance

from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.protocol import Steps
from ..options import option, truth
from .pairwise import Pairwise, Sides
from .parts import asked_clouds
from .questions.distances import Records
from .result import Distance, chance_text
from .sides import agreed_dimension

Cloud = tuple[Array, Array]

# A distance known to this part of it counts as found.
_CLOSE = 0.01


class Direct(Pairwise):
    """Exact ``W_p`` by sending all records to the coordinator: the baseline.

    Returns
    -------
    Protocol[Distance]
        Discloses every record. Bounds are the primal and dual value of the exact plan; of costs
        that do not fit into memory, of one within a hundredth of it, as ``status`` says.
        ``chance`` is what two samples of one law stay below.

    Raises
    ------
    InputError
        Options out of range.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0]], "b": [[2.0]]})
    >>> fed.run(Direct().between("a", "b")).value
    2.0
    """

    name = "direct"
    sends = "all records to the coordinator"
    needs = "one round; records pooled at the coordinator"
    guarantees = "exact W, proven by primal and dual value"
    privacy = "none: it sends the records"

    why: bool = option(
        "Tell what the squared distance is made of, as ``parts`` of the result. Of records that "
        "are sent anyway; with labels the first holder tells the classes of its records as well. "
        "Needs ``p`` 2: the distance itself is no sum over columns.",
        truth(),
        default=False,
        brief="What distances are made of, by column and class.",
    )

    def fit(self) -> None:
        if self.why and self.p != 2:
            raise InputError(
                "why is for p = 2: a distance of order 1 is no sum over columns. Give p=2, or "
                "leave why out.",
                code="option-why",
            )

    @property
    def most_rounds(self) -> int:
        return 1 + (self.why and self.embedding != "none")

    def steps(self, sides: Sides) -> Steps[Distance]:
        if self.why:
            return (yield from self._explained(sides))
        first, second = map(read_cloud, (yield from sides.ask(Records(embedding=self.embedding))))
        agreed_dimension(
            {side: c[0].shape[1] for side, c in zip(sides.names, (first, second), strict=True)}
        )
        plan = fitting_plan(first[0], second[0], first[1], second[1], self.p)
        return distance_of(plan, sides.names, self.p, self.seed, _chance(first, second, self.p))

    def _explained(self, sides: Sides) -> Steps[Distance]:
        x, y = yield from asked_clouds(sides.names, self.embedding, sides.own)
        agreed_dimension(
            {side: c.atoms.shape[1] for side, c in zip(sides.names, (x, y), strict=True)}
        )
        plan = x.plan_to(y)
        parts = x.parts_to(y, plan, self.embedding)
        chance = _chance((x.atoms, x.weights), (y.atoms, y.weights), self.p)
        return replace(distance_of(plan, sides.names, self.p, self.seed, chance), parts=parts)


direct = Direct.build


def read_cloud(answer: Answer) -> Cloud:
    """Points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def exact_distance(
    first: Cloud, second: Cloud, sides: tuple[str, str], p: int, seed: int
) -> Distance:
    """Exact ``W_p`` of two clouds that are known, between the values of its plan and its dual."""
    return distance_of(fitting_plan(first[0], second[0], first[1], second[1], p), sides, p, seed)


def distance_of(
    plan: ExactPlan, sides: tuple[str, str], p: int, seed: int, chance: float | None = None
) -> Distance:
    """``W_p`` of a plan, between its value and its dual's; ``chance`` where that is known."""
    return Distance(
        value=plan.distance,
        lower=min(plan.lower, plan.distance),
        upper=max(plan.upper, plan.distance),
        method="direct",
        status=_status(plan) + chance_text(plan.distance, chance),
        converged=plan.optimal or _is_close(plan),
        holders=sides,
        p=p,
        seed=seed,
        chance=chance,
    )


def _status(plan: ExactPlan) -> str:
    if plan.optimal:
        return "converged: exact, proven by the dual bound"
    return f"certified: {plan.status}" if _is_close(plan) else plan.status


def _is_close(plan: ExactPlan) -> bool:
    return plan.upper - plan.lower <= _CLOSE * plan.upper


def _chance(first: Cloud, second: Cloud, order: int) -> float | None:
    x, y = (
        (cloud, masses / masses.sum(), np.zeros(len(cloud), dtype=np.int64))
        for cloud, masses in (first, second)
    )
    return chance_distance(x, y, None, p=order)
