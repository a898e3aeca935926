"""Error, time and traffic of the secure distance, all parties threads of one process.

Needs the environment of ``make secure``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from evidence.common import Array, Context
from evidence.speed._parties import need_engine
from evidence.speed._timing import show
from silot.data.measure import Measure
from silot.render.words import format_bytes

# How many of them are run: all.
CASES = None
Case = tuple[str, Array, Array, dict[str, object]]
QUICK = {"CASES": 1}


def run(context: Context) -> None:
    need_engine()
    rows: list[tuple[str, ...]] = []
    for name, x, y, options in islice(_cases(), CASES):
        a, b = _weights(name, x), _weights(name, y)
        exact = silot.distance(Measure(x, a), Measure(y, b)).value
        scale = float(np.sqrt(x.var(0).sum() + y.var(0).sum()))
        began = time.perf_counter()
        result = silot.distance(
            Measure(x, a), Measure(y, b), method="secure", scale=scale, **options
        )
        seconds = time.perf_counter() - began
        held = result.lower <= exact * (1 + 1e-9) and exact <= result.upper * (1 + 1e-9)
        errors = (result.value, result.lower, result.upper)
        rows.append((
            name, " ".join(str(value) for value in options.values()),
            *(f"{100 * (each / exact - 1):+.2f}" for each in errors), "yes" if held else "NO",
            f"{seconds:.1f}", format_bytes(int(max(each["bytes_sent"] for each in result.history))),
            f"{max(each['messages'] for each in result.history):.0f}",
        ))  # fmt: skip
    columns = ("data", "option", "error, %", "lower", "upper", "hold", "s", "sent", "messages")
    show(f"secure distance in one process, load {os.getloadavg()[0]:.1f}", columns, rows)


def _weights(name: str, cloud: Array) -> Array | None:
    if "weighted" not in name:
        return None
    return np.random.default_rng(len(cloud)).lognormal(0.0, 1.0, len(cloud))


def _cases() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    digits, target = load_digits(return_X_y=True)
    low, high = digits[target < 5] / 16.0, digits[target >= 5] / 16.0
    yield "digits 300 / 300", low[:300], high[:300], {}
    yield "digits 300 / 300", low[:300], high[:300], {"accuracy": "fast"}
    yield "digits 200 / 300, weighted", low[:200], high[:300], {}
    for d in (2, 16, 64):
        x, y = rng.normal(size=(300, d)), rng.normal(size=(300, d))
        yield f"normal near, d = {d}, 300 / 300", x, y, {}
        yield f"normal far, d = {d}, 200 / 300", x[:200], 3.0 * y + 10.0, {}
    table, kind = load_breast_cancer(return_X_y=True)
    yield "breast cancer 200 / 300", table[kind == 0][:200], table[kind == 1][:300], {}
    table, kind = load_wine(return_X_y=True)
    yield "wine 59 / 71", table[kind == 0], table[kind == 1], {}
    yield "t, 1.5 degrees, 200 / 150", *(rng.standard_t(1.5, (n, 3)) for n in (200, 150)), {}
    x = rng.normal(size=(200, 2))
    yield "moved by 0.01, 200 / 200", x, x + 0.01 * rng.normal(size=(200, 2)), {}
    x, y = rng.normal(size=(100, 16)), rng.normal(size=(100, 16)) + 0.3
    yield "normal d = 16, 100 / 100", x, y, {"two_party": True}
