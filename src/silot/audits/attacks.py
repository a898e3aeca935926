"""The attacks on records, and on what was computed of them: each a function of what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from ..distances.questions import (
    DistanceTo,
    InterpolantCosts,
    LabelledDistanceTo,
    LabelledRecords,
    Records,
)
from ..distances.sketches.questions import SketchRecords
from ..federation.protocol import COORDINATOR
from ..federation.question import Question
from ..federation.release import Release
from ..privacy.sketch import parts
from ..records.questions.scores import ScreenRecords
from ._case import Case, difficulty
from ._evidence import NO_PARAMETER, Array, Evidence, Guess, InapplicableError, merged_rows
from ._inversion import direct_inversion, projection_inversion
from ._parameter import Parameter, candidates, common_mean

_NO_INTERPOLANT = "no interpolant of the records was seen"
_MOST_ROWS = 2000


def reading(case: Case) -> Guess:
    """Records that travelled as they are."""
    for _, answer in case.answered(Records, LabelledRecords):
        return Guess(answer.array("points", ndim=2), ordered=True, certified=True)
    if case.target == COORDINATOR:
        for item in case.view.seen:
            shown = _shown(item.question, case.view.protocol)
            if shown is not None:
                return shown
    raise InapplicableError("no records travelled as they are")


def _shown(question: Question, protocol: str) -> Guess | None:
    """The coordinator's own records, where a question brings them along."""
    if isinstance(question, ScreenRecords):
        return Guess(question.points, certified=True)
    note = "the measure it compares with"
    if protocol == "contributions" and isinstance(question, DistanceTo):
        return Guess(question.reference, note=note)
    if protocol == "contributions" and isinstance(question, LabelledDistanceTo):
        return Guess(question.target, note=note)
    return None


def direct(case: Case) -> Guess:
    """Direct inversion, of the interpolant that is easiest to invert."""
    easiest = case.interpolants[:3]
    if not easiest:
        raise InapplicableError(_NO_INTERPOLANT)
    guesses: list[Guess] = []
    for one in easiest:
        guesses.append(direct_inversion(one, _parameter(one), case.records))
        if guesses[-1].certified:
            return guesses[-1]
    return guesses[0]


def _parameter(one: Evidence) -> float:
    if one.t is None:
        raise InapplicableError(NO_PARAMETER)
    return one.t


def projection(case: Case) -> Guess:
    """Projection inversion."""
    usable = [one for one in case.interpolants if one.form == "rows" and one.p == 2]
    if not usable:
        raise InapplicableError("no barycentric interpolant on the records (p = 2) was seen")
    return projection_inversion(usable[0], _parameter(usable[0]))


def unknown_parameter(case: Case) -> Guess:
    """Find the parameter, then invert."""
    usable = [one for one in case.interpolants if one.t is None]
    if not usable:
        told = "the parameter is in the messages" if case.interpolants else _NO_INTERPOLANT
        raise InapplicableError(told)
    one = usable[0]
    if len(usable) > 1 and one.mean is None:
        one = replace(one, mean=common_mean(usable))
    guesses: list[Guess] = []
    for parameter in candidates(one, usable[1:], case.seed, drawn=not case.outside):
        found = _by_parameter(one, parameter, case.records)
        if parameter.exact:
            return found
        # Any t gives records that re-encode: without an exact one nothing is proven.
        guesses.append(replace(found, certified=None))
    if not guesses:
        raise InapplicableError("no way to find the parameter applies")
    return max(guesses, key=lambda guess: _repeats(guess.rows))


def _by_parameter(one: Evidence, parameter: Parameter, records: int | None) -> Guess:
    found = _inverted(one, parameter.t, records)
    how = f"t = {parameter.t:.6g} from {parameter.by}"
    return replace(found, note=f"{how}; {found.note}" if found.note else how)


def _inverted(one: Evidence, t: float, records: int | None) -> Guess:
    found = direct_inversion(one, t, records)
    if found.certified or one.form != "rows" or one.p != 2:
        return found
    return projection_inversion(one, t)


def _repeats(rows: Array) -> float:
    """Share of equal values, as real records have."""
    size = float(np.abs(rows).max()) or 1.0
    return float((np.diff(np.sort(rows, axis=0), axis=0) <= 1e-9 * size).mean())


def trilateration(case: Case) -> Guess:
    """Costs to known points give the interpolant, the interpolant the records."""
    if not case.located:
        asked = any(isinstance(item.question, InterpolantCosts) for item in case.view.seen)
        raise InapplicableError(
            "the known points are too few, or do not span the space"
            if asked and case.outside
            else "no costs were seen"
        )
    one = min(case.located, key=lambda item: difficulty(item)[:2])
    return _inverted(one, _parameter(one), case.records)


def extrapolation(case: Case) -> Guess:
    """Two interpolants on one geodesic: the records are on the line through them."""
    known = [(one, one.t) for one in case.interpolants if one.t is not None]
    for (first, t), (second, s) in combinations(known, 2):
        same = first.atoms.shape == second.atoms.shape and first.form == second.form
        if same and t != s and np.array_equal(first.reference, second.reference):
            rows = (s * first.atoms - t * second.atoms) / (s - t)
            if first.form == "rows":
                return Guess(rows, ordered=first.ordered)
            return Guess(merged_rows(rows, first.weights, case.records))
    raise InapplicableError("no two interpolants with one reference and two parameters were seen")


def cell_means(case: Case) -> Guess:
    """The means of the records that go to each atom, of the best single round."""
    cells = case.known_cells()
    firsts: dict[int, Evidence] = {}
    for one in cells:
        firsts.setdefault(one.round, one)
    least = min(firsts.values(), key=lambda one: one.t or 0.0)
    best = [one for one in cells if one.round == least.round]
    rows = np.vstack([one.means for one in best])
    if not all(one.whole is True for one in best):
        return Guess(rows, note="an atom is the mean of the records that go to it")
    if case.records is not None and len(rows) > case.records:
        masses = np.concatenate([one.mass * one.weights for one in best])
        rows = merged_rows(rows, masses, case.records)
    return Guess(rows, certified=True)


def sketch_reading(case: Case) -> Guess:
    """The best guess of rows from noisy counts: every record at the centre of its cell.

    What differentially private releases say of single records is next to nothing.
    """
    releases = case.answered(Release)
    if not releases:
        raise InapplicableError("no release was seen")
    sketches = list(_sketches(case))
    if not sketches:
        raise InapplicableError("only noisy numbers about all records were released")
    centres, counts = sketches[-1]
    counts = np.maximum(counts, 0.0)
    records = float(np.clip(counts.sum(), 1.0, _MOST_ROWS))
    copies = np.rint(counts / max(counts.sum(), 1e-12) * records).astype(int)
    rows = np.repeat(centres, copies, axis=0) if copies.any() else centres
    spent = sum(question.privacy_mu**2 for question, _ in releases)
    return Guess(
        rows,
        note="the messages hold noisy counts and no rows; what bounds every attack is the "
        f"mechanism, which claims mu = {spent**0.5:.3g} in all",
    )


def _sketches(case: Case) -> Iterator[tuple[Array, Array]]:
    """Centres of cells, and the noisy counts of records there."""
    for question, answer in case.answered(SketchRecords):
        values = answer.arrays.get("sketch")
        if values is not None:
            size = len(question.centres)
            groups = max((len(values) - question.centres.shape[1] - 1) // size, 1)
            counts = np.asarray(values[: groups * size], dtype=np.float64).reshape(groups, size)
            yield question.centres, counts.sum(axis=0) / parts(question.resolution)[0]
