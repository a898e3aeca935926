"""Groups of holders from the distances between them, and how far apart chance puts holders."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from silot_transport.chance import Chance

from ...distances.methods import Comparing, Joint
from ...distances.questions import OWN_SPLITS, OwnChance
from ...distances.result import DistanceMatrix
from ...errors import InputError, WireError
from ...federation.answer import WAITING, Answer, Failure
from ...federation.disclosure import Disclosure
from ...federation.protocol import Protocol, Steps, failure_error
from ...federation.question import Answerer
from ...federation.result import Bill, Billed, Preflighted, in_doubt
from .groups import (
    LEAST_SILHOUETTE,
    Apart,
    Candidate,
    Certainty,
    Grouped,
    Grouping,
    certainty,
    find_groups,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...data.preflight import Preflight


Array = npt.NDArray[np.float64]

LEVEL = 0.05
"""Chance that any distance is above its level, where all holders have one law."""


@dataclass(frozen=True, kw_only=True)
class Chances(Billed):
    """What two samples of each holder's own law show."""

    laws: Mapping[str, Chance] = field(repr=False)
    """By holder that told it."""
    missing: Mapping[str, str]
    """By holder that told nothing, why: a code, or ``"records-few"``."""
    status: str
    """How many told it."""

    def to_dict(self) -> dict[str, Any]:
        laws = {name: vars(law) for name, law in self.laws.items()}
        return {
            "laws": laws,
            "missing": dict(self.missing),
            "status": self.status,
            **self._bill_dict(),
        }


class OwnChances(Comparing, Joint[Chances]):
    """Ask every holder how far apart two samples of its own law are, at its size.

    Returns
    -------
    Protocol[Chances]
        Discloses three numbers of every holder that tells them; who refuses is left out.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": np.random.default_rng(0).normal(size=(40, 2))})
    >>> 0.2 < fed.run(OwnChances().among(["a"])).laws["a"].mean < 0.8
    True
    """

    name = "own-chances"
    disclosure: ClassVar[Disclosure] = Disclosure.STATISTICS

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Chances]:
        names = tuple(holders)
        return Protocol(
            self.name, names, self.disclosure, lambda: self._steps(names),
            self.values("p", "embedding"),
        )  # fmt: skip

    def _steps(self, names: tuple[str, ...]) -> Steps[Chances]:
        answers = yield dict.fromkeys(names, OwnChance(p=self.p, embedding=self.embedding))
        laws: dict[str, Chance] = {}
        missing: dict[str, str] = {}
        for name in names:
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                if answer.kind == WAITING:
                    # Whoever decides later is asked again: the run goes on then.
                    raise failure_error(name, answer)
                missing[name] = answer.code
            elif "mean" in answer.scalars:
                laws[name] = _law(answer)
            else:
                missing[name] = "records-few"
        status = f"told by {len(laws)} of {len(names)} holders"
        return Chances(laws=laws, missing=missing, status=status)


def _law(answer: Answer) -> Chance:
    mean, spread, error = numbers = [answer.number(name) for name in ("mean", "spread", "error")]
    if not (np.isfinite(numbers).all() and min(numbers) >= 0):
        raise WireError(
            "the answer has numbers that are no distances. The holder runs other code, or a "
            "broken one.",
            code="answer-malformed",
        )
    return Chance(mean, spread, error, OWN_SPLITS - 1)


@dataclass(frozen=True, eq=False)
class ChanceLevels:
    """What distances of pairs are by chance, where their holders have one law, (N, N)."""

    level: Array = field(repr=False)  # what 95 % of matrices stay below, 0 where not known
    spread: Array = field(repr=False)  # standard deviation of such a distance
    has_level: npt.NDArray[np.bool_] = field(repr=False)  # whether the level is known

    @property
    def aside(self) -> npt.NDArray[np.bool_]:
        """Holders without whom all is known of the others (N,); none where nothing is of any."""
        aside = np.zeros(len(self.has_level), dtype=bool)
        if not self.has_level[np.triu_indices(len(aside), 1)].any():
            return aside
        while (lone := (~self.has_level & ~aside & ~aside[:, None]).sum(axis=0)).any():
            aside[int(lone.argmax())] = True
        return aside


