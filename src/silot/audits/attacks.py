"""Attacks on messages about records: each is a function of what one party saw of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from ..distances.questions import (
    DistanceTo,
    InterpolantCosts,
    Interpolate,
    LabelledDistanceTo,
    LabelledRecords,
    Moments,
    Records,
)
from ..distances.sketches.questions import SketchRecords
from ..federation.answer import Answer, encode_reply
from ..federation.protocol import COORDINATOR
from ..federation.question import Question, encode_question
from ..federation.release import Release
from ..privacy.sketch import parts
from ..records.questions.scores import ScreenRecords
from .case import Case, Size, difficulty
from .inversion import (
    Array,
    Guess,
    InapplicableError,
    Interpolant,
    direct_inversion,
    merged_rows,
    projection_inversion,
)
from .parameter import Parameter, candidates, common_mean

_NO_INTERPOLANT = "no interpolant of the records was seen"
# Rows that the reading of a sketch repeats at most: beyond them scores do not change.
_MOST_ROWS = 2000
# Largest number of atoms or features that sizes of messages are compared with.
_LARGEST = 4096
# Bytes by which messages of one shape differ: their scalars vary.
_SLACK_BYTES = 64


def reading(case: Case) -> Guess:
    """Read records that travelled as they are."""
    for _, answer in case.answered(Records, LabelledRecords):
        return Guess(answer.array("points", ndim=2), ordered=True, certified=True)
    if case.target == COORDINATOR:
        for item in case.view.exchanges:
            shown = _shown(item.question, case.view.protocol)
            if shown is not None:
                return shown
    raise InapplicableError("no records were sent unchanged")


def _shown(question: Question, protocol: str) -> Guess | None:
    """Return the coordinator's own records, where a question brings them along."""
    if isinstance(question, ScreenRecords):
        return Guess(question.points, certified=True)
    note = "the measure that holders are compared with"
    if protocol == "contributions" and isinstance(question, DistanceTo):
        return Guess(question.reference, note=note)
    if protocol == "contributions" and isinstance(question, LabelledDistanceTo):
        return Guess(question.target, note=note)
    return None


def direct(case: Case) -> Guess:
    """Apply direct inversion to the interpolants that are easiest to invert."""
    # More than three would repeat the same failure.
    easiest = case.interpolants[:3]
    if not easiest:
        raise InapplicableError(_NO_INTERPOLANT)
    guesses: list[Guess] = []
    for one in easiest:
        guesses.append(direct_inversion(one, one.known_t, case.records))
        if guesses[-1].certified:
            return guesses[-1]
    return guesses[0]


def projection(case: Case) -> Guess:
    """Apply projection inversion to the barycentric interpolant that is easiest to invert."""
    one = easiest_barycentric(case)
    return projection_inversion(one, one.known_t)


def easiest_barycentric(case: Case) -> Interpolant:
    """Return the interpolant that a projection inverts, or raise where none was seen."""
    usable = [one for one in case.interpolants if one.form == "rows" and one.p == 2]
    if not usable:
        raise InapplicableError("no barycentric interpolant on the records (p = 2) was seen")
    return usable[0]


def unknown_parameter(case: Case) -> Guess:
    """Estimate the parameter, then invert."""
    usable = [one for one in case.interpolants if one.t is None]
    if not usable:
        lack = "the parameter is in the messages" if case.interpolants else _NO_INTERPOLANT
        raise InapplicableError(lack)
    one = usable[0]
    if len(usable) > 1 and one.mean is None:
        one = replace(one, mean=common_mean(usable))
    guesses: list[Guess] = []
    for parameter in candidates(one, usable[1:], case.seed, drawn=not case.view.is_central):
        guess = _by_parameter(one, parameter, case.records)
        if parameter.exact:
            return guess
        # Any t gives records that re-encode: without an exact one nothing is proven.
        guesses.append(replace(guess, certified=None))
    if not guesses:
        raise InapplicableError("no way to find the parameter applies")
    return max(guesses, key=lambda guess: _share_of_repeats(guess.rows))


def _by_parameter(one: Interpolant, parameter: Parameter, records: int | None) -> Guess:
    guess = _inverted(one, parameter.t, records)
    how = f"t = {parameter.t:.6g} from {parameter.by}"
    return replace(guess, note=f"{how}; {guess.note}" if guess.note else how)


def _inverted(one: Interpolant, t: float, records: int | None) -> Guess:
    guess = direct_inversion(one, t, records)
    if guess.certified or one.form != "rows" or one.p != 2:
        return guess
    return projection_inversion(one, t)


def _share_of_repeats(rows: Array) -> float:
    """Return the share of equal values, of which real records have many."""
    size = float(np.abs(rows).max()) or 1.0
    return float((np.diff(np.sort(rows, axis=0), axis=0) <= 1e-9 * size).mean())


def trilateration(case: Case) -> Guess:
    """Compute the interpolant from costs to known points, and the records from it."""
    if not case.located:
        costs = any(isinstance(item.question, InterpolantCosts) for item in case.view.exchanges)
        raise InapplicableError(
            "the known points are too few, or do not span the space"
            if costs and case.view.is_central
            else "no costs were seen"
        )
    one = min(case.located, key=lambda item: difficulty(item)[:2])
    return _inverted(one, one.known_t, case.records)


