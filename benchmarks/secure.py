"""Error, time and traffic of the secure distance: ``python -m benchmarks.secure``.

Needs the environment of ``make secure``; all parties share this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits

import silot
from benchmarks.timing import show
from silot.results import format_bytes

Cloud = npt.NDArray[np.float64]


def main() -> None:
    """Print the table."""
    rows: list[tuple[str, ...]] = []
    for name, x, y, two_party in _cases():
        exact = silot.distance(x, y).value
        result = silot.distance(x, y, method="secure", two_party=two_party)
        sent = [format_bytes(int(entry["bytes_sent"])) for entry in result.history]
        rows.append(
            (
                name,
                "CHEETAH" if two_party else "ABY3",
                f"{exact:.4g}",
                f"{100 * (result.value / exact - 1):+.2f} %",
                "yes" if result.converged else "no",
                f"{result.seconds:.1f}",
                ", ".join(sent),
            )
        )
    load = os.getloadavg()[0]
    columns = ("data", "protocol", "W2", "error", "certified", "seconds", "sent by each party")
    show(f"secure distance, load of the machine {load:.1f}", columns, rows)


def _cases() -> Iterator[tuple[str, Cloud, Cloud, bool]]:
    rng = np.random.default_rng(0)
    digits, target = load_digits(return_X_y=True)
    low, high = digits[target < 5] / 16.0, digits[target >= 5] / 16.0
    yield "digits 300 / 300", low[:300], high[:300], False
    yield "digits 200 / 300", low[:200], high[:300], False
    for d in (2, 16, 64):
        x, y = rng.normal(size=(300, d)), rng.normal(size=(300, d))
        yield f"normal near, d = {d}, 300 / 300", x, y, False
        yield f"normal far, d = {d}, 200 / 300", x[:200], 3.0 * y + 10.0, False
    table, kind = load_breast_cancer(return_X_y=True)
    yield "breast cancer 200 / 300", table[kind == 0][:200], table[kind == 1][:300], False
    x, y = rng.normal(size=(1000, 16)), rng.normal(size=(1000, 16)) + 0.3
    yield "normal d = 16, 1000 / 1000", x, y, False
    yield "normal d = 16, 100 / 100", x[:100], y[:100], True


if __name__ == "__main__":
    main()
