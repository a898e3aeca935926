"""What a holder of FedWaD can find out about the other side: every new reference is a merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evidence.attacks.cover import distinct_rows
from silot.audits.case import Case, Exchange, sent_interpolants
from silot.audits.inversion import (
    NO_PARAMETER,
    Array,
    Guess,
    InapplicableError,
    Interpolant,
    barycentric_image,
    direct_inversion,
    normalized,
)
from silot.audits.parameter import solved_by_mean
from silot.audits.time_limit import check_time
from silot.distances.questions import DistanceTo, Interpolate
from silot_transport import interpolate

Side = tuple[Array, Array]
"""Atoms (k, d) and their weights (k,)."""

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_T_RANGE = (0.01, 0.99)


def undone_merges(case: Case) -> Guess:
    """Take the own interpolant out of the next reference; what is left is the other side's.

    The parameter of the merge follows from that of the round: both are steps of one sequence.
    """
    if case.view.is_central or case.view.protocol != "fedwad":
        raise InapplicableError("no merge of an own interpolant with another party's was seen")
    if len(case.view.holders) > 1 and case.target not in case.view.holders:
        raise InapplicableError("the coordinator took no part with records of its own")
    found = [one for party in case.view.parties for one in _other_sides(case, party)]
    if not found:
        raise InapplicableError("no merge could be undone")
    return _lasting(found)


def _other_sides(case: Case, party: str) -> Iterator[Interpolant]:
    """The other side's interpolants of all rounds, from what one party saw."""
    seen = case.view.about(party)
    mine = [item for item in seen if type(item.question) is Interpolate and item.answer is not None]
    # The last iterate comes with the question for the distance to it.
    references = {
        item.round: item.question
        for item in reversed(seen)
        if isinstance(item.question, DistanceTo | Interpolate)
    }
    ts = _parameters(case, party, mine)
    for k, item in enumerate(mine):
        merged = references.get(item.round + 1)
        if merged is not None:
            check_time()
            yield from _other_side(item, merged, ts[k], merge_parameter(ts, k))


def _parameters(case: Case, party: str, mine: Sequence[Exchange]) -> list[float]:
    """Parameters of the own answers; found from them where they count as not seen."""
    if not case.hide_t:
        return [item.question.t for item in mine if isinstance(item.question, Interpolate)]
    moments = case.view.moments(party)
    mean = None if moments is None else moments[0]
    own = [replace(one, t=None) for item in mine for one in sent_interpolants(item, mean)]
    ts = [one.t for one in solved_by_mean(own) if one.t is not None]
    if not ts or len(ts) != len(mine):
        raise InapplicableError(f"{NO_PARAMETER}, and own answers do not tell it")
    return ts


def merge_parameter(ts: Sequence[float], k: int) -> float:
    """Parameter with which the coordinator merged the answers of round k."""
    if len(ts) > 1 and max(ts) - min(ts) < 1e-12:
        return ts[k]
    free = [j for j, t in enumerate(ts) if _T_RANGE[0] + 1e-6 < t < _T_RANGE[1] - 1e-6]
    if not free:
        return ts[k]
    nearest = min(free, key=lambda j: abs(j - k))
    place = 2.0 / np.pi * np.arcsin(np.sqrt(ts[nearest]))
    # Two steps a round: one for the holders, one for the merge.
    place = (place + (2 * (k - nearest) + 1) * _GOLDEN) % 1.0
    return float(np.clip(np.sin(0.5 * np.pi * place) ** 2, *_T_RANGE))


