"""What differentially private releases say of single records: next to nothing."""

from __future__ import annotations

import numpy as np

from ..federation.release import Release
from ..privacy.sketch import parts
from ..sketch.questions import SketchRecords
from ._case import Case
from ._evidence import Array, Guess

_MOST_ROWS = 2000


def sketch_reading(case: Case) -> Guess | str:
    """The best guess of rows from noisy counts: every record at the centre of its cell."""
    if not case.outside:
        return "no release was seen"
    spent = 0.0
    best: tuple[Array, Array] | None = None
    for item in case.view.about(case.target):
        question = item.question
        if not isinstance(question, Release) or item.answer is None:
            continue
        spent += question.privacy_mu**2
        values = item.answer.arrays.get("sketch")
        if isinstance(question, SketchRecords) and values is not None:
            size = len(question.centres)
            groups = max((len(values) - question.centres.shape[1] - 1) // size, 1)
            counts = np.asarray(values[: groups * size], dtype=np.float64).reshape(groups, size)
            best = question.centres, counts.sum(axis=0) / parts(question.resolution)[0]
    if spent == 0.0:
        return "no release was seen"
    if best is None:
        return "only noisy numbers about all records were released"
    centres, counts = best
    counts = np.maximum(counts, 0.0)
    records = float(np.clip(counts.sum(), 1.0, _MOST_ROWS))
    copies = np.rint(counts / max(counts.sum(), 1e-12) * records).astype(int)
    rows = np.repeat(centres, copies, axis=0) if copies.any() else centres
    return Guess(
        rows,
        note="the messages hold noisy counts and no rows; what bounds every attack is the "
        f"mechanism, which claims mu = {spent**0.5:.3g} in all",
    )
