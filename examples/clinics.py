"""Five clinics' tables, of which three see adults and two see children, and one is careless.

``python -m examples.clinics FOLDER`` writes the tables, a site file of the clinic that measures in
other units, a schema, and records of a registry. Nothing is real: records are drawn. Who comes back
is told by high glucose and blood pressure among adults, and by low glucose and long stays among
children: one linear model cannot serve both. In the south one outcome in five was entered wrongly.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = Path(__file__).with_name("clinic.yml")
# By clinic: records, and whether it is for children.
CLINICS = {
    "north": (160, False),
    "south": (240, False),
    "east": (140, False),
    "west": (150, True),
    "coast": (130, True),
}
CARELESS, WRONG = "south", 0.2
EAST = """\
# East measures glucose in mmol/L.
columns:
  glucose: {unit: mmol/L}
"""
MMOL = 18.016

Row = dict[str, Any]


def records(size: int, seed: int, *, children: bool) -> list[Row]:
    """Patients, and who of them came back."""
    rng = np.random.default_rng([seed, 31])
    age = rng.normal(9, 3, size) if children else rng.normal(63, 12, size)
    glucose = rng.normal(0, 1, size)
    pressure = rng.normal(0, 1, size)
    days = rng.gamma(3.0, 2.0, size)
    stay = (days - 6) / 3.5
    odds = -3.0 * glucose + 2.0 * stay if children else 3.0 * glucose + 2.0 * pressure
    back = rng.random(size) < 1 / (1 + np.exp(-2.0 * odds))
    base = 98 if children else 122
    return [
        {
            "age": round(float(np.clip(age[k], 1, 104)), 1),
            "glucose": round(float(105 * np.exp(0.22 * glucose[k])), 1),
            "sbp": round(float(base + 14 * pressure[k])),
            "days": round(float(days[k]), 1),
            "smoker": "yes" if not children and rng.random() < 0.25 else "no",
            "readmitted": "yes" if back[k] else "no",
        }
        for k in range(size)
    ]


def main(folder: Path) -> None:
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCHEMA, folder / SCHEMA.name)
    (folder / "east.site.yml").write_text(EAST)
    for seed, (name, (size, children)) in enumerate(CLINICS.items()):
        rows = records(size, seed, children=children)
        rng = np.random.default_rng([seed, 32])
        for row in rows:
            if name == "east":
                row["glucose"] = round(row["glucose"] / MMOL, 2)
            if name == CARELESS and rng.random() < WRONG:
                row["readmitted"] = "no" if row["readmitted"] == "yes" else "yes"
        _write(folder / f"{name}.csv", rows, f"{name[0].upper()}")
    # What the coordinator has: adults, to compare with and to test on.
    _write(folder / "registry.csv", records(200, 50, children=False), "R")
    _write(folder / "test.csv", records(500, 51, children=False), "T")


def _write(path: Path, rows: list[Row], letter: str) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["patient", *rows[0]])
        writer.writeheader()
        writer.writerows({"patient": f"{letter}{k:05d}", **row} for k, row in enumerate(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "clinics"))
