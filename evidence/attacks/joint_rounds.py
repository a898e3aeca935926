"""Records from the cell means of all rounds: FedWaD and FedBary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evidence.attacks.cover import records_among
from evidence.attacks.rounds import (
    Round,
    completed_by_moments,
    determined,
    different,
    fitting,
    misfit,
    refined,
    repaired,
    sorted_rows,
)
from silot.audits.case import Case
from silot.audits.inversion import Array, Guess, InapplicableError, Interpolant

_FIT = 1e-7


def joint_rounds(case: Case) -> Guess:
    """Combine the means of all rounds: every round mixes the records in another way."""
    cells = case.usable_cells()
    if case.records is None:
        raise InapplicableError("the number of records was not seen")
    groups = [
        [one for one in cells if one.group == group] for group in sorted({k.group for k in cells})
    ]
    rows, sure, fits = zip(*(_group(case, each, case.records) for each in groups), strict=True)
    proven = np.concatenate(sure)
    note = "" if all(fits) else f"{int(proven.sum())} rows proven, the others a best fit"
    return Guess(np.vstack(rows), certified=all(fits), note=note, proven=proven)


def _group(case: Case, cells: Sequence[Interpolant], told: int) -> tuple[Array, np.ndarray, bool]:
    """Rows of one class, which of them are proven, and whether all are."""
    records = max(round(cells[0].mass * told), 1)
    uniform = case.view.is_uniform(case.target)
    rounds = different([Round.of(one) for one in cells])
    line = sorted_rows(rounds[0], records) if uniform else None
    if line is not None:
        return line, np.full(records, True), True
    known, proven, others = records_among(rounds, records, equal=uniform)
    if not uniform or proven > records:
        # Weights were not stated: nothing can be encoded again.
        rows = known if len(known) else rounds[0].means
        return rows, np.zeros(len(rows), dtype=bool), False
    if not proven:
        rows, _ = refined(_completed(known, rounds, records, case.seed), rounds)
        return rows, np.zeros(records, dtype=bool), False
    moments = case.moments if cells[0].mass > 1.0 - 1e-9 else None
    rows, rest = _from_proven(known, proven, others, rounds, records, moments, case.seed)
    if rest > _FIT:
        return rows, np.zeros(records, dtype=bool), False
    tied = determined(rows, rounds)
    return rows, tied, bool(tied.all())


def _from_proven(
    known: Array,
    proven: int,
    others: Array,
    rounds: Sequence[Round],
    records: int,
    moments: tuple[Array, Array] | None,
    seed: int,
) -> tuple[Array, float]:
    """All rows from those that are proven or known, by all that was told; and their misfit."""
    start = _completed(known, rounds, records, seed)
    if moments is not None and min(proven, len(known)) < records:
        last = completed_by_moments(known, proven, records, *moments, others)
        start = start if last is None else last
    rows, rest = repaired(start, rounds, seed=seed)
    if rest <= _FIT or moments is None:
        return rows, rest
    # What was proven may hold a mixture: go by what fits instead.
    good, _ = fitting(rows, rounds)
    rows, pool = rows[np.argsort(~good, kind="stable")], np.vstack([others, known])
    last = completed_by_moments(rows, int(good.sum()), records, *moments, pool)
    if last is None:
        return rows, rest
    return last, misfit(last, rounds)


def _completed(known: Array, rounds: Sequence[Round], records: int, seed: int) -> Array:
    """As many rows as there are records: the known ones, and means of the cells farthest off."""
    rows = known[:records]
    rng = np.random.default_rng([seed, 9])
    while len(rows) < records:
        means = rounds[len(rows) % len(rounds)].means
        missing = records - len(rows)
        if len(rows) == 0:
            picked = np.arange(missing) % len(means)
            spread = means.std(axis=0)
            rows = means[picked] + 1e-3 * spread * rng.standard_normal((missing, means.shape[1]))
            continue
        # Cells that no known record explains.
        apart = np.linalg.norm(means[:, None] - rows[None], axis=2).min(axis=1)
        picked = np.argsort(-apart)[:missing]
        rows = np.vstack([rows, means[picked]])
    return rows
