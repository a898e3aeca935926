"""Error, time and traffic of the secure distance, in one process and of three, by the forecast.

Needs the environment of ``make secure``.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from evidence.common import Array, Context, MissingError
from evidence.speed._timing import show
from silot.data.measure import Measure
from silot.render.words import format_bytes
from silot.sites.secure import SecureOptions, forecast, make_keys

# How many of each are run: all.
CASES = None
Accuracy = Literal["normal", "fast"]
QUICK = {"CASES": 1}
ROLES = ("a", "b", "third")


def run(context: Context) -> None:
    if find_spec("spu") is None:
        raise MissingError("the engine of secure distances is not installed (make secure)")
    _in_one_process()
    _in_three()


def _in_one_process() -> None:
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
        rows.append((
            name, " ".join(str(value) for value in options.values()),
            *_errors((result.value, result.lower, result.upper), exact), "yes" if held else "NO",
            f"{seconds:.1f}", format_bytes(int(max(each["bytes_sent"] for each in result.history))),
            f"{max(each['messages'] for each in result.history):.0f}",
        ))  # fmt: skip
    columns = ("data", "option", "error, %", "lower", "upper", "hold", "s", "sent", "messages")
    show(f"secure distance in one process, load {os.getloadavg()[0]:.1f}", columns, rows)


def _in_three() -> None:
    rows: list[tuple[str, ...]] = []
    low, high = (part[:300] for part in _digits())
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 16)), rng.normal(size=(1000, 16)) + 0.3
    cases: list[tuple[str, Array, Array, Accuracy]] = [
        ("digits 300 x 300", low, high, "normal"),
        ("digits 300 x 300", low, high, "fast"),
        ("normal 1000 x 1000", x, y, "normal"),
    ]
    for name, first, second, accuracy in cases[:CASES]:
        exact = silot.distance(first, second).value
        wall, used, sent, distance = _played(first, second, accuracy)
        options = SecureOptions(accuracy=accuracy)
        expected = forecast(len(first), len(second), first.shape[1], options)
        rows.append((
            name, accuracy, *_errors([distance[key] for key in ("value", "lower", "upper")], exact),
            f"{wall:.1f}", f"{used:.1f}", format_bytes(sent),
            f"{expected.seconds:.0f} s, {format_bytes(int(expected.bytes_sent))}",
        ))  # fmt: skip
    columns = ("data", "accuracy", "error, %", "lower", "upper", "s", "CPU s", "sent", "forecast")
    show(f"secure distance of three processes, load {os.getloadavg()[0]:.1f}", columns, rows)


def _errors(values: Sequence[float], exact: float) -> list[str]:
    return [f"{100 * (value / exact - 1):+.2f}" for value in values]


def _weights(name: str, cloud: Array) -> Array | None:
    if "weighted" not in name:
        return None
    return np.random.default_rng(len(cloud)).lognormal(0.0, 1.0, len(cloud))


def _digits() -> tuple[Array, Array]:
    digits, target = load_digits(return_X_y=True)
    return digits[target < 5] / 16.0, digits[target >= 5] / 16.0


def _cases() -> Iterator[tuple[str, Array, Array, dict[str, object]]]:
    rng = np.random.default_rng(0)
    low, high = _digits()
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


def _played(x: Array, y: Array, accuracy: Accuracy) -> tuple[float, float, int, dict[str, float]]:
    """Wall and CPU seconds of all processes, most bytes a party sent, and the distance."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.savez(place / "a.npz", X=x)
        np.savez(place / "b.npz", X=y)
        command = [sys.executable, "-m", "silot", "distance", "secure", "--peers", _link(place)]
        command += ["--accuracy", accuracy, "--json", "--timeout", "3600"]
        before, began = _used(), time.perf_counter()
        parties: list[subprocess.Popen[str]] = []
        for role in ROLES:
            data = [] if role == "third" else ["--data", str(place / f"{role}.npz")]
            parties.append(
                subprocess.Popen(
                    [*command, "--role", role, *data], stdout=subprocess.PIPE, text=True
                )
            )
        replies = [json.loads(party.communicate()[0]) for party in parties]
        wall, used = time.perf_counter() - began, _used() - before
    sent = max(int(reply["bytes_sent"]) for reply in replies)
    return wall, used, sent, replies[-1]["distance"]


def _link(place: Path) -> str:
    """Make keys and addresses of three parties on this machine, on ports that are free."""
    make_keys(place / "keys")
    path = place / "keys/peers.yml"
    text = path.read_text()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in ROLES]
    for old, one in zip((9310, 9311, 9312), sockets, strict=True):
        text = text.replace(str(old), str(one.getsockname()[1]))
        one.close()
    path.write_text(text)
    return str(path)


def _used() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