def chance_levels(
    names: Sequence[str],
    laws: Mapping[str, Chance],
    matrix: DistanceMatrix,
    level: float = LEVEL,
) -> ChanceLevels:
    r"""Chance levels of pairs, from what two samples of each holder's law show.

    .. math::
        c_{ij} = m_{ij} + 2 e_{ij} + t_{1 - 0.05 / P} \, s_{ij}, \qquad
        m_{ij}^p = (m_i^p + m_j^p) / 2

    and likewise for the spread s and the error e: what a sample adds to ``W_p^p`` adds up over the
    two sides. P is the number of pairs, t the quantile of Student's law. Of a pair that did not
    both tell, only its own ``Distance.chance`` says anything: the law of one holder at its size
    says little of another size. ``level`` is used in place of 0.05.
    """
    size, p = len(names), matrix.p
    pairs = size * (size - 1) // 2
    levels, spread = np.zeros((size, size)), np.zeros((size, size))
    has_level = np.eye(size) > 0
    for i, j in combinations(range(size), 2):
        sides = [laws[name] for name in (names[i], names[j]) if name in laws]
        own = matrix[names[i], names[j]].chance
        if len(sides) == 2:
            mean, far, error = (
                float(np.mean([getattr(side, part) ** p for side in sides]) ** (1.0 / p))
                for part in ("mean", "spread", "error")
            )
            freedom = min(side.freedom for side in sides)
            levels[i, j] = mean + 2.0 * error + float(stdtrit(freedom, 1.0 - level / pairs)) * far
            spread[i, j] = far
        elif own is not None:
            levels[i, j] = own
        has_level[i, j] = len(sides) == 2 or own is not None
    upper = np.triu_indices(size, 1)
    for part in (levels, spread, has_level):
        part.T[upper] = part[upper]
    return ChanceLevels(levels, spread, has_level)


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
    requested
        How many were requested, or ``"auto"``.
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
    requested: int | Literal["auto"]
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
        widths = [item.silhouette for item in self.candidates if item.k == self.k]
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
        return finest(self.matrix, *([] if self.chances is None else [self.chances]))

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
        return {
            "names": list(self.names),
            "assignment": dict(self.assignment),
            "groups": [list(group) for group in self.groups],
            "k": self.k,
            "asked": self.requested,
            "affinity": self.affinity,
            "silhouette": self.silhouette,
            "candidates": [vars(item) for item in self.candidates],
            "agreement": self.agreement,
            "stability": dict(self.stability),
            "levels": [[*pair, level] for pair, level in self.levels.items()],
            "unknown": dict(self.unknown),
            "status": self.status,
            "converged": self.converged,
            "seed": self.seed,
            "resamples": self.resamples,
            **vars(self.bill),
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


def finest(*runs: Clustering | Billed | DistanceMatrix) -> str:
    """Name the most detailed level that any of some runs disclosed; empty where none did."""
    levels = [Disclosure[run.disclosure.upper()] for run in runs if run.disclosure]
    return str(max(levels)) if levels else ""


def clustering_of(
    matrix: DistanceMatrix,
    options: Grouping,
    laws: Mapping[str, Chance] | None = None,
    chances: Chances | None = None,
) -> Clustering:
    """Group the holders of a matrix of distances.

    ``laws`` are what two samples of each holder's law show, where that is known, and ``chances``
    is the run that asked for them.

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
    grouped = find_groups(apart, apart.values, apart.lower, options)
    sure = certainty(apart, grouped, options)
    codes = dict(zip(names, grouped.codes.tolist(), strict=True))
    stays = {} if sure is None else dict(zip(names, sure.holders.tolist(), strict=True))
    unknown = _unknown(names, levels, {} if chances is None else chances.missing)
    return Clustering(
        names=matrix.names,
        assignment={name: codes[name] for name in matrix.names},
        k=grouped.k,
        requested=options.k,
        affinity=options.affinity,
        candidates=grouped.candidates,
        agreement=None if sure is None else sure.groups,
        stability={name: stays[name] for name in matrix.names} if stays else {},
        levels={
            (names[i], names[j]): float(levels.level[i, j])
            for i, j in combinations(range(len(names)), 2)
            if levels.has_level[i, j]
        },
        unknown=unknown,
        status=in_doubt(_status(grouped, sure, apart, options, unknown, matrix), matrix.preflight),
        seed=options.seed,
        resamples=options.resamples,
        matrix=matrix,
        chances=chances,
    )


def _check_complete(matrix: DistanceMatrix) -> None:
    for a, b in combinations(matrix.names, 2):
        is_measured = (a, b) in matrix.pairs or (b, a) in matrix.pairs
        if not is_measured or not 0 <= matrix[a, b].value < math.inf:
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
    none = not levels.has_level[np.triu_indices(len(names), 1)].any()
    lone = [name for name, aside in zip(names, levels.aside, strict=True) if aside or none]
    return {name: missing.get(name, "nobody was asked") for name in lone}


def _status(
    grouped: Grouped,
    sure: Certainty | None,
    apart: Apart,
    options: Grouping,
    unknown: Mapping[str, str],
    matrix: DistanceMatrix,
) -> str:
    kept = np.flatnonzero(~apart.aside)
    nothing = len(unknown) == apart.size
    text = _verdict(grouped, apart.among(kept), options, nothing)
    if unknown:
        few = sorted(unknown)[:3]
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        text += f"; what chance makes is not known of {', '.join(few)}{more}"
        joined = options.k == "auto" or options.k <= len(kept)
        text += ": each is in the group nearest to it" if joined and not nothing else ""
    if sure is not None:
        text += f"; {sure.groups:.0%} of {options.resamples} resamples give as many"
    return text if matrix.converged else f"{text}; {matrix.status}"


def _verdict(grouped: Grouped, apart: Apart, options: Grouping, nothing: bool) -> str:
    """Say which groups there are; ``nothing``: no level of sampling noise is known."""
    beyond = "apart" if nothing else "further apart than chance"
    if options.k != "auto":
        text = f"{grouped.k} group(s), as asked"
        if grouped.k < options.k:
            text = f"{grouped.k} group(s), where {options.k} were asked for: the others are empty"
        if 1 < grouped.k < apart.size:
            text += f": mean silhouette {grouped.candidates[0].silhouette:.2f}"
        split = grouped.k > 1 and not grouped.candidates[0].apart
        return text + ("; not all of them are further apart than chance" if split else "")
    if grouped.k > 1:
        width = max(item.silhouette for item in grouped.candidates if item.k == grouped.k)
        return f"{grouped.k} groups, {beyond}: mean silhouette {width:.2f}"
    if not grouped.candidates:
        if apart.size == 2 and (apart.lower > apart.level).any():
            return f"no groups: two holders, {beyond}, are no grouping"
        open_ = bool((apart.values > apart.level).any())
        return "no groups: " + (
            "no distance is certified to be more than chance; a method with closer bounds may tell"
            if open_
            else "no distance is more than chance"
        )
    best = max(grouped.candidates, key=lambda item: item.silhouette)
    differ = "differ" if nothing else "differ by more than chance"
    return (
        f"no groups: holders {differ}, and no grouping parts them (best mean "
        f"silhouette {best.silhouette:.2f}, of {best.k} groups; {LEAST_SILHOUETTE:g} is needed)"
    )
