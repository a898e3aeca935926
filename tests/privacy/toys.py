"""Releases of one thing each, for tests of everything around a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from silot.federation import Answer
from silot.federation.question import register
from silot.federation.release import Release


@dataclass(frozen=True, kw_only=True)
class ToyHistogram(Release):
    """Counts of records in equal cells of [0, 1) by their first feature."""

    kind: ClassVar[str] = "toy-histogram"
    mechanism: ClassVar[str] = "discrete Gaussian, toy"

    cells: int = 4
    resolution: int = 1024
    nonce: int = 0

    @property
    def sensitivity(self) -> float:
        return float(self.resolution)

    def exact(self, points, masses, labels=None):
        cell = np.clip((points[:, 0] * self.cells).astype(np.int64), 0, self.cells - 1)
        counts = np.zeros(self.cells, dtype=np.int64)
        np.add.at(counts, cell, np.floor(self.resolution * np.minimum(masses, 1)).astype(np.int64))
        return counts

    def answer_of(self, noisy):
        return Answer({"counts": noisy})


def known() -> None:
    """Make the toy known to the codec."""
    register(ToyHistogram)
