"""Five hospitals' tables as they come out of their systems, a schema, and public records.

``python -m examples.hospitals FOLDER`` writes ``hospitals/`` (what never leaves them) and
``coordinator/`` (a schema, public records, and the coordinator's own). Nothing is real: records are
drawn, and how far each hospital's are from the coordinator's is known.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = Path(__file__).with_name("ward.yml")
STAGES = ("I", "II", "III", "IV")
WARDS = ("surgery", "medicine", "cardiology")

Row = dict[str, Any]
# By hospital: records, years older than the coordinator's patients, how much sicker, wards.
HOSPITALS = {
    "north": (2600, 0.0, 0.0, (0.3, 0.5, 0.2)),
    "south": (2200, 2.0, 0.1, (0.3, 0.5, 0.2)),
    "east": (2000, 5.0, 0.3, (0.2, 0.5, 0.3)),
    "west": (2400, 9.0, 0.7, (0.1, 0.4, 0.5)),
    "coast": (1800, 14.0, 1.2, (0.1, 0.2, 0.7)),
}
# How three of them write what the others write by the schema.
SITES = {
    "east": """\
# East measures glucose in mmol/L, and codes sexes by numbers.
columns:
  glucose: {unit: mmol/L}
  sex: {codes: {1: m, 2: f}}
""",
    "west": """\
# West exports with commas in numbers and days as in 31.12.2025.
decimal: ","
columns:
  admitted: {format: "%d.%m.%Y"}
  stage: {codes: {1: I, 2: II, 3: III, 4: IV}}
""",
    "coast": """\
# Coast calls its columns otherwise.
columns:
  age: {from: AGE_Y}
  sbp: {from: RR_SYS, unit: kPa}
  creatinine: {from: CREA, unit: umol/L}
""",
}


def records(
    size: int, older: float, sicker: float, wards: tuple[float, ...], seed: int
) -> list[Row]:
    """Patients of a ward; ``None`` where nothing was measured."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(62 + older, 13, size), 18, 99).round()
    stage = np.clip((rng.normal(1.2 + sicker, 0.9, size)).round(), 0, 3).astype(int)
    glucose = rng.lognormal(4.65 + 0.12 * sicker, 0.25, size).round(1)
    creatinine = rng.lognormal(0.0 + 0.25 * sicker, 0.3, size).round(2)
    pressure = rng.normal(130 + 5 * sicker, 17, size).round()
    smoker = rng.uniform(size=size) < 0.2 + 0.1 * sicker
    day = np.datetime64("2025-01-01") + rng.integers(0, 365, size).astype("timedelta64[D]")
    gaps = rng.uniform(size=size) < 0.08
    return [
        {
            "patient": f"P{seed:02d}{k:05d}",
            "admitted": str(day[k]),
            "age": int(age[k]),
            "sex": "fm"[int(rng.integers(2))],
            "ward": str(rng.choice(WARDS, p=wards)),
            "stage": STAGES[stage[k]],
            "smoker": "yes" if smoker[k] else "no",
            "glucose": float(glucose[k]),
            "creatinine": None if gaps[k] else float(creatinine[k]),
            "sbp": int(pressure[k]),
            "remarks": str(rng.choice(["", "see letter", "transferred", "n/a"])),
        }
        for k in range(size)
    ]


def of_south(row: Row) -> Row:
    """A code for what was not measured, and columns in another order."""
    return dict(reversed([*(row | {"creatinine": row["creatinine"] or -999}).items()]))


def of_east(row: Row) -> Row:
    """Glucose in mmol/L, sexes as numbers."""
    return row | {
        "glucose": round(row["glucose"] / 18.0156, 2),
        "sex": "2" if row["sex"] == "f" else "1",
    }


def of_west(row: Row) -> Row:
    """Commas in numbers, stages as numbers, days first."""
    return row | {
        "admitted": ".".join(reversed(row["admitted"].split("-"))),
        "stage": STAGES.index(row["stage"]) + 1,
        "glucose": str(row["glucose"]).replace(".", ","),
        "creatinine": str(row["creatinine"] or "").replace(".", ","),
    }


def of_coast(row: Row) -> Row:
    """Other names, pressure in kPa, creatinine in umol/L."""
    creatinine = row["creatinine"]
    written = row | {
        "sbp": round(row["sbp"] / 7.500617, 2),
        "creatinine": None if creatinine is None else round(creatinine * 88.402),
    }
    names = {"age": "AGE_Y", "sbp": "RR_SYS", "creatinine": "CREA"}
    return {names.get(name, name): value for name, value in written.items()}


WRITTEN = {"south": of_south, "east": of_east, "west": of_west, "coast": of_coast}


def write(path: Path, rows: list[Row], separator: str = ",") -> None:
    """A csv with a line of names."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=separator, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main(folder: Path, most: int = 10_000) -> None:
    """Write the two machines' folders, of each hospital so many records at most."""
    hospitals, coordinator = folder / "hospitals", folder / "coordinator"
    for each in (hospitals, coordinator):
        each.mkdir(parents=True, exist_ok=True)
        shutil.copy(SCHEMA, each / SCHEMA.name)
    for seed, (name, (size, older, sicker, wards)) in enumerate(HOSPITALS.items(), 1):
        rows = records(min(size, most), older, sicker, wards, seed)
        if name in WRITTEN:
            rows = [WRITTEN[name](row) for row in rows]
        write(hospitals / f"{name}.csv", rows, ";" if name == "west" else ",")
        if name in SITES:
            (hospitals / f"{name}.site.yml").write_text(SITES[name], encoding="utf-8")
    # Public records: of the law of such wards, and of no hospital here.
    public = [
        row for k, part in enumerate(HOSPITALS.values()) for row in records(400, *part[1:], 50 + k)
    ]
    for each in (hospitals, coordinator):
        write(each / "public.csv", public)
    write(coordinator / "validation.csv", records(min(1500, most), 0.0, 0.0, (0.3, 0.5, 0.2), 99))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
