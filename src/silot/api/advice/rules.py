"""Derive advice from results: one small function a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from ...render.words import count, listed, number, percent
from .case import ENDS, LEVEL, PART, Case, Gain, measure_gain
from .pool import Pool, Solved, Span, pull
from .result import NOT_COMPARABLE, UNIT, Advice, Evidence, Kind

_ORDER: tuple[Kind, ...] = ("nothing", "leave-out", "drop", "ask", "group", "pool")


def advise(case: Case) -> tuple[Advice, ...]:
    """Return all advice, sure pieces first, then those that sampling may have made."""
    pieces = [piece for rule in AS_THEY_ARE for piece in rule(case)]
    candidates, remainder = leave_out(case), case
    # Who is far off hides what others lack: it is left out before.
    while best := sorted((piece for piece in candidates if piece.sure), key=_rank)[:1]:
        pieces += best
        remainder = remainder.without(best[0].holders)
        candidates = leave_out(remainder)
    pieces += [*candidates, *drop(remainder)]
    # Broken records of who is left out are told too.
    pieces += [piece for piece in drop(case) if set(piece.holders) & set(remainder.excluded)]
    if not any(piece.sure for piece in pieces):
        pieces.append(_nothing(case))
    return tuple(sorted(pieces, key=_rank))


def _rank(piece: Advice) -> tuple[bool, bool, bool, float, int, tuple[str, ...], str]:
    order, gain = _ORDER.index(piece.kind), piece.gain or 0.0
    last, compared = piece.kind != "nothing", piece.gain is None
    return last, not piece.sure, compared, -gain, order, piece.holders, piece.text


def leave_out(case: Case) -> list[Advice]:
    """Advise on holders, or groups, without which the pool is nearer the validation records."""
    pool, total = case.pool, case.total
    sets = dict.fromkeys([*((name,) for name in pool.names), *case.groups])
    candidates = [names for names in sets if len(names) < len(pool.names)]
    pieces: list[Advice] = []
    for names in candidates:
        out = pool.of_holders(names)
        # A holder with broken records is no other one: those are dropped.
        first, level = pull(pool, total.own, out, case.flagged), PART / len(candidates)
        # By convexity nobody gains more than this: what sampling may have made is not tried.
        if first.p_value * len(candidates) > LEVEL:
            continue
        then = pool.solved(np.where(out, 0.0, pool.masses))
        gain = measure_gain(case, total, then, level)
        if gain.span.value <= 0:
            continue
        # Noise of releases is not in the error: a test must tell them from most others.
        inside = np.isin(pool.names, names)
        far = pool.certified or (
            case.separates(PART) and case.apart[np.ix_(inside, ~inside)].mean() > 0.5
        )
        who, margin = listed(names, 6), first.margin(0.025)
        pieces.append(
            _piece(
                case, "leave-out", names, gain, bool(far) and first.p_value <= level,
                f"Leave out {who}: the pool is {number(total.span.value)} from the validation "
                f"records, and {number(then.span.value)} without "
                f"{'it' if len(names) == 1 else 'them'}.",
                Evidence(
                    what=f"pull of {who} on the squared distance",
                    value=first.gain, lower=first.gain - margin, upper=first.gain + margin,
                    by=f"potentials against those of the others, 95 %; p = {first.p_value:.2g}",
                ),
            )
        )  # fmt: skip
    return pieces


def drop(case: Case) -> list[Advice]:
    """Advise on flagged records of a holder."""
    pool, total = case.pool, case.total
    pieces: list[Advice] = []
    for name, scores in sorted(case.records.items()):
        mine = pool.of_holders([name])
        out, size = mine & case.flagged, len(scores.flagged)
        flagged = int(out.sum())
        if not flagged:
            continue
        then, level = pool.solved(np.where(out, 0.0, pool.masses)), PART / len(case.records)
        # Faulty records are faulty whatever the validation records: those at hand are enough.
        gained_then = measure_gain(case, total, then)
        # Wrong labels hardly move a distance, and fewer records are further off by sampling: what
        # is broken is broken all the same.
        gain = gained_then if gained_then.span.value > 0 else None
        sides = (mine, mine & ~out)
        own, kept = (pool.distance(np.where(side, pool.masses, 0.0)) for side in sides)
        broken = scores.parts.broken["all"]
        p_value = _as_many(flagged, size, pool.validation, scores.fdr or 0.0)
        share = max(1.0 - kept.value / own.value, 0.0) if own.value > 0 else 0.0
        pieces.append(
            _piece(
                case, "drop", (name,), gain, p_value <= level,
                f"Drop {count(flagged, 'record')} of {name}'s {size:,}: flagged as faulty. "
                + (
                    f"They make {percent(share)} of its distance ({number(own.value)}, "
                    f"{number(kept.value)} without them)."
                    if share > 0
                    else "Its distance is no smaller without them: labels hardly move it."
                ),
                Evidence(
                    what=f"broken records of {name}", value=broken.value, lower=broken.low,
                    upper=broken.high,
                    by=f"record scores, 95 %; {flagged} flagged, of which {scores.fdr:.0%} may be "
                    f"sound; p of so many = {p_value:.2g}",
                ),
            )
        )  # fmt: skip
    return pieces


def ask(case: Case) -> list[Advice]:
    """Advise on classes of which the validation records have more than the pool."""
    pool = case.pool
    have, want = pool.shares()
    codes = np.flatnonzero(want > 0).tolist() if pool.classes else []
    pieces: list[Advice] = []
    for code in codes:
        p_value = _fewer(have[code], pool.size, want[code], pool.validation)
        if have[code] >= want[code] or p_value * len(codes) > LEVEL:
            continue
        # Shares are the matter here: those of the validation records are as they are.
        total, level = pool.solved(pool.masses, own_shares=True), PART / len(codes)
        then = _with_class(pool, code, have[code], want[code])
        # What lacks is as sure as that anything lacks.
        open_ = ENDS / -float(ndtri(p_value)) if p_value > 0 else 0.0
        lacking, kind = want[code] - have[code], pool.classes[code]
        holders, words, nearest = _from_whom(case, code)
        piece = _piece(
            case,
            "ask", holders, measure_gain(case, total, then, level),
            pool.certified and p_value <= level,
            f"Ask for more of class {kind!r}: it is {percent(want[code])} of the validation "
            f"records and {percent(have[code])} of the pool. "
            f"{_more(have[code], want[code], sum(pool.records.values()))} {words}",
            Evidence(
                what=f"share of class {kind!r} that the pool lacks",
                value=lacking, lower=lacking * (1.0 - open_), upper=min(lacking * (1 + open_), 1.0),
                by=f"class shares, Fisher's exact test; p = {p_value:.2g}",
            ),
            *nearest,
        )  # fmt: skip
        pieces.append(piece)
    return pieces


def group(case: Case) -> list[Advice]:
    """Advise on groups of holders that a test tells apart."""
    matrix, names = case.matrix, case.pool.names
    if matrix is None or len(case.groups) < 2:
        return []
    across = [(a, b) for x, y in combinations(case.groups, 2) for a in x for b in y]
    least = min((matrix[pair] for pair in across), key=lambda distance: distance.value)
    words = "; ".join(listed(members, 6) for members in case.groups)
    text = f"Train apart, in {len(case.groups)} groups: {words}. A test tells their data apart."
    evidence = Evidence(
        what=f"least distance across groups, {' and '.join(sorted(least.holders))}",
        value=least.value, lower=least.lower, upper=least.upper,
        by=f"W2 by {matrix.method}{_test(case)}",
    )  # fmt: skip
    return [_piece(case, "group", names, None, case.separates(PART), text, evidence)]


def pool(case: Case) -> list[Advice]:
    """Advise on holders that cannot be told apart."""
    matrix, together = case.matrix, case.pool
    if matrix is None:
        return []
    pieces: list[Advice] = []
    for members in case.groups:
        pairs = list(combinations(members, 2))
        if not pairs:
            continue
        joint, alone = _of(together, members), _alone(together, members)
        gain = alone.less(joint)
        widest = max((matrix[pair] for pair in pairs), key=lambda distance: distance.value)
        pieces.append(
            Advice(
                kind="pool", holders=members,
                text=f"Pool {listed(members, 6)}: no test tells them apart. "
                f"Together they are {number(joint.value)} from the validation records, alone "
                f"{number(alone.value)} on average.",
                gain=gain.value, lower=gain.lower, upper=gain.upper, unit=UNIT, sure=False,
                evidence=(
                    Evidence(
                        what=f"largest distance among them, {' and '.join(sorted(widest.holders))}",
                        value=widest.value, lower=widest.lower, upper=widest.upper,
                        by=f"W2 by {matrix.method}{_test(case)}",
                    ),
                    case.evidence("of these", joint), case.evidence("of each alone", alone),
                ),
            )
        )  # fmt: skip
    return pieces


def _piece(
    case: Case, kind: Kind, holders: tuple[str, ...], gain: Gain | None, exceeds: bool, text: str,
    *first: Evidence,
) -> Advice:  # fmt: skip
    """Build a piece: sure where its test ``exceeds`` its level and any gain of it does."""
    if case.excluded:
        text += f" Counted without {listed(case.excluded, 6)}."
    span = None if gain is None else gain.span
    return Advice(
        kind=kind, holders=holders, text=text, sure=exceeds and (gain is None or gain.sure),
        gain=span and span.value, lower=span and span.lower, upper=span and span.upper,
        unit=NOT_COMPARABLE if span is None else UNIT,
        evidence=first if gain is None else (*first, *gain.evidence),
    )  # fmt: skip


AS_THEY_ARE: Sequence[Callable[[Case], list[Advice]]] = (ask, group, pool)
"""Of all holders; what others say may follow on who is left out."""


def _nothing(case: Case) -> Advice:
    names = case.pool.names
    text = (
        f"Nothing helps for sure: use the records of {listed(names, 6)} as they are. No advice "
        "exceeds what sampling makes."
    )
    evidence = case.evidence("of the pool", case.total.span)
    return _piece(case, "nothing", names, None, False, text, evidence)


def _of(pool: Pool, names: Sequence[str]) -> Span:
    return pool.distance(np.where(pool.of_holders(names), pool.masses, 0.0))


def _alone(pool: Pool, names: Sequence[str]) -> Span:
    """Compute the root mean square of holders by themselves, which pooling never exceeds."""
    distances = np.array([_of(pool, [name]) for name in names])
    shares = np.array([pool.records[name] for name in names])
    return Span(*np.sqrt(shares @ distances**2 / shares.sum()).tolist())


def _test(case: Case) -> str:
    """Say what the test of all holders gave."""
    verdict = None if case.clustering is None else case.clustering.verdict
    return "" if verdict is None else f"; test of all holders, p = {verdict.p_value:.3g}"


def _fewer(have: float, size: float, want: float, other: float) -> float:
    """Compute the p-value that a sample has so few records of a class (Fisher's test)."""
    n, m = round(size), round(other)
    mine, theirs = round(have * n), round(want * m)
    from scipy.stats import hypergeom  # half a second, that only advice needs

    return float(hypergeom.cdf(mine, n + m, mine + theirs, n))


def _as_many(flagged: int, size: int, validation: float, fdr: float) -> float:
    """Compute the p-value of so many flagged records, were they like validation records.

    Flags are where at most so many validation records score as high as the level allows.
    """
    other = round(validation)
    theirs = min(int(fdr * flagged * other / size), other)
    from scipy.stats import hypergeom

    return float(hypergeom.sf(flagged - 1, size + other, flagged + theirs, size))


def _with_class(pool: Pool, code: int, have: float, want: float) -> Solved:
    """Solve for the pool with the validation records' share of a class."""
    ours = pool.codes == code
    others = pool.masses * ((1.0 - want) / max(1.0 - have, 1e-300))
    if have > 0:
        return pool.solved(np.where(ours, pool.masses * (want / have), others), own_shares=True)
    # Nobody has it: records like the validation's own are the best there can be.
    return pool.solved(
        others, np.where(pool.targets == code, pool.target_weights, 0.0), own_shares=True
    )


def _more(have: float, want: float, size: float) -> str:
    if want >= 1.0 - 1e-9:
        return "The validation records have no other class."
    needed = (want - have) * size / (1.0 - want)
    return f"About {needed:,.0f} more would make them even."


def _from_whom(case: Case, code: int) -> tuple[tuple[str, ...], str, tuple[Evidence, ...]]:
    """Find the holder whose records of a class are nearest the validation's."""
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
