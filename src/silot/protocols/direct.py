"""The baseline: records are pooled and the distance is computed exactly."""

from __future__ import annotations

from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol, Steps, ask, required
from ..federation.question import Answerer, Records
from ..measure import Embedding
from ..results import Distance
from ..transport import exact_plan
from ..transport._check import as_order
from ._sides import agreed_dimension, check_seed, sides_of

Cloud = tuple[Array, Array]


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
        Discloses every record. Bounds are the primal and dual value of the exact plan.

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
        clouds = {side: read_cloud(required(answers, side)) for side in sides}
        agreed_dimension({side: cloud[0].shape[1] for side, cloud in clouds.items()})
        return exact_distance(clouds[sides[0]], clouds[sides[1]], sides, order, checked_seed)

    holders = tuple(side for side in (a, b) if side is not None)
    return Protocol(
        "direct",
        holders,
        Disclosure.RECORD,
        start,
        {"p": order, "seed": checked_seed, "embedding": embedding},
    )


def read_cloud(answer: Answer) -> Cloud:
    """Points and weights that a holder sent."""
    return answer.array("points", ndim=2), answer.array("weights", ndim=1)


def exact_distance(
    first: Cloud, second: Cloud, sides: tuple[str, str], p: int, seed: int
) -> Distance:
    """Exact ``W_p`` of two clouds that are known, between the values of its plan and its dual."""
    plan = exact_plan(first[0], second[0], first[1], second[1], p=p)
    return Distance(
        value=plan.distance,
        lower=min(plan.lower, plan.distance),
        upper=max(plan.upper, plan.distance),
        method="direct",
        status="converged: exact, proven by the dual bound" if plan.optimal else plan.status,
        converged=plan.optimal,
        holders=sides,
        p=p,
        seed=seed,
    )
