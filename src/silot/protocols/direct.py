"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.distances import Records
from ..federation.protocol import Protocol, Steps, ask, required
from ..federation.question import Answerer
from ..measure import Embedding
from ..results import Distance
from ..transport import ExactPlan, exact_plan
from ..transport._check import as_order, flag
from ..transport.resampling import chance_distance
from ._found import chance_text
from ._parts import asked_clouds
from ._sides import agreed_dimension, check_seed, sides_of

Cloud = tuple[Array, Array]


def direct(
    a: str,
    b: str | None = None,
    *,
    own: Answerer | None = None,
    p: int = 2,
    seed: int = 0,
    why: bool = False,
    embedding: Embedding = "none",
) -> Protocol[Distance]:
    """Exact ``W_p`` by sending all records to the coordinator.

    Parameters
    ----------
    a, b
        Holders. With ``own`` the second side is the coordinator's own measure.
    own
        ``Own(measure)``, instead of ``b``.
    p
        1 or 2.
    seed
        Taken for the record, as by every method; nothing here is random.
    why
        Tell what the squared distance is made of, as ``parts`` of the result. Of records that
        are sent anyway; with labels the first holder tells the classes of its records as well.
        Needs ``p`` 2: the distance itself is no sum over columns.
    embedding
        Label coordinates added to the records: ``"none"``, ``"diagonal"``,
        ``"diagonal-of-root"`` or ``"full"``.

    Returns
    -------
    Protocol[Distance]
        Discloses every record. Bounds are the primal and dual value of the exact plan; ``chance``
        is what two samples of one law stay below.

    Raises
    ------
    InputError
        Options out of range.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0]], "b": [[2.0]]})
    >>> fed.run(direct("a", "b")).value
    2.0
    """
    sides = sides_of(a, b, own)
    order, checked_seed = as_order(p), check_seed(seed)
    if flag(why, "why", "option-why") and order != 2:
        raise InputError(
            "why is for p = 2: a distance of order 1 is no sum over columns. Give p=2, or leave "
            "why out.",
            code="option-why",
        )

    def start() -> Steps[Distance]:
        if why:
            x, y = yield from asked_clouds(sides, embedding, own)
            agreed_dimension(dict(zip(sides, (x.atoms.shape[1], y.atoms.shape[1]), strict=True)))
            plan = x.plan_to(y)
            parts = x.parts_to(y, plan, embedding)
            chance = _chance((x.atoms, x.weights), (y.atoms, y.weights), order)
            return replace(distance_of(plan, sides, order, checked_seed, chance), parts=parts)
        answers = yield from ask({side: Records(embedding=embedding) for side in sides}, own)
        clouds = {side: read_cloud(required(answers, side)) for side in sides}
        agreed_dimension({side: cloud[0].shape[1] for side, cloud in clouds.items()})
        first, second = clouds.values()
        plan = exact_plan(first[0], second[0], first[1], second[1], p=order)
        return distance_of(plan, sides, order, checked_seed, _chance(first, second, order))

    holders = tuple(side for side in (a, b) if side is not None)
    return Protocol(
        "direct",
        holders,
        Disclosure.RECORD,
        start,
        {"p": order, "seed": checked_seed, "embedding": embedding, "why": why},
        expected_rounds=1 + (why and embedding != "none"),
    )


def read_cloud(answer: Answer) -> Cloud:
    """Points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def exact_distance(
    first: Cloud, second: Cloud, sides: tuple[str, str], p: int, seed: int
) -> Distance:
    """Exact ``W_p`` of two clouds that are known, between the values of its plan and its dual."""
    return distance_of(exact_plan(first[0], second[0], first[1], second[1], p=p), sides, p, seed)


def distance_of(
    plan: ExactPlan, sides: tuple[str, str], p: int, seed: int, chance: float | None = None
) -> Distance:
    """``W_p`` of a plan, between its value and its dual's; ``chance`` where that is known."""
    return Distance(
        value=plan.distance,
        lower=min(plan.lower, plan.distance),
        upper=max(plan.upper, plan.distance),
        method="direct",
        status=("converged: exact, proven by the dual bound" if plan.optimal else plan.status)
        + chance_text(plan.distance, chance),
        converged=plan.optimal,
        holders=sides,
        p=p,
        seed=seed,
        chance=chance,
    )


def _chance(first: Cloud, second: Cloud, order: int) -> float | None:
    x, y = (
        (cloud, masses / masses.sum(), np.zeros(len(cloud), dtype=np.int64))
        for cloud, masses in (first, second)
    )
    return chance_distance(x, y, None, p=order)
