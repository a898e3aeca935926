"""Seconds of the sketch: encoding at a holder, and comparing at the coordinator."""

from __future__ import annotations

import time

import numpy as np

from evidence.common import Context
from silot.privacy.calibrate import Calibration, Source
from silot.privacy.cells import Cells
from silot.privacy.compare import rate_of
from silot.privacy.sketch import Reading, decode, encode

RECORDS, FEATURES, CELLS = 100_000, 64, 128


def run(context: Context) -> None:
    """Print seconds of every step."""
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
    print(f"sketch: samples of 1024 public records: {time.perf_counter() - begun:.2f} s")
    reading = Reading.of(vector, cells, 0.25)
    calibration = Calibration.of(
        public,
        None,
        classes=1,
        embedding="none",
        cells=cells,
        prior=None,
        mu=0.25,
        rate=rate,
        seed=0,
    )
    assert calibration is not None
    side = calibration.side(reading, decode(reading, cells))
    source = Source(float(RECORDS), noisy=True)
    for what in ("first distance, with the simulation", "one distance more"):
        begun = time.perf_counter()
        calibration.estimates([(side, side)], [(source, source)])
        print(f"sketch: {what}: {time.perf_counter() - begun:.3f} s")
