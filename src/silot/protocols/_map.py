"""Distances between holders and to their target, for a map: all exact, from the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from ..errors import SilotError
from ..federation.answer import Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Steps, required
from ..federation.question import Records
from ..measure import Embedding
from ..results import Contributions, DistanceMatrix
from ._sides import agreed_dimension
from ._target import Target
from .direct import Cloud, exact_distance, read_cloud


def with_exact_map(
    found: Contributions, target: Target, embedding: Embedding
) -> Steps[Contributions]:
    """Add exact distances between all holders, and to their target as ``COORDINATOR``.

    Every holder is asked for its records, in the coordinates of ``embedding``. Holders that fail
    leave the map out, and the status says so.
    """
    answers = yield dict.fromkeys(found.names, Records(embedding=embedding))
    for name in sorted(found.names):
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            return without_map(found, f"{name} ({answer.code})")
    try:
        clouds = {name: read_cloud(required(answers, name)) for name in found.names}
        clouds[COORDINATOR] = target.cloud(embedding)
        between = _exact_distances(clouds, found.seed)
    except SilotError as error:
        return without_map(found, f"{error.message.rstrip('.')} ({error.code})")
    status = f"{found.status}; for the map of holders all sent their records"
    return replace(found, between=between, status=status)


def without_map(found: Contributions, why: str) -> Contributions:
    """The same result, whose status says why it has no map."""
    return replace(found, status=f"{found.status}; no map of holders: {why}")


def _exact_distances(clouds: Mapping[str, Cloud], seed: int) -> DistanceMatrix:
    agreed_dimension({name: cloud[0].shape[1] for name, cloud in clouds.items()})
    pairs = {
        (a, b): replace(
            exact_distance(clouds[a], clouds[b], (a, b), 2, seed),
            disclosure=str(Disclosure.RECORD),
        )
        for a, b in combinations(clouds, 2)
    }
    return DistanceMatrix(names=tuple(clouds), pairs=pairs, method="direct", p=2)
