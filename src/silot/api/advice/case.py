"""Collect the results that advice rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ...distances.result import DistanceMatrix
from ...records.result import RecordScores
from ...teaching.federated.clustering import Clustering
from .pool import Flags, Pool, Solved, Span
from .result import OTHERS, Evidence

LEVEL = 0.05
"""How often any piece is sure, where all records are of one distribution."""
# Kinds that can be sure.
_KINDS = 4
PART = LEVEL / _KINDS
"""What each kind has of it."""
ENDS = 1.96
"""Ends of an interval of 95 %, in standard deviations."""
MOST_FLAGGED = 0.5
"""Share of flagged records beyond which a holder differs as a whole."""


@dataclass(frozen=True, eq=False)
class Case:
    """Results that advice rests on.

    Attributes
    ----------
    pool
        All records, and how far they are from the validation records.
    clustering
        Distances between holders and groups of them; ``None`` of one holder.
    records
        By holder, the scores of its records.
    excluded
        Holders that were left out before: the pool is that of the others.
    """

    pool: Pool
    clustering: Clustering | None
    records: Mapping[str, RecordScores] = field(repr=False)
    excluded: tuple[str, ...] = ()

    def without(self, names: Sequence[str]) -> Case:
        """Return the case of the other holders."""
        records = {name: scores for name, scores in self.records.items() if name not in names}
        excluded = tuple(sorted({*self.excluded, *names}))
        return replace(self, pool=self.pool.without(names), records=records, excluded=excluded)

    @cached_property
    def matrix(self) -> DistanceMatrix | None:
        """Distances between the holders of the pool."""
        if self.clustering is None or len(self.pool.names) < 2:
            return None
        matrix = self.clustering.matrix
        pairs = {(a, b): matrix[a, b] for a, b in combinations(self.pool.names, 2)}
        return replace(matrix, names=self.pool.names, pairs=pairs)

    @cached_property
    def total(self) -> Solved:
        """From all records to the validation records."""
        return self.pool.solved(self.pool.masses)

    @property
    def by(self) -> str:
        """What distances of the pool were measured by."""
        return "exact W2, certified bounds" if self.pool.certified else "W2 of releases, estimated"

    @cached_property
    def apart(self) -> Flags:
        """Return pairs of holders that a test tells apart (N, N)."""
        if self.clustering is None:
            return np.zeros((1, 1), dtype=bool)
        groups = np.array([self.clustering.assignment[name] for name in self.pool.names])
        return groups[:, None] != groups

    def separates(self, level: float) -> bool:
        """Whether the test of all holders is below a level."""
        verdict = None if self.clustering is None else self.clustering.verdict
        return verdict is not None and verdict.p_value <= level

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of holders, without those that were left out."""
        if self.clustering is None:
            return (self.pool.names,)
        groups = (set(members) - set(self.excluded) for members in self.clustering.groups)
        return tuple(tuple(sorted(members)) for members in groups if members)

    @cached_property
    def flagged(self) -> Flags:
        """Records that are flagged, of holders that do not differ as a whole (n,)."""
        flags = np.zeros(len(self.pool.masses), dtype=bool)
        for name, scores in self.records.items():
            if scores.flagged.mean() <= MOST_FLAGGED:
                flags[self.pool.of_holders([name])] = scores.flagged
        return flags

    def evidence(self, what: str, span: Span) -> Evidence:
        """A distance to the validation records, as evidence."""
        return Evidence(
            what=f"distance {what} to the validation records", value=span.value, lower=span.lower,
            upper=span.upper, by=self.by,
        )  # fmt: skip


class Gain(NamedTuple):
    """Gain of another pool, and its evidence."""

    span: Span
    sure: bool
    evidence: tuple[Evidence, ...]


def measure_gain(case: Case, first: Solved, then: Solved, level: float | None = None) -> Gain:
    """Measure what another pool gains, and test it against other validation records."""
    luck, gain = case.pool.luck(first, then), first.span.less(then.span)
    if not case.pool.certified:
        gain = Span(gain.value, gain.value - ENDS * luck, gain.value + ENDS * luck)
    evidence = (
        Evidence(
            what=OTHERS, value=gain.value,
            lower=gain.value - ENDS * luck, upper=gain.value + ENDS * luck,
            by="potentials, 95 %",
        ),
        case.evidence("of the pool", first.span), case.evidence("then", then.span),
    )  # fmt: skip
    sure = gain.lower > 0 and (level is None or gain.value + float(ndtri(level)) * luck > 0)
    return Gain(gain, sure, evidence)
