"""Verdicts before a run: units, codes for missing values, and faulty records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import silot
from evidence.common import Array, Flags, stream
from evidence.verdicts._tables import RealTable
from silot import Measure
from silot.data.preflight import Preflight
from silot.errors import InputError

RECORDS = 200
OUTLIERS, FAR = 3, 20.0
CODE, CODED = -999.0, 0.03
# Flags that say what is planted, and those that name another trouble of a column.
UNIT, SENTINEL = {"unit", "scale"}, {"sentinel"}

Fault = Callable[[Array, int, np.random.Generator], None]


def _unit(x: Array, k: int, _: np.random.Generator) -> None:
    x[:, k] *= 1000.0


def _sentinel(x: Array, k: int, rng: np.random.Generator) -> None:
    x[rng.permutation(len(x))[: round(CODED * len(x))], k] = CODE


FAULTS: Mapping[str, tuple[Fault, set[str]]] = {
    "unit": (_unit, UNIT),
    "sentinel": (_sentinel, SENTINEL),
}


@dataclass
class Checked:
    """Flags of one table, over splits into two holders."""

    table: str
    clean: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])
    planted: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])


def measure_checks(tables: Sequence[RealTable], draws: int, *, seed: int = 0) -> list[Checked]:
    """Check splits of tables as they are, and with a fault at one holder."""
    results: list[Checked] = []
    for t, table in enumerate(tables):
        checked = Checked(table.name, {name: [] for name in FAULTS}, {name: [] for name in FAULTS})
        for name in ("clean", "planted"):
            getattr(checked, name)["records"] = []
        for draw in range(draws):
            rng = stream(245, seed, t, draw)
            (x, _), (y, _) = table.draw(rng, RECORDS, RECORDS)
            k = int(rng.choice(table.numbers))
            flags = _flags(table, x, y)
            for name, (plant, kinds) in FAULTS.items():
                faulty = y.copy()
                plant(faulty, k, rng)
                checked.clean[name].append(any(kind in kinds for kind, _ in flags))
                new = _flags(table, x, faulty) - flags
                checked.planted[name].append(any((kind, f"x{k}") in new for kind in kinds))
            clean = _flagged(y, x)
            faulty, rows = y.copy(), rng.permutation(len(y))[:OUTLIERS]
            faulty[rows, k] += FAR * table.x[:, k].std()
            planted = _flagged(faulty, x)
            if clean is not None and planted is not None:
                checked.clean["records"].append(bool(clean.any()))
                checked.planted["records"].append(bool(planted[rows].all()))
        results.append(checked)
    return results


def _flagged(x: Array, validation: Array) -> Flags | None:
    """Return which records are called faulty; ``None`` where a table is refused as too small."""
    try:
        return silot.value_records(x, validation).flagged
    except InputError:
        return None


def _flags(table: RealTable, x: Array, y: Array) -> set[tuple[str, str]]:
    """Return kind and column of each flag on two holders with these records."""
    measures = {
        "first": Measure(x, columns=table.columns),
        "second": Measure(y, columns=table.columns),
    }
    preflight = Preflight.of(measures)
    return set() if preflight is None else {(one.kind, one.column) for one in preflight.flags}
