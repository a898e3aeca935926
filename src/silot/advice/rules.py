"""Advice from composed results: one small function a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import hypergeom

from ..learning.chance import chance_levels
from ..learning.clustering import Clustering, apart_of
from ..records.result import RecordScores
from ..render.words import count, listed, number, percent
from ..transport.chance import Chance
from .pool import Flags, Pool, Solved, Span, pull
from .result import NOT_COMPARABLE, OTHERS, UNIT, Advice, Evidence, Kind

LEVEL = 0.05
"""Chance that any piece is sure, where all records are of one law."""
# Kinds that can be sure: each has its part of the level.
_KINDS = 4
PART = LEVEL / _KINDS
# Ends of an interval of 95 %, in standard deviations.
_ENDS = 1.96
MOST_FLAGGED = 0.5
"""Share of flagged records beyond which a holder differs as a whole."""

_ORDER: tuple[Kind, ...] = ("nothing", "leave-out", "drop", "ask", "group", "pool")


@dataclass(frozen=True, eq=False)
class Case:
    """What other wings told, for advice.

    Attributes
    ----------
    pool
        All records, and how far they are from the validation records.
    clustering
        Distances between holders and groups of them; ``None`` of one holder.
    laws
        By holder, what two samples of its law show.
    records
        By holder, the scores of its records.
    """

    pool: Pool
    clustering: Clustering | None
    laws: Mapping[str, Chance] = field(repr=False)
    records: Mapping[str, RecordScores] = field(repr=False)

    @cached_property
    def whole(self) -> Solved:
        """From all records to the validation records."""
        return self.pool.solved(self.pool.masses)

    @property
    def by(self) -> str:
        """What distances of the pool were measured by."""
        return "exact W2, certified bounds" if self.pool.certified else "W2 of releases, estimated"

    def apart(self, level: float) -> Flags:
        """Pairs of holders that are certified to be further apart than chance makes (N, N)."""
        if self.clustering is None:
            return np.zeros((1, 1), dtype=bool)
        levels = chance_levels(self.pool.names, self.laws, self.clustering.matrix, level)
        lower = apart_of(self.clustering.matrix, levels).lower
        place = [self.clustering.matrix.names.index(name) for name in self.pool.names]
        return self.told & (lower[np.ix_(place, place)] > levels.level)

    @cached_property
    def told(self) -> Flags:
        """Pairs of holders of which both tell what chance makes: few records do not (N, N)."""
        told = np.isin(self.pool.names, list(self.laws))
        return np.outer(told, told)

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of holders; else whoever is linked by distances that may be chance."""
        if self.clustering is None:
            return (self.pool.names,)
        if self.clustering.k > 1:
            return self.clustering.groups
        linked, groups = ~self.apart(LEVEL), []
        left = list(range(len(self.pool.names)))
        while left:
            group = {left[0]}
            while (more := {j for i in group for j in left if linked[i, j]}) - group:
                group |= more
            left = [j for j in left if j not in group]
            groups.append(tuple(self.pool.names[j] for j in sorted(group)))
        return tuple(groups)

    @cached_property
    def flagged(self) -> Flags:
        """Records that are flagged, of holders that do not differ as a whole (n,)."""
        found = np.zeros(len(self.pool.masses), dtype=bool)
        for name, scores in self.records.items():
            if scores.flagged.mean() <= MOST_FLAGGED:
                found[self.pool.of_holders([name])] = scores.flagged
        return found

    def evidence(self, what: str, span: Span) -> Evidence:
        """A distance to the validation records, as evidence."""
        return Evidence(
            what=f"distance {what} to the validation records", value=span.value, lower=span.lower,
            upper=span.upper, by=self.by,
        )  # fmt: skip


class Gain(NamedTuple):
    """What is gained where the pool becomes another one, and what speaks for it."""

    span: Span
    sure: bool
    evidence: tuple[Evidence, ...]


