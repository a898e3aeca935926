"""Three hospitals and a trusted table, made from a table that ships with scikit-learn.

``python -m examples.hospital_data FOLDER`` writes ``north.csv``, ``south.csv``, ``west.csv`` and
``mine.csv``: ten measurements of a tumour and the diagnosis. Two faults are put in on purpose:
every tenth diagnosis of ``south`` is wrong, and ``west`` has ``radius`` in other units (ten times
too large). ``patients.csv`` is ``south`` with the number of each patient.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer

SIZES = {"north": 150, "south": 150, "west": 150, "mine": 119}


def hospitals(seed: int = 0) -> dict[str, pl.DataFrame]:
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
    table = pl.DataFrame(np.round(bunch.data[:, :10] / units, 4), schema=names)
    table = table.with_columns(
        diagnosis=pl.Series(bunch.target_names[bunch.target].tolist()),
        patient=pl.Series([f"P{k:03d}" for k in range(len(table))]),
    )
    order = np.random.default_rng(seed).permutation(len(table))
    parts = np.split(order, np.cumsum([*SIZES.values()])[:-1])
    tables = {name: table[part.tolist()] for name, part in zip(SIZES, parts, strict=True)}
    wrong = pl.int_range(pl.len()) % 10 == 0
    other = pl.col("diagnosis").replace({"malignant": "benign", "benign": "malignant"})
    tables["south"] = tables["south"].with_columns(
        diagnosis=pl.when(wrong).then(other).otherwise("diagnosis")
    )
    tables["west"] = tables["west"].with_columns(radius=(pl.col("radius") * 10).round(4))
    return tables


def write(folder: Path) -> None:
    """All tables as files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = hospitals()
    for name, table in tables.items():
        table.drop("patient").write_csv(folder / f"{name}.csv")
    tables["south"].write_csv(folder / "patients.csv")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
