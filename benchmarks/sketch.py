"""Seconds of the sketch: encoding at a holder, and comparing at the coordinator."""

from __future__ import annotations

import time

import numpy as np

from silot.privacy.cells import Cells
from silot.privacy.compare import Sampler, rate_of, squared_distance
from silot.privacy.sketch import Reading, decode, encode

RECORDS, FEATURES, CELLS = 100_000, 64, 128


def main() -> None:
    rng = np.random.default_rng(0)
    public = rng.normal(size=(1024, FEATURES))
    cells = Cells.of_sample(public, CELLS)
    records = rng.normal(size=(RECORDS, FEATURES))
    masses = np.ones(RECORDS)
    begun = time.perf_counter()
    vector = encode(records, masses, cells)
    print(
        f"sketch: encode {RECORDS} x {FEATURES}, {CELLS} cells: {time.perf_counter() - begun:.2f} s"
    )
    begun = time.perf_counter()
    rate = rate_of(public, cells, 0)
    print(f"sketch: calibrate on 1024 public records: {time.perf_counter() - begun:.2f} s")
    found = decode(Reading.of(vector, cells, 0.25), cells)
    sampler = Sampler.of(FEATURES, 0)
    begun = time.perf_counter()
    drawn = sampler.draw(found)
    squared_distance(drawn, drawn, rate)
    print(f"sketch: one distance: {time.perf_counter() - begun:.3f} s")


if __name__ == "__main__":
    main()