def _other_side(
    item: Exchange, merge: DistanceTo | Interpolate, t: float, s: float
) -> Iterator[Interpolant]:
    """The other side's interpolant of one round, whichever side was named first.

    The reference of ``merge`` is what the coordinator made of both.
    """
    (mine,) = sent_interpolants(item, None)
    assert item.answer is not None
    own = item.answer.array("atoms", ndim=2), item.answer.array("weights", ndim=1)
    used = merge.reference_weights > 0
    merged, weights = merge.reference[used], normalized(merge.reference_weights[used])
    image = barycentric_image(merged, own[0], weights, own[1], mine.p)
    for share, mine_first in ((1.0 - s, True), (s, False)):
        other = (merged - share * image) / (1.0 - share), weights
        if mine.form == "pairs":
            other = _as_one(*other)
        sides = (own, other) if mine_first else (other, own)
        ordered = _precedes(own, other) in (mine_first, None)
        if ordered and _apart(_merged(*sides, s, mine), merged) <= 1e-7 * np.abs(merged).max():
            yield _like(mine, *other, t)


def _merged(first: Side, second: Side, s: float, like: Interpolant) -> Array:
    return interpolate(
        first[0],
        second[0],
        first[1],
        second[1],
        t=s,
        p=like.p,
        interpolation="exact" if like.form == "pairs" else "barycentric",
    ).atoms


def _like(mine: Interpolant, atoms: Array, weights: Array, t: float) -> Interpolant:
    """The other side's interpolant towards the reference of the own one."""
    towards, masses = mine.reference, mine.reference_weights
    if mine.form == "cells":
        # Atoms of the other side go with the atoms of the reference they belong to.
        towards = barycentric_image(atoms, towards, weights, masses, mine.p)
        masses = weights
    return Interpolant(atoms, weights, towards, masses, t, mine.form, mine.p, mine.round)


def _precedes(first: Side, second: Side) -> bool | None:
    """The order in which FedWaD merges two sides: by size, then by mean.

    ``None`` where the first number they differ in differs by rounding.
    """
    if len(first[0]) != len(second[0]):
        return len(first[0]) < len(second[0])
    one, two = (float((masses @ atoms)[0]) for atoms, masses in (first, second))
    size = max(float(np.abs(first[0]).max()), float(np.abs(second[0]).max()))
    return None if abs(one - two) <= 1e-9 * size else one < two


def _as_one(atoms: Array, weights: Array) -> Side:
    """Equal atoms as one."""
    rows, label = distinct_rows(atoms)
    return rows, np.bincount(label, weights).astype(np.float64)


def _apart(first: Array, second: Array) -> float:
    if first.shape != second.shape:
        return np.inf
    way = np.random.default_rng(5).standard_normal(first.shape[1])
    one, two = (k[np.argsort(k @ way)] for k in (first, second))
    return float(np.abs(one - two).max())


def _means(one: Interpolant) -> Array:
    """Means of records behind the atoms."""
    return one.means if one.form == "cells" else direct_inversion(one, one.t or 0.0).rows


def _lasting(found: Sequence[Interpolant]) -> Guess:
    """Means that come again in another round are records, or records that never part."""
    means = [_means(one) for one in found]
    rows, label = distinct_rows(np.vstack(means))
    rounds = np.repeat([one.round for one in found], [len(k) for k in means])
    met = np.unique(np.column_stack([label, rounds]), axis=0)
    often = np.bincount(met[:, 0], minlength=len(rows))
    # Where two ways to undo a merge are left, the right one agrees with other rounds.
    labels = np.split(label, np.cumsum([len(k) for k in means])[:-1])
    agreed = [float(np.mean(often[k])) for k in labels]
    best = max(range(len(found)), key=lambda k: (agreed[k], -(found[k].t or 0.0)))
    least = int(often[labels[best]].min())
    if least > 1:
        # The median over rounds: rounding is large where a merge left little of one side.
        stacked = np.vstack(means)
        whole = np.stack([np.median(stacked[label == k], axis=0) for k in np.unique(labels[best])])
        note = f"the same {len(whole)} points are behind {least} rounds of the other side"
        return Guess(whole, note=note)
    return Guess(
        means[best],
        note="an atom is the mean of the records that go to it; their number is not stated to "
        "this side",
    )
