"""Records from the cell means of all rounds: FedWaD and FedBary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._case import Case
from ._cover import records_among
from ._evidence import Array, Evidence, Guess
from ._joint import (
    Round,
    determined,
    different,
    fitting,
    misfit,
    refined,
    repaired,
    sorted_rows,
)
from ._moments import completed_by_moments
from .attacks import means_of

_FIT = 1e-7


def joint_rounds(case: Case) -> Guess | str:
    """Combine the means of all rounds: every round mixes the records in another way."""
    if not case.cells:
        return "no means over cells were seen"
    if any(one.t is None for one in case.cells):
        return "the interpolation parameter was not seen"
    records = case.records
    if records is None:
        return "the number of records was not seen"
    rows: list[Array] = []
    sure: list[np.ndarray] = []
    certified = True
    for group in sorted({one.group for one in case.cells}):
        inside = [one for one in case.cells if one.group == group]
        count = max(round(inside[0].mass * records), 1)
        moments = case.moments if inside[0].mass > 1.0 - 1e-9 else None
        uniform = case.view.uniform(case.target)
        found, proven, fits = _group(inside, count, uniform, case.seed, moments)
        rows.append(found)
        sure.append(proven)
        certified = certified and fits
    proven = np.concatenate(sure)
    note = "" if certified else f"{int(proven.sum())} rows proven, the others a best fit"
    return Guess(np.vstack(rows), certified=certified, note=note, sure=proven)


def _group(
    cells: Sequence[Evidence],
    records: int,
    uniform: bool,
    seed: int,
    moments: tuple[Array, Array] | None,
) -> tuple[Array, np.ndarray, bool]:
    """Rows of one class, which of them are proven, and whether all are."""
    rounds = different(
        [Round(means_of(one), one.reference, one.reference_weights, one.p) for one in cells]
    )
    if uniform and cells[0].atoms.shape[1] == 1:
        line = sorted_rows(rounds[0], records)
        if line is not None:
            return line, np.full(records, True), True
    known = others = np.empty((0, cells[0].atoms.shape[1]))
    proven = 0
    if known.shape[1] > 1:
        told = [(one.means, one.weights) for one in rounds]
        known, proven, others = records_among(told, records, equal=uniform)
    if not uniform or proven > records:
        # Weights were not told: nothing can be encoded again.
        rows = known if len(known) else rounds[0].means
        return rows, np.zeros(len(rows), dtype=bool), False
    start = _completed(known, rounds, records, seed)
    if proven and moments is not None and (proven < records or len(known) < records):
        last = completed_by_moments(known, proven, records, *moments, others)
        start = start if last is None else last
    if proven:
        rows, rest = repaired(start, rounds, seed=seed)
        if rest > _FIT and moments is not None:
            # What was proven may hold a mixture: go by what fits instead.
            good, _ = fitting(rows, rounds)
            pool = np.vstack([others, known])
            rows = rows[np.argsort(~good, kind="stable")]
            last = completed_by_moments(rows, int(good.sum()), records, *moments, pool)
            if last is not None:
                rows, rest = last, misfit(last, np.full(records, 1.0 / records), rounds)
    else:
        rows, rest = refined(start, rounds)
    if rest <= _FIT and proven:
        tied = determined(rows, rounds)
        return rows, tied, bool(tied.all())
    return rows, np.zeros(records, dtype=bool), False


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
