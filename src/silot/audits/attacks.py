"""The attacks, each a function of what was seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..distances.questions.distances import DistanceTo, InterpolantCosts, Records
from ..distances.questions.labelled import LabelledDistanceTo, LabelledRecords
from ..federation.protocol import COORDINATOR
from ..records.questions.scores import ScreenRecords
from ._case import Case
from ._evidence import Array, Evidence, Guess, merged_rows
from ._inversion import direct_inversion, projection_inversion
from ._parameter import Parameter, candidates, common_mean

_NO_INTERPOLANT = "no interpolant of the records was seen"
_NO_PARAMETER = "the interpolation parameter was not seen"


def reading(case: Case) -> Guess | str:
    """Records that travelled as they are."""
    if case.outside:
        for item in case.view.about(case.target):
            if isinstance(item.question, Records | LabelledRecords) and item.answer is not None:
                return Guess(item.answer.array("points", ndim=2), ordered=True, certified=True)
        return "no records travelled as they are"
    if case.target != COORDINATOR:
        return "no records travelled as they are"
    for item in case.view.seen:
        question = item.question
        if isinstance(question, ScreenRecords):
            return Guess(question.points, ordered=False, certified=True)
        if case.view.protocol != "contributions":
            continue
        if isinstance(question, DistanceTo):
            return Guess(question.reference, certified=None, note="the measure it compares with")
        if isinstance(question, LabelledDistanceTo):
            return Guess(question.target, certified=None, note="the measure it compares with")
    return "no records travelled as they are"


def direct(case: Case) -> Guess | str:
    """Direct inversion, of the interpolant that is easiest to invert."""
    if not case.interpolants:
        return _NO_INTERPOLANT
    best: Guess | None = None
    for one in case.interpolants[:3]:
        if one.t is None:
            return _NO_PARAMETER
        found = direct_inversion(one, one.t, case.records)
        if found.certified:
            return found
        best = best or found
    return best or _NO_INTERPOLANT


def projection(case: Case) -> Guess | str:
    """Projection inversion."""
    usable = [one for one in case.interpolants if one.form == "rows" and one.p == 2]
    if not usable:
        return "no barycentric interpolant on the records (p = 2) was seen"
    if usable[0].t is None:
        return _NO_PARAMETER
    return projection_inversion(usable[0], usable[0].t)


def unknown_parameter(case: Case) -> Guess | str:
    """Find the parameter, then invert."""
    usable = [one for one in case.interpolants if one.t is None]
    if not usable:
        return "the parameter is in the messages" if case.interpolants else _NO_INTERPOLANT
    one = usable[0]
    if len(usable) > 1 and one.mean is None:
        one = replace(one, mean=common_mean(usable))
    guesses: list[tuple[Parameter, Guess]] = []
    for parameter in candidates(one, usable[1:], case.seed, drawn=not case.outside):
        found = _inverted(one, parameter.t, case.records)
        how = f"t = {parameter.t:.6g} from {parameter.by}"
        found = replace(found, note=how if not found.note else f"{how}; {found.note}")
        if parameter.exact:
            return found
        # Any t gives records that re-encode: without an exact one nothing is proven.
        guesses.append((parameter, replace(found, certified=None)))
    if not guesses:
        return "no way to find the parameter applies"
    return _most_repetitive([found for _, found in guesses])


def _inverted(one: Evidence, t: float, records: int | None) -> Guess:
    found = direct_inversion(one, t, records)
    if found.certified or one.form != "rows" or one.p != 2:
        return found
    return projection_inversion(one, t)


def _most_repetitive(guesses: list[Guess]) -> Guess:
    """The guess with most equal values, as real records have; the first where none has."""

    def repeats(rows: Array) -> float:
        size = float(np.abs(rows).max()) or 1.0
        ordered = np.sort(rows, axis=0)
        return float((np.diff(ordered, axis=0) <= 1e-9 * size).mean())

    return max(guesses, key=lambda guess: repeats(guess.rows))


def trilateration(case: Case) -> Guess | str:
    """Costs to known points give the interpolant, the interpolant the records."""
    if not case.located:
        asked = any(isinstance(item.question, InterpolantCosts) for item in case.view.seen)
        if asked and case.outside:
            return "the known points are too few, or do not span the space"
        return "no costs were seen"
    one = min(case.located, key=lambda item: (item.t is None, item.t or 0.0))
    if one.t is None:
        return _NO_PARAMETER
    return _inverted(one, one.t, case.records)


def extrapolation(case: Case) -> Guess | str:
    """Two interpolants on one geodesic: the records are on the line through them."""
    known = [one for one in case.interpolants if one.t is not None]
    for k, first in enumerate(known):
        for second in known[k + 1 :]:
            t, s = first.t or 0.0, second.t or 0.0
            same = first.atoms.shape == second.atoms.shape and first.form == second.form
            if same and t != s and np.array_equal(first.reference, second.reference):
                rows = (s * first.atoms - t * second.atoms) / (s - t)
                if first.form == "rows":
                    return Guess(rows, ordered=first.ordered)
                return Guess(merged_rows(rows, first.weights, case.records))
    return "no two interpolants with one reference and two parameters were seen"


def cell_means(case: Case) -> Guess | str:
    """The means of the records that go to each atom, of the best single round."""
    rounds: dict[int, list[Evidence]] = {}
    for one in case.cells:
        rounds.setdefault(one.round, []).append(one)
    if not rounds:
        return "no means over cells were seen"
    if case.cells[0].t is None:
        return _NO_PARAMETER
    least = min(rounds, key=lambda k: rounds[k][0].t or 0.0)
    parts = rounds[least]
    rows = np.vstack([means_of(one) for one in parts])
    whole = all(one.whole is True for one in parts)
    n = case.records
    if whole and n is not None and len(rows) > n:
        rows = merged_rows(rows, np.concatenate([one.mass * one.weights for one in parts]), n)
    note = "" if whole else "an atom is the mean of the records that go to it"
    return Guess(rows, certified=True if whole else None, note=note)


def means_of(one: Evidence) -> Array:
    """Means of the records behind the atoms of a cell interpolant."""
    t = one.t or 0.0
    return (one.atoms - t * one.reference) / (1.0 - t)
