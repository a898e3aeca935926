"""What takes the records of all holders: distances between them for a map, Shapley values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

from silot_transport._check import flag

from ...data.measure import Embedding
from ...errors import InputError, SilotError
from ...federation.answer import Failure
from ...federation.disclosure import Disclosure
from ...federation.protocol import COORDINATOR, Steps, required
from ..direct import Cloud, exact_distance, read_cloud
from ..questions.distances import Records
from ..result import DistanceMatrix
from ..sides import agreed_dimension
from .mixtures import TOLERANCE, mixture_shapley
from .result import Contributions
from .shapley import PlayerValues
from .target import Target


@dataclass(frozen=True)
class Together:
    """What is asked for of all records: exact distances of a map, Shapley values, or nothing."""

    map: bool
    shapley: bool
    embedding: Embedding

    @classmethod
    def checked(cls, map: object, shapley: object, embedding: Embedding) -> Self:
        """As asked for in the options of a protocol; ``embedding`` compares labels."""
        if map not in (None, "direct"):
            raise InputError(
                f"map is {map!r}; give None or 'direct'. silot.value_holders makes maps from "
                "sketches and secure distances too.",
                code="option-map",
            )
        return cls(map == "direct", flag(shapley, "shapley", "option-shapley"), embedding)

    def __bool__(self) -> bool:
        return self.map or self.shapley

    def added(self, found: Contributions, target: Target) -> Steps[Contributions]:
        """Ask every holder for its records, and add what follows from them.

        Holders that fail leave all of it out, and the status says so.
        """
        if not self:
            return found
        if len(found.holders) < 2:
            return self._left_out(found, "it takes two")
        answers = yield dict.fromkeys(found.names, Records(embedding=self.embedding))
        for name in sorted(found.names):
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                return self._left_out(found, f"{name} ({answer.code})")
        try:
            clouds = {name: read_cloud(required(answers, name)) for name in found.names}
            own = target.cloud(self.embedding)
            sides = {**clouds, COORDINATOR: own}
            agreed_dimension({name: points.shape[1] for name, (points, _) in sides.items()})
            between = _exact_distances(sides, found.seed) if self.map else None
            found = replace(
                found,
                between=between,
                status=f"{found.status}; for {self._words} all sent their records",
            )
            if not self.shapley:
                return found
            return with_shapley(found, mixture_shapley(clouds, own, found.spread, seed=found.seed))
        except SilotError as error:
            return self._left_out(found, f"{error.message.rstrip('.')} ({error.code})")

    @property
    def _words(self) -> str:
        return " and ".join(["the map of holders"] * self.map + ["Shapley values"] * self.shapley)

    def _left_out(self, found: Contributions, why: str) -> Contributions:
        if self.map:
            found = without_map(found, why)
        return without_shapley(found, why) if self.shapley else found


def with_shapley(found: Contributions, values: PlayerValues) -> Contributions:
    """Add Shapley values of the holders."""
    shares = dict(zip(values.names, values.shares, strict=True))
    items = tuple(
        replace(item, shapley=values[item.holder], shapley_share=shares[item.holder])
        for item in found.holders
    )
    words = f"Shapley values {values.status}, each to {TOLERANCE:g} of the target"
    return replace(found, holders=items, status=f"{found.status}; {words}")


def without_map(found: Contributions, why: str) -> Contributions:
    """The same result, whose status says why it has no map."""
    return replace(found, status=f"{found.status}; no map of holders: {why}")


def without_shapley(found: Contributions, why: str) -> Contributions:
    """The same result, whose status says why it has no Shapley values."""
    return replace(found, status=f"{found.status}; no Shapley values: {why}")


def _exact_distances(clouds: Mapping[str, Cloud], seed: int) -> DistanceMatrix:
    pairs = {
        (a, b): replace(
            exact_distance(clouds[a], clouds[b], (a, b), 2, seed),
            disclosure=str(Disclosure.RECORD),
        )
        for a, b in combinations(clouds, 2)
    }
    return DistanceMatrix(names=tuple(clouds), pairs=pairs, method="direct", p=2)
