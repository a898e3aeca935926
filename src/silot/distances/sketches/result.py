"""One release of every holder, and all that follows from it without asking again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from silot_transport import GroupsResult

from ...data.measure import Measure
from ...errors import InputError
from ...federation.protocol import COORDINATOR
from ...federation.result import Cost, Preflighted, RunResult
from ..naming import Columns
from ..result import Distance, DistanceMatrix, summarize
from ..worth.result import Barycenter, Contributions
from .decoded import DecodedSketches, Target

if TYPE_CHECKING:
    from ...data.preflight import Preflight
    from .release_file import ReleaseFile


B = TypeVar("B", bound=RunResult)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketches(RunResult):
    """Differentially private sketches of every holder.

    The privacy budget was spent when they were made. Everything here is computed from them, as
    often as wanted, and spends nothing more.

    Attributes
    ----------
    names
        Holders, in the order they were given.
    measures
        By holder, what its sketch contains: one atom a cell (and class), a ``Measure``. Records
        scatter around the atoms by ``scatter``.
    records
        By holder, the estimated number of records.
    scatter
        By holder, the squared distance of a record to its atom, on average.
    cells
        How many cells records were counted in.
    nu
        Records of the smallest holder times what the sketch spent: accuracy depends on privacy
        through it alone.
    privacy_epsilon, privacy_delta
        The guarantee of each holder's release.
    spent_mu
        The same as one number: releases add in its square.
    columns
        Names of the features, where who asked knows them.
    releases
        The files that the sketches came in, where they did.
    """

    view: ClassVar = "view:sketches"

    names: tuple[str, ...]
    measures: Mapping[str, Measure] = field(repr=False)
    records: Mapping[str, float]
    scatter: Mapping[str, float] = field(repr=False)
    cells: int
    nu: float
    privacy_epsilon: float
    privacy_delta: float
    spent_mu: float
    status: str
    seed: int
    book: DecodedSketches = field(repr=False)
    columns: Columns = field(default=None, repr=False)
    releases: tuple[ReleaseFile, ...] = field(default=(), repr=False)

    def distance(self, a: str, b: str, *, why: bool = False) -> Distance:
        """Compute the distance of two holders, or of one and the ``"coordinator"``'s own measure.

        With ``why`` its ``parts`` say what it is made of, as far as the cells tell: computed from
        the sketches, so that nothing more is disclosed or spent.

        Raises
        ------
        InputError
            A name that is no holder's, or one twice.
        """
        distance = self.book.distance(a, b, why=why).named(self.columns)
        distance = replace(distance, disclosure=self.disclosure or "private")
        return distance.with_preflight(self.preflight)

    def matrix(self, *, own: bool = False, why: bool = False) -> DistanceMatrix:
        """Compute the distances between all pairs of holders. The cost is that of the one run.

        With ``own`` the coordinator's own measure, ``"coordinator"``, is one of them; ``why`` as
        for ``distance``.
        """
        if len(self.names) < 2:
            raise InputError(
                f"{len(self.names)} holder(s) given; a matrix needs two or more.",
                code="holder-names",
            )
        names = (*self.names, COORDINATOR) if own else self.names
        self.book.compute(combinations(names, 2))
        pairs = {pair: self.distance(*pair, why=why) for pair in combinations(names, 2)}
        return DistanceMatrix(names=names, pairs=pairs, method="sketch", p=2, shared_cost=self.cost)

    def barycenter(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        support: int | None = None,
        rounds: int = 20,
    ) -> Barycenter:
        """Compute the measure between the holders.

        Parameters
        ----------
        weights
            Of the holders; equal by default.
        support
            Atoms; as many as there are cells by default.
        rounds
            Most rounds.
        """
        return self._add_cost(self.book.barycenter(weights, support, rounds))

    def values(
        self,
        target: Target | None = None,
        *,
        why: bool = False,
        map: bool = False,
        shapley: bool = False,
    ) -> Contributions:
        """Compute what every holder's data are worth.

        Parameters
        ----------
        target
            ``"validation"``: the coordinator's own measure, which has no noise. ``"barycenter"``:
            that of the holders. Default: the first when there is one.
        why
            As for ``distance``.
        map
            Compute the distances of a map too, between holders and to the coordinator's own
            measure where that is the target; nothing more is asked of anybody.
        shapley
            Shapley values too, of mixtures of the cells.
        """
        chosen = target or ("validation" if self.book.owned else "barycenter")
        values = self._add_cost(self.book.values(chosen, why=why, shapley=shapley))
        values = values.named(self.columns)
        if not map:
            return values
        if len(self.names) < 2:
            return values.with_note("no map of holders: a map needs two")
        # Distances to a barycenter are estimated in another way, on a scale of their own.
        return replace(values, between=self.matrix(own=chosen == "validation"))

    def _add_cost(self, result: B) -> B:
        """Add the cost of the run that made the sketches."""
        return result.with_run(self)

    @property
    def value(self) -> float:
        """What each holder spent, as epsilon."""
        return self.privacy_epsilon

    def to_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "cells": self.cells,
            "nu": self.nu,
            "privacy_epsilon": self.privacy_epsilon,
            "privacy_delta": self.privacy_delta,
            "spent_mu": self.spent_mu,
            "status": self.status,
            "records": dict(self.records),
            "scatter": dict(self.scatter),
            **self._cost_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        sizes = f"{len(self.names)} holders, {self.cells} cells"
        return summarize(self, sizes, f"epsilon {self.privacy_epsilon:g}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Combined(Preflighted):
    """Sketches with what is computed of them, to be shown together."""

    view: ClassVar = "view:combined"

    sketches: Sketches
    """Of the sites."""
    values: Contributions = field(repr=False)
    """What each site is worth, with the distances between them in ``between`` and the barycenter,
    where that is the target, in ``barycenter``."""
    test: GroupsResult | None = field(repr=False)
    """Which sites differ, in the order of their names; ``None`` of one site, and where records
    were not counted in cells."""

    @property
    def preflight(self) -> Preflight | None:
        """What was seen of columns that no schema describes: those of the sites by nobody."""
        return self.sketches.preflight

    @classmethod
    def of(cls, sketches: Sketches, test: GroupsResult | None) -> Combined:
        """Compute everything that follows from sketches, beside the ``test`` of them."""
        return cls(sketches=sketches, values=sketches.values(map=True), test=test)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Sites by group; all sites as one where nothing was tested."""
        names = sorted(self.sketches.names)
        codes = self.test.groups if self.test else (0,) * len(names)
        return tuple(
            tuple(name for name, code in zip(names, codes, strict=True) if code == group)
            for group in dict.fromkeys(codes)
        )

    @property
    def value(self) -> dict[str, float]:
        """What each site is worth: its distance to the target."""
        return self.values.value

    @property
    def interval(self) -> dict[str, tuple[float, float] | None]:
        """Where each distance lies in 95 % of cases."""
        return self.values.interval

    @property
    def cost(self) -> Cost:
        """What reading the releases cost."""
        return self.sketches.cost

    @property
    def disclosure(self) -> str:
        """The most detailed thing that a site disclosed."""
        return self.sketches.disclosure

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        matrix, barycenter = self.values.between, self.values.barycenter
        return {
            **self.sketches.to_dict(),
            "releases": [release.to_dict() for release in self.sketches.releases],
            "matrix": None if matrix is None else matrix.to_dict(),
            "values": self.values.to_dict(),
            "barycenter": None if barycenter is None else barycenter.to_dict(),
            "groups": [list(group) for group in self.groups],
            "test": None if self.test is None else self.test.to_dict(),
        }