def gained(case: Case, first: Solved, then: Solved, level: float | None = None) -> Gain:
    """What another pool gains, and whether other validation records would, at a ``level``."""
    luck, gain = case.pool.luck(first, then), first.span.less(then.span)
    if not case.pool.certified:
        gain = Span(gain.value, gain.value - _ENDS * luck, gain.value + _ENDS * luck)
    told = (
        Evidence(
            what=OTHERS, value=gain.value,
            lower=gain.value - _ENDS * luck, upper=gain.value + _ENDS * luck,
            by="potentials, 95 %",
        ),
        case.evidence("of the pool", first.span), case.evidence("then", then.span),
    )  # fmt: skip
    sure = gain.lower > 0 and (level is None or gain.value + float(ndtri(level)) * luck > 0)
    return Gain(gain, sure, told)


def advise(case: Case) -> tuple[Advice, ...]:
    """All pieces of advice, the most helpful first: sure ones, then those that may be chance."""
    pieces = [piece for rule in RULES for piece in rule(case)]
    if not any(piece.sure for piece in pieces):
        pieces.append(_nothing(case))
    return tuple(sorted(pieces, key=_rank))


def _rank(piece: Advice) -> tuple[bool, bool, bool, float, int, tuple[str, ...], str]:
    order, gain = _ORDER.index(piece.kind), piece.gain or 0.0
    last, compared = piece.kind != "nothing", piece.gain is None
    return last, not piece.sure, compared, -gain, order, piece.holders, piece.text


def leave_out(case: Case) -> list[Advice]:
    """Holders, or groups, without which the pool is nearer the validation records."""
    pool, whole = case.pool, case.whole
    sets = dict.fromkeys([*((name,) for name in pool.names), *case.groups])
    candidates = [names for names in sets if len(names) < len(pool.names)]
    certified = case.apart(PART)
    found: list[Advice] = []
    for names in candidates:
        out = pool.of_holders(names)
        # A holder with broken records is no other one: those are dropped.
        first, level = pull(pool, whole.own, out, case.flagged), PART / len(candidates)
        # By convexity nobody gains more than this: what may be chance is not tried.
        if first.chance * len(candidates) > LEVEL:
            continue
        then = pool.solved(np.where(out, 0.0, pool.masses))
        gain = gained(case, whole, then, level)
        if gain.span.value <= 0:
            continue
        # Noise of releases is not in the error: they must be certified apart from most others.
        inside = np.isin(pool.names, names)
        far = pool.certified or certified[np.ix_(inside, ~inside)].mean() > 0.5
        who, margin = listed(names, 6), first.margin(0.025)
        found.append(
            _piece(
                "leave-out", names, gain, bool(far) and first.chance <= level,
                f"Leave out {who}: the pool is {number(whole.span.value)} from the validation "
                f"records, and {number(then.span.value)} without "
                f"{'it' if len(names) == 1 else 'them'}.",
                Evidence(
                    what=f"pull of {who} on the squared distance",
                    value=first.gain, lower=first.gain - margin, upper=first.gain + margin,
                    by=f"potentials against those of the others, 95 %; chance {first.chance:.2g}",
                ),
            )
        )  # fmt: skip
    return found


def drop(case: Case) -> list[Advice]:
    """Flagged records of a holder."""
    pool, whole = case.pool, case.whole
    found: list[Advice] = []
    for name, scores in sorted(case.records.items()):
        mine = pool.of_holders([name])
        out, size = mine & case.flagged, len(scores.flagged)
        flagged = int(out.sum())
        if not flagged:
            continue
        then, level = pool.solved(np.where(out, 0.0, pool.masses)), PART / len(case.records)
        # Broken records are broken whatever the validation records: those at hand are enough.
        gain = gained(case, whole, then)
        if gain.span.value <= 0:
            continue
        sides = (mine, mine & ~out)
        own, kept = (pool.distance(np.where(side, pool.masses, 0.0)) for side in sides)
        broken = scores.parts.broken["all"]
        # The interval of 95 %, as wide as the level wants it.
        wider = -float(ndtri(level)) / _ENDS
        least = broken.value - wider * (broken.value - broken.low)
        made = max(1.0 - kept.value / own.value, 0.0) if own.value > 0 else 0.0
        found.append(
            _piece(
                "drop", (name,), gain, broken.low > 0 and least > 0,
                f"Drop {count(flagged, 'record')} of {name}'s {size:,}: flagged as broken. They "
                f"make {percent(made)} of its distance ({number(own.value)}, "
                f"{number(kept.value)} without them).",
                Evidence(
                    what=f"broken records of {name}", value=broken.value, lower=broken.low,
                    upper=broken.high,
                    by=f"record scores, 95 %; {flagged} flagged, of which {scores.fdr:.0%} may be "
                    "sound",
                ),
            )
        )  # fmt: skip
    return found


