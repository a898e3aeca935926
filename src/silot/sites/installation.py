"""Report what this installation computes with, and what a problem would take."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
from threadpoolctl import threadpool_info  # pyright: ignore[reportMissingTypeStubs]

from silot_transport import Forecast, _native, exact_plan, forecast
from silot_transport.memory import available

from ..federation.result import plain
from ..render.sections import Block, Facts, Heading, Paragraph
from ..render.words import format_bytes

_LIBRARIES = ("numpy", "scipy")
# An optional requirement, and the extra that it is of.
_OPTIONAL = re.compile(r"""^([\w.-]+).*extra == ["']([\w-]+)["']""")
# Size of the trial, and how seconds grow with the number of pairs: between what Gaussian samples
# of 1000 and of 20,000 points took.
_TRIAL, _GROWTH = 1000, 1.1


@dataclass(frozen=True)
class Expected:
    """What an exact distance takes.

    ``seconds`` are of a Gaussian sample: two of 1000 points are solved, and their time is scaled
    by ``(n m / 1000^2) ** 1.1``. Data may take several times more or less.
    """

    n: int
    m: int
    dim: int
    memory: Forecast
    seconds: float


@dataclass(frozen=True)
class Checkup:
    """Findings of ``silot doctor``."""

    kernels: str
    """The instruction set of the compiled kernels in use; ``"none"`` for the pure path."""
    sets: tuple[str, ...]
    """Those that this processor could use, the widest first."""
    reason: str
    versions: Mapping[str, str]
    blas: Sequence[str]
    """Libraries for products of matrices and other threads, and how many they use."""
    cores: int
    gpu: str
    """The accelerators that ``silot_transport.torch`` can use, or why there is none."""
    extras: Mapping[str, tuple[str, ...]]
    """What each extra lacks; nothing where it is complete."""
    memory_free: float
    """Bytes; infinite where the system does not tell."""
    expected: Expected | None = None

    def to_dict(self) -> dict[str, Any]:
        """Fields by name; infinite numbers are ``None``."""
        return plain(asdict(self))

    def sections(self) -> list[Block]:
        """Return what a terminal shows."""
        facts = [
            ("kernels", f"{self.kernels}: {self.reason}"),
            *((name.lower(), version) for name, version in self.versions.items()),
            *(("threads", text) for text in self.blas),
            ("cores", str(self.cores)),
            ("gpu", self.gpu),
            ("memory", f"{_bytes(self.memory_free)} free"),
        ]
        blocks: list[Block] = [Facts(facts), Heading("extras", level=3)]
        blocks.append(Facts([(name, _lacks(name, lacks)) for name, lacks in self.extras.items()]))
        if self.expected is not None:
            blocks += _forecast(self.expected)
        return blocks


def checkup(n: int | None = None, m: int | None = None, dim: int = 64) -> Checkup:
    """Look at this installation, and at a problem of n and m points in ``dim`` dimensions.

    Raises
    ------
    InputError
        Numbers that are not counts (``"option-size"``).
    """
    n, m = m if n is None else n, n if m is None else m
    expected = None
    if n is not None and m is not None:
        expected = Expected(n, m, dim, forecast(n, m, dim), _seconds(n, m, dim))
    versions = {name: metadata.version(name) for name in _LIBRARIES}
    return Checkup(
        *_kernels(), {"Python": platform.python_version(), **versions}, _threads(),
        os.cpu_count() or 1, _gpu(), _extras(), available(), expected,
    )  # fmt: skip


def _kernels() -> tuple[str, tuple[str, ...], str]:
    module = _native.kernels
    if module is None:
        return "none", (), f"pure Python, exact and slower: {_native.missing}"
    sets = tuple(module.sets())
    used = str(module.used())
    if used == sets[0]:
        return used, sets, "compiled for the widest instructions of this processor"
    return used, sets, f"compiled; this processor has {sets[0]} too"


def _threads() -> tuple[str, ...]:
    libraries = cast("list[dict[str, Any]]", threadpool_info())
    lines = {
        f"{item['num_threads']} of {item['internal_api']} {item.get('version') or ''}".strip()
        for item in libraries
    }
    return tuple(sorted(lines))


def _gpu() -> str:
    if find_spec("torch") is None:
        return "none: torch is not installed"
    # Builds for the host alone say so, and importing one to ask takes seconds.
    if metadata.version("torch").endswith("+cpu"):
        return f"none: torch {metadata.version('torch')} is built without"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return f"none: torch {metadata.version('torch')} finds no CUDA device"
    return ", ".join(torch.cuda.get_device_name(k) for k in range(count))


def _extras() -> dict[str, tuple[str, ...]]:
    lacking: dict[str, list[str]] = {}
    for line in metadata.requires("silot") or ():
        matched = _OPTIONAL.match(line)
        if matched is None:
            continue
        name, extra = matched.groups()
        lacks = lacking.setdefault(extra, [])
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            lacks.append(name)
    return {extra: tuple(lacks) for extra, lacks in sorted(lacking.items())}


def _seconds(n: int, m: int, dim: int) -> float:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, _TRIAL, dim))
    exact_plan(x, y)
    # Of this process: what else the machine does is no part of it.
    began = time.process_time()
    exact_plan(x, y)
    return (time.process_time() - began) * (n * m / _TRIAL**2) ** _GROWTH


def _lacks(extra: str, lacks: Sequence[str]) -> str:
    if not lacks:
        return "found"
    return f"missing {', '.join(lacks)}: pip install 'silot[{extra}]'"


def _forecast(expected: Expected) -> list[Block]:
    memory = expected.memory
    facts = [
        ("problem", f"exact, {expected.n} x {expected.m}, d = {expected.dim}"),
        ("memory", str(memory)),
        ("time", f"about {expected.seconds:.2g} s, scaled from a trial of {_TRIAL} points"),
    ]
    blocks: list[Block] = [Heading("an exact distance", level=3), Facts(facts)]
    if not memory.fits:
        words = (
            "It does not fit: 'direct' then gives bounds (with compiled kernels). Or use "
            "method 'sketch'."
        )
        blocks.append(Paragraph(words, "warning"))
    return blocks


def _bytes(count: float) -> str:
    return format_bytes(int(count)) if np.isfinite(count) else "unknown"
