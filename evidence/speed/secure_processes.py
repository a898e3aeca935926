"""Error, time and traffic of the secure distance of three processes, next to the forecast.

Needs the environment of ``make secure``.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import silot
from evidence.common import Array, Context
from evidence.speed._parties import COMMAND, ROLES, need_engine, peers
from evidence.speed._timing import show
from silot.render.words import format_bytes
from silot.sites.secure import SecureOptions, forecast

# How many of them are run: all.
CASES = None
QUICK = {"CASES": 1}


def run(context: Context) -> None:
    need_engine()
    rows: list[tuple[str, ...]] = []
    digits, target = load_digits(return_X_y=True)
    low, high = digits[target < 5][:300] / 16.0, digits[target >= 5][:300] / 16.0
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 16)), rng.normal(size=(1000, 16)) + 0.3
    cases = (
        ("digits 300 x 300", low, high, "normal"),
        ("digits 300 x 300", low, high, "fast"),
        ("normal 1000 x 1000", x, y, "normal"),
    )
    for name, first, second, accuracy in cases[:CASES]:
        exact = silot.distance(first, second).value
        wall, used, sent, told = _played(first, second, accuracy)
        options = SecureOptions(accuracy="fast" if accuracy == "fast" else "normal")
        expected = forecast(len(first), len(second), first.shape[1], options)
        rows.append((
            name, accuracy,
            *(f"{100 * (told[key] / exact - 1):+.2f}" for key in ("value", "lower", "upper")),
            f"{wall:.1f}", f"{used:.1f}", format_bytes(sent),
            f"{expected.seconds:.0f} s, {format_bytes(int(expected.bytes_sent))}",
        ))  # fmt: skip
    columns = ("data", "accuracy", "error, %", "lower", "upper", "s", "CPU s", "sent", "forecast")
    show(f"secure distance of three processes, load {os.getloadavg()[0]:.1f}", columns, rows)


def _played(x: Array, y: Array, accuracy: str) -> tuple[float, float, int, dict[str, float]]:
    """Wall and CPU seconds of all processes, most bytes a party sent, and the distance."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.savez(place / "a.npz", X=x)
        np.savez(place / "b.npz", X=y)
        options = ["--peers", str(peers(place)), "--accuracy", accuracy, "--json"]
        before, began = _used(), time.perf_counter()
        parties: list[subprocess.Popen[str]] = []
        for role in ROLES:
            data = [] if role == "third" else ["--data", str(place / f"{role}.npz")]
            command = [*COMMAND, "--role", role, *data, *options, "--timeout", "3600"]
            parties.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        told = [json.loads(party.communicate()[0]) for party in parties]
        wall, used = time.perf_counter() - began, _used() - before
    sent = max(int(each["bytes_sent"]) for each in told)
    return wall, used, sent, told[-1]["distance"]


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
