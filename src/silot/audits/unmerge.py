"""What a holder of FedWaD can find out about the other side: every new reference is a merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..distances.questions.distances import DistanceTo, Interpolate
from ..transport import exact_plan, interpolate
from ._case import Case
from ._clock import look
from ._cover import distinct_rows
from ._evidence import Array, Evidence, Guess
from ._inversion import direct_inversion
from ._parameter import by_mean, common_mean, plain
from .attacks import means_of
from .observer import Seen, form_of, read_interpolants

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_T_RANGE = (0.01, 0.99)


def undone_merges(case: Case) -> Guess | str:
    """Take the own interpolant out of the next reference; what is left is the other side's.

    The parameter of the merge follows from that of the round: both are steps of one sequence.
    """
    if case.outside or case.view.protocol != "fedwad":
        return "no merge of an own interpolant with another party's was seen"
    if len(case.view.holders) > 1 and case.target not in case.view.holders:
        return "the coordinator took no part with records of its own"
    found: list[Evidence] = []
    for party in case.view.parties:
        seen = case.view.about(party)
        mine = [
            item for item in seen if type(item.question) is Interpolate and item.answer is not None
        ]
        ts = _parameters(case, party, mine)
        if ts is None:
            return "the interpolation parameter was not seen, and own answers do not tell it"
        for k, item in enumerate(mine):
            # The last iterate comes with the question for the distance to it.
            after = [
                one.question
                for one in seen
                if one.round == item.round + 1
                and isinstance(one.question, DistanceTo | Interpolate)
            ]
            if after:
                look()
                merged, weights = after[0].reference, after[0].reference_weights
                found += _other_side(item, merged, weights, ts[k], merge_parameter(ts, k))
    if not found:
        return "no merge could be undone"
    return _lasting(found)


def _parameters(case: Case, party: str, mine: Sequence[Seen]) -> list[float] | None:
    """Parameters of the own answers; found from them where they count as not seen."""
    ts = [item.question.t for item in mine if isinstance(item.question, Interpolate)]
    if not case.hide_t:
        return ts
    moments = case.view.moments(party)
    mean = None if moments is None else moments[0]
    sent = [replace(one, t=None) for item in mine for one in read_interpolants(item, mean)]
    mean = common_mean(sent)
    if mean is None or len(sent) != len(mine):
        return None
    told = [by_mean(replace(one, mean=mean)) for one in sent]
    return None if any(one is None for one in told) else [plain(one.t) for one in told if one]


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


def _other_side(item: Seen, merged: Array, weights: Array, t: float, s: float) -> list[Evidence]:
    """The other side's interpolant of one round, whichever side was named first."""
    question, answer = item.question, item.answer
    assert isinstance(question, Interpolate) and answer is not None
    own, own_weights = answer.array("atoms", ndim=2), answer.array("weights", ndim=1)
    used = weights > 0
    merged, weights = merged[used], weights[used] / weights[used].sum()
    form = form_of(question)
    plan = exact_plan(merged, own, weights, own_weights, p=question.p)
    image = np.asarray(plan.plan @ own) / weights[:, None]
    reference_used = question.reference_weights > 0
    reference = question.reference[reference_used]
    masses = question.reference_weights[reference_used]
    masses = masses / masses.sum()
    found: list[Evidence] = []
    for share, mine_first in ((1.0 - s, True), (s, False)):
        other = (merged - share * image) / (1.0 - share)
        mass = weights
        if form == "pairs":
            other, mass = _as_one(other, weights)
        if _precedes((own, own_weights), (other, mass)) not in (mine_first, None):
            continue
        again = interpolate(
            *((own, other) if mine_first else (other, own)),
            *((own_weights, mass) if mine_first else (mass, own_weights)),
            t=s,
            p=question.p,
            interpolation="exact" if form == "pairs" else "barycentric",
        )
        if _apart(again.atoms, merged) > 1e-7 * float(np.abs(merged).max()):
            continue
        towards, towards_masses = reference, masses
        if form == "cells":
            # Atoms of the other side go with the atoms of the reference they belong to.
            plan = exact_plan(other, reference, mass, masses, p=question.p)
            towards = np.asarray(plan.plan @ reference) / mass[:, None]
            towards_masses = mass
        found.append(
            Evidence(
                other,
                mass,
                towards,
                towards_masses,
                t,
                form,
                p=question.p,
                round=item.round,
                source="undone-merges",
            )
        )
    return found


def _precedes(first: tuple[Array, Array], second: tuple[Array, Array]) -> bool | None:
    """The order in which FedWaD merges two sides: by size, then by mean.

    ``None`` where the first number they differ in differs by rounding.
    """
    if len(first[0]) != len(second[0]):
        return len(first[0]) < len(second[0])
    one, two = (float((masses @ atoms)[0]) for atoms, masses in (first, second))
    size = max(float(np.abs(first[0]).max()), float(np.abs(second[0]).max()))
    return None if abs(one - two) <= 1e-9 * size else one < two


def _as_one(atoms: Array, weights: Array) -> tuple[Array, Array]:
    """Equal atoms as one."""
    rows, label = distinct_rows(atoms)
    return rows, np.bincount(label, weights).astype(np.float64)


def _apart(first: Array, second: Array) -> float:
    if first.shape != second.shape:
        return np.inf
    way = np.random.default_rng(5).standard_normal(first.shape[1])
    one, two = (k[np.argsort(k @ way)] for k in (first, second))
    return float(np.abs(one - two).max())


def _lasting(found: Sequence[Evidence]) -> Guess:
    """Means that come again in another round are records, or records that never part."""
    means = [
        means_of(one) if one.form == "cells" else direct_inversion(one, one.t or 0.0).rows
        for one in found
    ]
    rows, label = distinct_rows(np.vstack(means))
    rounds = np.concatenate(
        [np.full(len(k), one.round) for k, one in zip(means, found, strict=True)]
    )
    often = np.array([len(set(rounds[label == k])) for k in range(len(rows))])
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
        note="an atom is the mean of the records that go to it; their number is not told to "
        "this side",
    )
