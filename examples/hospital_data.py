"""Three hospitals and a trusted table, made from a table that ships with scikit-learn.

``python -m examples.hospital_data FOLDER`` writes ``north.csv``, ``south.csv``, ``west.csv`` and
``mine.csv``: ten measurements of a tumour and the diagnosis. Two faults are put in on purpose:
every tenth diagnosis of ``south`` is wrong, and ``west`` has ``radius`` in other units (ten times
too large). ``patients.csv`` is ``south`` with the number of each patient.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

SIZES = {"north": 150, "south": 150, "west": 150, "mine": 119}


Rows = list[dict[str, str | float]]


def hospitals(seed: int = 0) -> dict[str, Rows]:
    """Tables by name, each patient in one of them.

    Columns are divided by fixed numbers, so that each is between 0 and about 7.

    Examples
    --------
    >>> [len(table) for table in hospitals().values()]
    [150, 150, 150, 119]
    """
    bunch = load_breast_cancer()
    units = [10, 10, 50, 500, 0.05, 0.05, 0.1, 0.05, 0.1, 0.05]
    names = [name.removeprefix("mean ").replace(" ", "_") for name in bunch.feature_names[:10]]
    numbers = np.round(bunch.data[:, :10] / units, 4)
    kinds = bunch.target_names[bunch.target].tolist()
    rows: Rows = [
        {**dict(zip(names, row, strict=True)), "diagnosis": kind, "patient": f"P{k:03d}"}
        for k, (row, kind) in enumerate(zip(numbers.tolist(), kinds, strict=True))
    ]
    order = np.random.default_rng(seed).permutation(len(rows))
    parts = np.split(order, np.cumsum([*SIZES.values()])[:-1])
    tables = {name: [rows[k] for k in part] for name, part in zip(SIZES, parts, strict=True)}
    for row in tables["south"][::10]:
        row["diagnosis"] = "benign" if row["diagnosis"] == "malignant" else "malignant"
    for row in tables["west"]:
        row["radius"] = round(float(row["radius"]) * 10, 4)
    return tables


def write(folder: Path) -> None:
    """All tables as files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = hospitals()
    for name, table in tables.items():
        _save(folder / f"{name}.csv", [name for name in table[0] if name != "patient"], table)
    _save(folder / "patients.csv", list(tables["south"][0]), tables["south"])


def _save(path: Path, names: list[str], table: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
