"""Error, time and traffic of the secure distance: ``python -m benchmarks.secure [--processes]``.

Needs the environment of ``make secure``. Without an option, all parties are threads of this
process; with it, three processes linked by TLS on this machine, as ``silot secure`` runs them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from benchmarks.secure_stress import ROLES, ports
from benchmarks.timing import show
from silot.measure import Measure
from silot.results import format_bytes
from silot.secure import SecureOptions, forecast, make_keys

Cloud = npt.NDArray[np.float64]
Case = tuple[str, Cloud, Cloud, dict[str, object]]
_COMMAND = [sys.executable, "-c", "from silot.cli import main; main()", "secure"]


def main() -> None:
    """Print the table asked for."""
    if "--processes" in sys.argv[1:]:
        _processes()
    else:
        _threads()


def _threads() -> None:
    rows: list[tuple[str, ...]] = []
    for name, x, y, options in _cases():
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
        rows.append(
            (
                name,
                " ".join(str(value) for value in options.values()),
                *(f"{100 * (each / exact - 1):+.2f}" for each in errors),
                "yes" if held else "NO",
                f"{seconds:.1f}",
                format_bytes(int(max(each["bytes_sent"] for each in result.history))),
                f"{max(each['messages'] for each in result.history):.0f}",
            )
        )
    columns = ("data", "option", "error, %", "lower", "upper", "hold", "s", "sent", "messages")
    show(f"secure distance in one process, load {os.getloadavg()[0]:.1f}", columns, rows)


def _processes() -> None:
    rows: list[tuple[str, ...]] = []
    digits, target = load_digits(return_X_y=True)
    low, high = digits[target < 5][:300] / 16.0, digits[target >= 5][:300] / 16.0
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 16)), rng.normal(size=(1000, 16)) + 0.3
    for name, first, second, accuracy in (
        ("digits 300 x 300", low, high, "normal"),
        ("digits 300 x 300", low, high, "fast"),
        ("normal 1000 x 1000", x, y, "normal"),
    ):
        exact = silot.distance(first, second).value
        wall, used, sent, told = _played(first, second, accuracy)
        options = SecureOptions(accuracy="fast" if accuracy == "fast" else "normal")
        expected = forecast(len(first), len(second), first.shape[1], options)
        rows.append(
            (
                name,
                accuracy,
                *(f"{100 * (told[key] / exact - 1):+.2f}" for key in ("value", "lower", "upper")),
                f"{wall:.1f}",
                f"{used:.1f}",
                format_bytes(sent),
                f"{expected.seconds:.0f} s, {format_bytes(int(expected.bytes_sent))}",
            )
        )
    columns = ("data", "accuracy", "error, %", "lower", "upper", "s", "CPU s", "sent", "forecast")
    show(f"secure distance of three processes, load {os.getloadavg()[0]:.1f}", columns, rows)


def _played(x: Cloud, y: Cloud, accuracy: str) -> tuple[float, float, int, dict[str, float]]:
    """Wall and CPU seconds of all processes, most bytes a party sent, and the distance."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.savez(place / "a.npz", X=x)
        np.savez(place / "b.npz", X=y)
        make_keys(place / "keys")
        text = (place / "keys/peers.yml").read_text()
        for old, new in zip((9310, 9311, 9312), ports(), strict=True):
            text = text.replace(str(old), str(new))
        (place / "keys/peers.yml").write_text(text)
        before, began = _used(), time.perf_counter()
        parties = [
            subprocess.Popen(
                [
                    *(*_COMMAND, "--role", role, "--peers", str(place / "keys/peers.yml")),
                    *([] if role == "third" else ["--data", str(place / f"{role}.npz")]),
                    *("--accuracy", accuracy, "--json", "--timeout", "3600"),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for role in ROLES
        ]
        told = [json.loads(party.communicate()[0]) for party in parties]
        wall, used = time.perf_counter() - began, _used() - before
    sent = max(int(each["bytes_sent"]) for each in told)
    return wall, used, sent, told[-1]["distance"]


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _weights(name: str, cloud: Cloud) -> Cloud | None:
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


if __name__ == "__main__":
    main()
