"""Records of a table as they are read, and what is counted of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .coordinates import Misfits
from .fields import Fields, hashes
from .fit import Fit
from .measure import Measure
from .schema import Schema

Array = npt.NDArray[np.float64]

# Numbers of a column by which its unit is judged.
_SAMPLE = 1 << 15


class Gathered:
    """What has been read so far."""

    def __init__(self, schema: Schema) -> None:
        self.rows = _Rows(len(schema.features))
        self.masses = _Rows(1)
        self.labels: list[str] = []
        described = [*schema.used, *(each.column for each in (schema.label, schema.weight) if each)]
        self._misfits = {name: Misfits() for name in described}
        self._samples: dict[str, _Sample] = {}
        self._strays: dict[str, _Rows] = {}
        self._identifiers: dict[str, list[npt.NDArray[np.int64]]] = {}

    def count(self, name: str, misfits: Misfits) -> None:
        self._misfits[name] += misfits

    def sample(self, name: str, numbers: Array, limits: tuple[float, float]) -> None:
        """Some numbers of a column, and all of those out of its range, however few they are."""
        self._samples.setdefault(name, _Sample()).add(numbers)
        outside = numbers[(numbers < limits[0]) | (numbers > limits[1])]
        self._strays.setdefault(name, _Rows(1)).add(outside[:, None])

    def identify(self, name: str, column: Fields) -> None:
        self._identifiers.setdefault(name, []).append(hashes(column))

    def fit(self, schema: Schema, extra: tuple[str, ...]) -> Fit:
        shared = {name: _repeated(np.concatenate(all_)) for name, all_ in self._identifiers.items()}
        return Fit(
            schema,
            self.rows.size,
            self._misfits,
            extra,
            {name: sample.numbers for name, sample in self._samples.items()},
            {name: strays.array[:, 0] for name, strays in self._strays.items()},
            _repeated(_row_hashes(self.rows.array)),
            shared,
        )

    def measure(self, schema: Schema) -> Measure:
        return Measure(
            self.rows.array,
            self.masses.array[:, 0] if self.masses.size else None,
            self.labels or None,
            schema.features,
            copy=False,
            schema=schema,
        )


class _Rows:
    """Rows of an array that grows in place."""

    def __init__(self, width: int) -> None:
        self._held = np.empty((0, width))
        self.size = 0

    def add(self, rows: Array) -> None:
        size = self.size + len(rows)
        if size > len(self._held):
            wanted = max(size, len(self._held) + len(self._held) // 2)
            # Nothing else looks at it; a copy would take the memory twice.
            self._held.resize((wanted, self._held.shape[1]), refcheck=False)
        self._held[self.size : size] = rows
        self.size = size

    @property
    def array(self) -> Array:
        return self._held[: self.size]


class _Sample:
    """Numbers of a column, evenly over its records."""

    def __init__(self) -> None:
        self._kept = np.empty(0)
        self._step, self._next = 1, 0

    def add(self, numbers: Array) -> None:
        chosen = numbers[self._next :: self._step]
        self._next += len(chosen) * self._step - len(numbers)
        self._kept = np.concatenate([self._kept, chosen])
        while len(self._kept) > _SAMPLE:
            # Every other one from now on, and of those that are kept.
            self._next += self._step * (len(self._kept) % 2)
            self._kept, self._step = self._kept[::2], 2 * self._step

    @property
    def numbers(self) -> Array:
        """Those that are there."""
        return self._kept[np.isfinite(self._kept)]


def _row_hashes(points: Array) -> npt.NDArray[np.uint64]:
    """A number for each row that equal rows share, and others but for one in 2^64 do not."""
    odd = np.random.default_rng(0).integers(0, 1 << 63, points.shape[1], dtype=np.uint64) | 1
    # Adding zero makes one of the two zeros.
    hashes = np.zeros(len(points), dtype=np.uint64)
    for column, factor in enumerate(odd):
        bits = (points[:, column] + 0.0).view(np.uint64)
        hashes = (hashes ^ (bits ^ (bits >> np.uint64(29)))) * factor
    return hashes


def _repeated(hashes: npt.NDArray[Any]) -> int:
    return len(hashes) - len(np.unique(hashes))
