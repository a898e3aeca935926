"""Groups of holders, from the distances between them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from silot_transport.chance import Chance

from ...distances.result import DistanceMatrix
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.result import Bill, Preflighted, in_doubt
from .chance import ChanceLevels, Chances, chance_levels
from .groups import (
    LEAST_SILHOUETTE,
    Apart,
    Candidate,
    Certainty,
    Found,
    Grouping,
    certainty,
    find_groups,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...data.preflight import Preflight

# Ends of an interval of 95 %, in standard deviations.
_ENDS = 2.0 * 1.96


@dataclass(frozen=True, kw_only=True, eq=False)
class Clustering(Preflighted):
    """Holders in groups.

    Attributes
    ----------
    names
        Holders, in the order they were given.
    assignment
        By holder, the number of its group: 0 is that of the first holder by name, and so on.
    k
        How many groups; 1 says that there are none.
    asked
        How many were asked for, or ``"auto"``.
    candidates
        What was tried, with what speaks for it; empty where no distance exceeds chance.
    agreement
        Share of resamples that give as many groups; ``None`` without resamples.
    stability
        By holder, the share of resamples in which it is in the same group; empty without.
    levels
        By pair, what its distance stays below by chance, where that is known.
    unknown
        Holders of which nothing tells what chance makes, and why.
    status
        In words: what decided, and how sure it is.
    matrix
        The distances.
    chances
        The run that asked holders what chance makes; ``None`` where nobody was asked.
    """

    view: ClassVar = "clustering_view:clustering"

    names: tuple[str, ...]
    assignment: Mapping[str, int]
    k: int
    asked: int | Literal["auto"]
    affinity: str
    candidates: tuple[Candidate, ...]
    agreement: float | None
    stability: Mapping[str, float]
    levels: Mapping[tuple[str, str], float] = field(repr=False)
    unknown: Mapping[str, str]
    status: str
    seed: int
    resamples: int
    matrix: DistanceMatrix = field(repr=False)
    chances: Chances | None = field(default=None, repr=False)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Members of every group, in the order of their names."""
        return tuple(
            tuple(sorted(name for name in self.names if self.assignment[name] == group))
            for group in range(self.k)
        )

    @property
    def silhouette(self) -> float | None:
        """Mean silhouette width of the groups; ``None`` where there are none."""
        widths = [each.silhouette for each in self.candidates if each.k == self.k]
        return widths[0] if self.k > 1 and widths else None

    @property
    def method(self) -> str:
        """Of the distances."""
        return self.matrix.method

    @property
    def bill(self) -> Bill:
        """That of the distances, and of asking what chance makes."""
        return self.matrix.bill if self.chances is None else self.matrix.bill + self.chances.bill

    @property
    def disclosure(self) -> str:
        """Finest thing disclosed."""
        told = [self.matrix.disclosure, "" if self.chances is None else self.chances.disclosure]
        levels = [Disclosure[level.upper()] for level in told if level]
        return str(max(levels)) if levels else ""

    @property
    def preflight(self) -> Preflight | None:
        """What was seen of the tables of all holders."""
        return self.matrix.preflight

    @property
    def converged(self) -> bool:
        """Whether every distance converged."""
        return self.matrix.converged

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        bill = self.bill
        return {
            "names": list(self.names),
            "assignment": dict(self.assignment),
            "groups": [list(group) for group in self.groups],
            "k": self.k,
            "asked": self.asked,
            "affinity": self.affinity,
            "silhouette": self.silhouette,
            "candidates": [vars(each) for each in self.candidates],
            "agreement": self.agreement,
            "stability": dict(self.stability),
            "levels": [[*pair, level] for pair, level in self.levels.items()],
            "unknown": dict(self.unknown),
            "status": self.status,
            "converged": self.converged,
            "seed": self.seed,
            "resamples": self.resamples,
            "rounds": bill.rounds,
            "bytes_sent": bill.bytes_sent,
            "bytes_received": bill.bytes_received,
            "seconds": bill.seconds,
            "privacy_mu": bill.privacy_mu,
            "disclosure": self.disclosure,
            "preflight": None if self.preflight is None else self.preflight.to_dict(),
            "matrix": self.matrix.to_dict(),
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distances as a heat map, in the order of the groups."""
        return self.in_order.plot(ax)

    @property
    def in_order(self) -> DistanceMatrix:
        """The distances, members of one group beside one another."""
        return replace(self.matrix, names=tuple(name for group in self.groups for name in group))


def clustering_of(
    matrix: DistanceMatrix,
    options: Grouping,
    laws: Mapping[str, Chance] | None = None,
    chances: Chances | None = None,
) -> Clustering:
    """Groups of a matrix of distances.

    Parameters
    ----------
    matrix
        All distances.
    options
        How holders are grouped.
    laws
        By holder, what two samples of its law show, where that is known.
    chances
        The run that told them.

    Raises
    ------
    InputError
        ``option-clusters``: more groups than holders. ``distances-absent``: a pair without a
        distance, or with one that is no number.
    """
    names = sorted(matrix.names)
    options.check_size(len(names))
    _check_complete(matrix)
    # In one order, whatever order holders were given in.
    ordered = replace(matrix, names=tuple(names))
    levels = chance_levels(names, laws or {}, ordered)
    apart = apart_of(ordered, levels)
    found = find_groups(apart, apart.values, apart.lower, options)
    sure = certainty(apart, found, options)
    codes = dict(zip(names, found.codes.tolist(), strict=True))
    stays = {} if sure is None else dict(zip(names, sure.holders.tolist(), strict=True))
    unknown = _unknown(names, levels, {} if chances is None else chances.missing)
    return Clustering(
        names=matrix.names,
        assignment={name: codes[name] for name in matrix.names},
        k=found.k,
        asked=options.k,
        affinity=options.affinity,
        candidates=found.candidates,
        agreement=None if sure is None else sure.groups,
        stability={name: stays[name] for name in matrix.names} if stays else {},
        levels={
            (names[i], names[j]): float(levels.level[i, j])
            for i, j in combinations(range(len(names)), 2)
            if levels.known[i, j]
        },
        unknown=unknown,
        status=in_doubt(_status(found, sure, apart, options, unknown, matrix), matrix.preflight),
        seed=options.seed,
        resamples=options.resamples,
        matrix=matrix,
        chances=chances,
    )


def _check_complete(matrix: DistanceMatrix) -> None:
    for a, b in combinations(matrix.names, 2):
        there = (a, b) in matrix.pairs or (b, a) in matrix.pairs
        if not there or not (math.isfinite(matrix[a, b].value) and matrix[a, b].value >= 0):
            raise InputError(
                f"there is no distance of {a!r} and {b!r}, or it is no number. Measure all pairs, "
                "or leave one of the two out.",
                code="distances-absent",
            )


def apart_of(matrix: DistanceMatrix, levels: ChanceLevels) -> Apart:
    """Distances with where they may lie: certified bounds, or an interval of estimates."""
    size = len(matrix.names)
    values, lower, upper = matrix.values, matrix.lower, matrix.upper
    ratio = np.zeros((size, size))
    for i, j in combinations(range(size), 2):
        pair = matrix[matrix.names[i], matrix.names[j]]
        if pair.interval is not None and pair.interval[0] > 0:
            ratio[i, j] = ratio[j, i] = math.log(pair.interval[1] / pair.interval[0]) / _ENDS
    # Without any bound the value is what there is; without one above it, it is that.
    estimated = (ratio > 0) | ((lower == 0) & np.isinf(upper))
    lower = np.where(estimated, values, lower)
    upper = np.where(estimated | np.isinf(upper), values, upper)
    return Apart(values, lower, upper, levels.level, levels.spread, matrix.p, ratio, levels.aside)


def _unknown(
    names: Sequence[str], levels: ChanceLevels, missing: Mapping[str, str]
) -> dict[str, str]:
    """Holders of whom nothing tells what chance makes, and why."""
    none = not levels.known[np.triu_indices(len(names), 1)].any()
    lone = [name for name, aside in zip(names, levels.aside, strict=True) if aside or none]
    return {name: missing.get(name, "nobody was asked") for name in lone}


def _status(
    found: Found,
    sure: Certainty | None,
    apart: Apart,
    options: Grouping,
    unknown: Mapping[str, str],
    matrix: DistanceMatrix,
) -> str:
    told = np.flatnonzero(~apart.aside)
    nothing = len(unknown) == apart.size
    text = _verdict(found, apart.among(told), options, nothing)
    if unknown:
        few = sorted(unknown)[:3]
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        text += f"; what chance makes is not known of {', '.join(few)}{more}"
        joined = options.k == "auto" or options.k <= len(told)
        text += ": each is in the group nearest to it" if joined and not nothing else ""
    if sure is not None:
        text += f"; {sure.groups:.0%} of {options.resamples} resamples give as many"
    return text if matrix.converged else f"{text}; {matrix.status}"


def _verdict(found: Found, apart: Apart, options: Grouping, nothing: bool) -> str:
    """What was found, in words; ``nothing``: nothing is known of what chance makes."""
    beyond = "apart" if nothing else "further apart than chance"
    if options.k != "auto":
        text = f"{found.k} group(s), as asked"
        if found.k < options.k:
            text = f"{found.k} group(s), where {options.k} were asked for: the others are empty"
        if 1 < found.k < apart.size:
            text += f": mean silhouette {found.candidates[0].silhouette:.2f}"
        split = found.k > 1 and not found.candidates[0].apart
        return text + ("; not all of them are further apart than chance" if split else "")
    if found.k > 1:
        width = max(each.silhouette for each in found.candidates if each.k == found.k)
        return f"{found.k} groups, {beyond}: mean silhouette {width:.2f}"
    if not found.candidates:
        if apart.size == 2 and (apart.lower > apart.level).any():
            return f"no groups: two holders, {beyond}, are no grouping"
        open_ = bool((apart.values > apart.level).any())
        return "no groups: " + (
            "no distance is certified to be more than chance; a method with closer bounds may tell"
            if open_
            else "no distance is more than chance"
        )
    best = max(found.candidates, key=lambda each: each.silhouette)
    differ = "differ" if nothing else "differ by more than chance"
    return (
        f"no groups: holders {differ}, and no grouping parts them (best mean "
        f"silhouette {best.silhouette:.2f}, of {best.k} groups; {LEAST_SILHOUETTE:g} is needed)"
    )


__all__ = ["Clustering", "apart_of", "clustering_of"]
