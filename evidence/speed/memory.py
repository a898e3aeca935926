"""Peak memory of an exact solve, and of valuation. Linux only: read from /proc."""

from __future__ import annotations

import multiprocessing
import resource
import time
from pathlib import Path

import numpy as np

from evidence.common import Context
from evidence.speed._timing import show
from silot import transport, value_holders

SIZE = 5000
# Of valuation: holders, their records, and features.
HOLDERS, RECORDS, FEATURES = 100, 500, 784
QUICK = {"SIZE": 500, "HOLDERS": 5, "RECORDS": 100, "FEATURES": 20}


def run(context: Context) -> None:
    """Print the table; every problem runs in a process of its own."""
    rows = []
    context = multiprocessing.get_context("spawn")
    for d, weighted in ((50, False), (2, False), (50, True)):
        with context.Pool(1) as pool:
            peak, seconds = pool.apply(_solve, (SIZE, d, weighted))
        rows.append(
            (
                f"{SIZE} x {SIZE}, d = {d}{', weighted' if weighted else ''}",
                f"{peak:.2f}",
                f"{seconds:.1f} s",
            )
        )
    show(
        f"exact W2: peak memory beyond imports, in cost matrices of {8 * SIZE**2 // 10**6} MB",
        ("problem", "matrices", "time"),
        rows,
    )
    held = 8 * HOLDERS * RECORDS * FEATURES // 10**6
    rows = []
    for validation in (True, False):
        with context.Pool(1) as pool:
            most, seconds, processor = pool.apply(_value, (validation, HOLDERS, RECORDS, FEATURES))
        what = "to validation data" if validation else "to their barycenter"
        rows.append((what, f"{most / 1e6:.0f} MB", f"{seconds:.1f} s", f"{processor:.1f} s"))
    show(
        f"value_holders, {HOLDERS} holders of {RECORDS} records, d = {FEATURES}: the most memory "
        f"the process ever had, of which the records are {held} MB",
        ("worth", "peak", "time", "processor"),
        rows,
    )


def _value(validation: bool, count: int, records: int, features: int) -> tuple[int, float, float]:
    rng = np.random.default_rng([2, 0])
    trusted = rng.normal(size=(records, features)) if validation else None
    holders = {f"h{k:03}": rng.normal(size=(records, features)) + 0.01 * k for k in range(count)}
    began, before = time.perf_counter(), _processor()
    value_holders(holders, trusted)
    return _peak(), time.perf_counter() - began, _processor() - before


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _solve(size: int, d: int, weighted: bool) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    transport.exact_plan(rng.normal(size=(500, 3)), rng.normal(size=(400, 3)))  # loads everything
    x, y = rng.normal(size=(size, d)), rng.normal(size=(size, d)) + 0.3
    a = rng.random(size) if weighted else None
    # A child inherits its parent's peak: start the count again from what is in use now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    began = time.perf_counter()
    transport.exact_plan(x, y, a)
    seconds = time.perf_counter() - began
    return (_peak() - before) / (8 * size**2), seconds


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])