def extrapolation(case: Case) -> Guess:
    """Extend the line through two interpolants on one geodesic to the records."""
    pairs = [(one, one.t) for one in case.interpolants if one.t is not None]
    for (first, t), (second, s) in combinations(pairs, 2):
        comparable = first.atoms.shape == second.atoms.shape and first.form == second.form
        if comparable and t != s and np.array_equal(first.reference, second.reference):
            rows = (s * first.atoms - t * second.atoms) / (s - t)
            if first.form == "rows":
                return Guess(rows, ordered=True)
            return Guess(merged_rows(rows, first.weights, case.records))
    raise InapplicableError("no two interpolants with one reference and two parameters were seen")


def cell_means(case: Case) -> Guess:
    """Read the means of the records that go to each atom of the reference.

    Where no atom is a mixture, the means of one round are the records. Elsewhere every round mixes
    other records, so that the means of all rounds hold more of the records than those of one.
    """
    cells = case.usable_cells()
    # Errors grow by 1 / (1 - t).
    easiest = min(cells, key=lambda one: one.known_t).round
    best = [one for one in cells if one.round == easiest]
    if not all(one.is_geodesic is True for one in best):
        rows = np.vstack([one.means for one in cells])
        masses = np.concatenate([one.mass * one.weights for one in cells])
        return Guess(
            merged_rows(rows, masses, None),
            note="each atom is the mean of its records, so only means are recovered",
        )
    rows = np.vstack([one.means for one in best])
    if case.records is not None and len(rows) > case.records:
        masses = np.concatenate([one.mass * one.weights for one in best])
        rows = merged_rows(rows, masses, case.records)
    return Guess(rows, certified=True)


def sketch_reading(case: Case) -> Guess:
    """Guess rows from noisy counts: every record at the centre of its cell.

    Differentially private releases say next to nothing of single records.
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
        note="the messages hold noisy counts and no rows; every attack is bounded by the "
        f"mechanism, with mu = {spent**0.5:.3g} in all",
    )


def _sketches(case: Case) -> Iterator[tuple[Array, Array]]:
    """Yield the centres of cells, and the noisy counts of their records."""
    for question, answer in case.answered(SketchRecords):
        values = answer.arrays.get("sketch")
        if values is not None:
            size = len(question.centres)
            groups = max((len(values) - question.centres.shape[1] - 1) // size, 1)
            counts = np.asarray(values[: groups * size], dtype=np.float64).reshape(groups, size)
            yield question.centres, counts.sum(axis=0) / parts(question.resolution)[0]


@dataclass(frozen=True)
class Facts:
    """Facts read from sizes and times, in words."""

    note: str
    facts: bool = True


def traffic(case: Case) -> Facts:
    """Read rounds, sizes and times, as somebody without keys can.

    The name of the method is public, and with it the shapes of its messages.
    """
    if not case.view.sizes:
        raise InapplicableError("sizes and times are used only for an eavesdropper")
    own = [one for one in case.view.sizes if one.holder == case.target]
    sent = [one for one in own if one.direction == "sent"]
    received = {one.round: one for one in own if one.direction == "received"}
    pairs = [(one, received[one.round]) for one in sent if one.round in received]
    facts = [f"{len(sent)} questions of {_range([one.size for one in sent])} bytes"]
    if received:
        replies = [one.size for one in received.values()]
        facts.append(f"{len(replies)} answers of {_range(replies)} bytes")
    return Facts("; ".join([*facts, *_shapes(pairs), *_varied(pairs)]))


def _varied(pairs: Sequence[tuple[Size, Size]]) -> Iterator[str]:
    """Say what depends on data: how long answers took, and their sizes."""
    if not pairs:
        return
    waits = [reply.seconds - question.seconds for question, reply in pairs]
    low, high = min(waits), max(waits)
    yield f"answers took {low:.2g} to {high:.2g} s, which grows with the number of records"
    different = {(question.size, reply.size) for question, reply in pairs}
    if len(different) > len({question for question, _ in different}):
        yield ("questions of one size received answers of several sizes, which depend on the data")


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _shapes(pairs: Sequence[tuple[Size, Size]]) -> Iterator[str]:
    """Say dimension, atoms and records, from the lengths of messages with such shapes."""
    first = {question.kind: (question.size, reply.size) for question, reply in reversed(pairs)}
    dimension = None
    if Moments.kind in first:
        dimension = _solved(first[Moments.kind][1], _moments_size)
    if dimension is not None:
        yield f"records have {dimension} features (size of a covariance)"
    if dimension is not None and Interpolate.kind in first:
        atoms = _solved(first[Interpolate.kind][0], partial(_interpolate_size, dimension))
        if atoms is not None:
            yield f"references have {atoms} atoms"
    if Records.kind in first:
        floats = (first[Records.kind][1] - _records_size(0)) // 8
        yield (f"about {floats} numbers: records times features plus one (sizes show only this)")


def _solved(size: int, length: Callable[[int], int]) -> int | None:
    """Return the number for which a message is so long, up to the bytes that scalars vary by."""
    low, high = 1, _LARGEST
    while low < high:
        middle = (low + high) // 2
        if length(middle) < size:
            low = middle + 1
        else:
            high = middle
    near = min((max(low - 1, 1), low), key=lambda count: abs(length(count) - size))
    return near if abs(length(near) - size) <= _SLACK_BYTES else None


def _moments_size(d: int) -> int:
    return len(encode_reply(Answer({"mean": np.zeros(d), "covariance": np.zeros((d, d))})))


def _interpolate_size(d: int, count: int) -> int:
    question = Interpolate(reference=np.zeros((count, d)), reference_weights=np.zeros(count), t=0.5)
    return len(encode_question(question))


def _records_size(count: int) -> int:
    return len(encode_reply(Answer({"points": np.zeros((count, 1)), "weights": np.zeros(count)})))