def ask(case: Case) -> list[Advice]:
    """Classes of which the validation records have more than the pool."""
    pool = case.pool
    have, want = pool.shares()
    known = np.flatnonzero(want > 0).tolist() if pool.classes else []
    found: list[Advice] = []
    for code in known:
        chance = _fewer(have[code], pool.size, want[code], pool.validation)
        if have[code] >= want[code] or chance * len(known) > LEVEL:
            continue
        # Shares are the matter here: those of the validation records are as they are.
        whole, level = pool.solved(pool.masses, told=True), PART / len(known)
        then = _with_class(pool, code, have[code], want[code])
        # What lacks is as sure as that anything lacks.
        open_ = _ENDS / -float(ndtri(chance)) if chance > 0 else 0.0
        lacking, kind = want[code] - have[code], pool.classes[code]
        holders, words, nearest = _from_whom(case, code)
        piece = _piece(
            "ask", holders, gained(case, whole, then, level), pool.certified and chance <= level,
            f"Ask for more of class {kind!r}: it is {percent(want[code])} of the validation "
            f"records and {percent(have[code])} of the pool. "
            f"{_more(have[code], want[code], sum(pool.records.values()))} {words}",
            Evidence(
                what=f"share of class {kind!r} that the pool lacks",
                value=lacking, lower=lacking * (1.0 - open_), upper=min(lacking * (1 + open_), 1.0),
                by=f"class shares, Fisher's exact test; chance {chance:.2g}",
            ),
            *nearest,
        )  # fmt: skip
        found.append(piece)
    return found


def group(case: Case) -> list[Advice]:
    """Groups of holders that are certified to be further apart than chance makes."""
    if case.clustering is None or len(case.groups) < 2:
        return []
    names, matrix = case.pool.names, case.clustering.matrix
    sides = [np.isin(names, members) for members in case.groups]
    certified = case.apart(PART)
    sure = all(certified[np.ix_(a, b)].mean() > 0.5 for a, b in combinations(sides, 2))
    across = [(a, b) for x, y in combinations(case.groups, 2) for a in x for b in y]
    least = min((matrix[pair] for pair in across), key=lambda each: each.value)
    words = "; ".join(listed(members, 6) for members in case.groups)
    return [
        Advice(
            kind="group", holders=names,
            text=f"Train apart, in {len(case.groups)} groups: {words}. Their data are further "
            "apart than chance makes.",
            gain=None, lower=None, upper=None, unit=NOT_COMPARABLE, sure=sure,
            evidence=(
                Evidence(
                    what=f"least distance across groups, {' and '.join(sorted(least.holders))}",
                    value=least.value, lower=least.lower, upper=least.upper,
                    by=f"W2 by {matrix.method}{_by_chance(case, across)}",
                ),
            ),
        )
    ]  # fmt: skip


def pool(case: Case) -> list[Advice]:
    """Holders that are of one law as far as anybody can tell."""
    if case.clustering is None:
        return []
    names, matrix, together = case.pool.names, case.clustering.matrix, case.pool
    certified = case.apart(LEVEL)
    found: list[Advice] = []
    for members in case.groups:
        inside = np.isin(names, members)
        pairs = list(combinations(members, 2))
        known = case.told[np.ix_(inside, inside)].all()
        if not pairs or not known or certified[np.ix_(inside, inside)].any():
            continue
        joint, alone = _of(together, members), _alone(together, members)
        gain = alone.less(joint)
        widest = max((matrix[pair] for pair in pairs), key=lambda each: each.value)
        found.append(
            Advice(
                kind="pool", holders=members,
                text=f"Pool {listed(members, 6)}: as far as anybody can tell they are of one law. "
                f"Together they are {number(joint.value)} from the validation records, alone "
                f"{number(alone.value)} on average.",
                gain=gain.value, lower=gain.lower, upper=gain.upper, unit=UNIT, sure=False,
                evidence=(
                    Evidence(
                        what=f"largest distance among them, {' and '.join(sorted(widest.holders))}",
                        value=widest.value, lower=widest.lower, upper=widest.upper,
                        by=f"W2 by {matrix.method}{_by_chance(case, pairs)}",
                    ),
                    case.evidence("of these", joint), case.evidence("of each alone", alone),
                ),
            )
        )  # fmt: skip
    return found


