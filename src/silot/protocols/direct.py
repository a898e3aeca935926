"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

import numpy as np

from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol, Steps, ask, required
from ..federation.question import Answerer, Records
from ..measure import Embedding
from ..results import Distance
from ..transport import exact_plan
from ..transport._check import Array, as_order
from ..transport.resampling import chance_distance
from ._found import chance_text
from ._sides import agreed_dimension, check_seed, sides_of


def direct(
    a: str,
    b: str | None = None,
    *,
    own: Answerer | None = None,
    p: int = 2,
    seed: int = 0,
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

    def start() -> Steps[Distance]:
        answers = yield from ask({side: Records(embedding=embedding) for side in sides}, own)
        clouds = [required(answers, side) for side in sides]
        points = [answer.array("points", ndim=2) for answer in clouds]
        weights = [answer.array("weights", ndim=1) for answer in clouds]
        agreed_dimension({side: k.shape[1] for side, k in zip(sides, points, strict=True)})
        plan = exact_plan(*points, *weights, p=order)
        chance = _chance(points, weights, order)
        return Distance(
            value=plan.distance,
            lower=min(plan.lower, plan.distance),
            upper=max(plan.upper, plan.distance),
            method="direct",
            status=("converged: exact, proven by the dual bound" if plan.optimal else plan.status)
            + chance_text(plan.distance, chance),
            converged=plan.optimal,
            holders=sides,
            p=order,
            seed=checked_seed,
            chance=chance,
        )

    holders = tuple(side for side in (a, b) if side is not None)
    return Protocol(
        "direct",
        holders,
        Disclosure.RECORD,
        start,
        {"p": order, "seed": checked_seed, "embedding": embedding},
    )


def _chance(points: list[Array], weights: list[Array], order: int) -> float | None:
    sides = [
        (cloud, masses / masses.sum(), np.zeros(len(cloud), dtype=np.int64))
        for cloud, masses in zip(points, weights, strict=True)
    ]
    return chance_distance(sides[0], sides[1], None, p=order)
