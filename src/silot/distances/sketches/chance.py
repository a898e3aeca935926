"""What chance makes of distances between sketches of one law: simulated from the sketches alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from silot_transport.chance import Chance

from .derived import DecodedSketches
from .drift import Law, Within
from .result import Sketches

_PAIRS = 40


def sketch_chances(sketches: Sketches, names: Sequence[str]) -> dict[str, Chance]:
    """Estimated distances of two releases of one law, by the sketch whose law it is.

    Pairs of releases are drawn of what each sketch tells, with its number of records and its
    noise, and estimated as the sketches are. Nothing more is asked or spent. Empty where
    records were not counted in cells of public records.
    """
    book = cast("DecodedSketches", sketches.book)
    if book.sample is None or any(book.pages[name].reading is None for name in names):
        return {}
    within = Within.of(book.sample, book)
    return {name: _chance(book, name, within, sketches.seed) for name in names}


def _chance(book: DecodedSketches, name: str, within: Within, seed: int) -> Chance:
    page = book.pages[name]
    law = Law.of([page], within, book.cells)
    rng = np.random.default_rng([seed, 43])
    told = np.array([
        book.between(
            *(law.page(page.decoded.records, book, rng) for _ in range(2)), like=(name, name)
        )
        for _ in range(_PAIRS)
    ])  # fmt: skip
    spread = float(told.std(ddof=1)) * (1.0 + 1.0 / _PAIRS) ** 0.5
    return Chance(float(told.mean()), spread, 0.0, _PAIRS - 1)


__all__ = ["sketch_chances"]