def _piece(
    kind: Kind, holders: tuple[str, ...], gain: Gain, exceeds: bool, text: str, *first: Evidence
) -> Advice:
    """A piece with a gain: sure where that is, and the test of its kind ``exceeds`` chance."""
    return Advice(
        kind=kind, holders=holders, text=text, gain=gain.span.value, lower=gain.span.lower,
        upper=gain.span.upper, unit=UNIT, sure=exceeds and gain.sure,
        evidence=(*first, *gain.evidence),
    )  # fmt: skip


RULES: Sequence[Callable[[Case], list[Advice]]] = (leave_out, drop, ask, group, pool)


def _nothing(case: Case) -> Advice:
    names = case.pool.names
    return Advice(
        kind="nothing", holders=names,
        text=f"Nothing helps for sure: use the records of {listed(names, 6)} as they are. "
        "No advice exceeds what chance makes.",
        gain=None, lower=None, upper=None, unit=NOT_COMPARABLE, sure=False,
        evidence=(case.evidence("of the pool", case.whole.span),),
    )  # fmt: skip


def _of(pool: Pool, names: Sequence[str]) -> Span:
    return pool.distance(np.where(pool.of_holders(names), pool.masses, 0.0))


def _alone(pool: Pool, names: Sequence[str]) -> Span:
    """Each by itself: the root of the mean square, which pooling never exceeds."""
    each = np.array([_of(pool, [name]) for name in names])
    shares = np.array([pool.records[name] for name in names])
    return Span(*np.sqrt(shares @ each**2 / shares.sum()).tolist())


def _by_chance(case: Case, pairs: Sequence[tuple[str, str]]) -> str:
    """What the distances of these pairs stay below by chance."""
    levels = {} if case.clustering is None else case.clustering.levels
    told = [levels[key] for a, b in pairs for key in ((a, b), (b, a)) if key in levels]
    return f"; by chance up to {number(max(told))}" if told else "; what chance makes is not known"


def _fewer(have: float, size: float, want: float, other: float) -> float:
    """Chance that of two samples of one law the first has so few of a class (Fisher's test)."""
    n, m = round(size), round(other)
    mine, theirs = round(have * n), round(want * m)
    return float(hypergeom.cdf(mine, n + m, mine + theirs, n))


def _with_class(pool: Pool, code: int, have: float, want: float) -> Solved:
    """The pool with as much of a class as the validation records have, the others in proportion."""
    ours = pool.codes == code
    others = pool.masses * ((1.0 - want) / max(1.0 - have, 1e-300))
    if have > 0:
        return pool.solved(np.where(ours, pool.masses * (want / have), others), told=True)
    # Nobody has it: records like the validation's own are the best there can be.
    return pool.solved(others, np.where(pool.targets == code, pool.told, 0.0), told=True)


def _more(have: float, want: float, size: float) -> str:
    if want >= 1.0:
        return "The validation records have no other class."
    needed = (want - have) * size / (1.0 - want)
    return f"About {needed:,.0f} more would make them even."


def _from_whom(case: Case, code: int) -> tuple[tuple[str, ...], str, tuple[Evidence, ...]]:
    """The holder whose records of a class are nearest the validation's."""
    pool = case.pool
    ours = (pool.codes == code) & (pool.masses > 0)
    holders = [name for name in pool.names if (pool.of_holders([name]) & ours).any()]
    if not holders:
        words = "Nobody has any: the gain is that of records like the validation's own."
        return (), words, ()
    near = {name: pool.of_class(name, code) for name in holders}
    best = min(holders, key=lambda name: near[name].value)
    text = f"{best}'s are nearest the validation's ({number(near[best].value)})."
    return (best,), text, (case.evidence(f"of {best}'s records of the class", near[best]),)


__all__ = ["LEVEL", "MOST_FLAGGED", "RULES", "Case", "advise"]
