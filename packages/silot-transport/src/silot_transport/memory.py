"""Forecasts of the memory that a problem needs, before anything is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ._check import integer
from .errors import MemoryShortError

_NUMBER = 8
# Beside the costs, exact solvers hold so much of them again: reduced costs and their copies where
# problems are small, blocks and candidate cells where they are large.
_SMALL, _BESIDE_SMALL, _BESIDE_LARGE = 1_000_000, 3.0, 0.25


@dataclass(frozen=True)
class Forecast:
    """Memory that ``exact_plan`` needs for n and m points in d dimensions.

    Attributes
    ----------
    cost_bytes
        The cost matrix: 8 n m.
    peak_bytes
        The costs, and what the solver and the points need beside them.
    available_bytes
        Memory that this process may still use, as far as the system reports it, else infinite.
    """

    cost_bytes: int
    peak_bytes: int
    available_bytes: float

    @property
    def fits(self) -> bool:
        """Whether as much memory is available."""
        return self.peak_bytes <= self.available_bytes

    def __str__(self) -> str:
        free = "unknown" if math.isinf(self.available_bytes) else _format_size(self.available_bytes)
        sizes = _format_size(self.cost_bytes), _format_size(self.peak_bytes)
        return f"costs {sizes[0]}, in all {sizes[1]}; free: {free}"


def forecast(n: int, m: int, d: int = 1) -> Forecast:
    """Forecast the memory that ``exact_plan`` of n and m points in d dimensions needs.

    Parameters
    ----------
    n, m, d
        Numbers of points, and of features.

    Returns
    -------
    Forecast

    Raises
    ------
    InputError
        Numbers that are not counts (``"option-size"``).

    Examples
    --------
    >>> forecast(30_000, 30_000, 64).cost_bytes
    7200000000
    """
    n, m, d = (integer(v, name, "option-size") for v, name in ((n, "n"), (m, "m"), (d, "d")))
    cells = n * m
    beside = _BESIDE_SMALL if cells <= _SMALL else _BESIDE_LARGE
    points = 4 * _NUMBER * (n + m) * (d + 2)
    peak = int(_NUMBER * cells * (1.0 + beside)) + points
    return Forecast(_NUMBER * cells, peak, available())


def fits(n: int, m: int, d: int) -> bool:
    """Return whether costs of n and m points fit into memory."""
    # Small problems fit and are many: the system is not asked about them.
    return n * m <= 4 * _SMALL or forecast(n, m, d).fits


def require(n: int, m: int, d: int) -> None:
    """Raise where costs of n and m points do not fit into memory.

    Raises
    ------
    MemoryShortError
        They do not.
    """
    if not fits(n, m, d):
        need = forecast(n, m, d)
        raise MemoryShortError(
            f"costs of {n} x {m} points need {_format_size(need.peak_bytes)}, and "
            f"{_format_size(need.available_bytes)} are free. Use fewer records, "
            "silot_transport.bounded_plan (which needs no such matrix) or a larger machine; "
            "silot_transport.forecast says how much a problem needs.",
            code="memory-short",
        )


def available() -> float:
    """Return how many bytes this process may still use, on this machine and by its limits."""
    return min(_free_on_machine(), _free_in_group(), _free_in_process())


def _free_on_machine() -> float:
    for line in _read_lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024.0
    return math.inf


def _free_in_group() -> float:
    most, used = (_read_lines(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if not most or not used or not most[0].isdigit():
        return math.inf
    # Pages of files count as used, and are given back when they are asked for.
    pages = sum(
        float(line.split()[1])
        for line in _read_lines("/sys/fs/cgroup/memory.stat")
        if line.split()[0] in ("inactive_file", "active_file")
    )
    return max(float(most[0]) - float(used[0]) + pages, 0.0)


def _free_in_process() -> float:
    try:
        import resource
    except ImportError:
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    size = _read_lines("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not size:
        return math.inf
    return max(limit - float(size[0].split()[0]) * resource.getpagesize(), 0.0)


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _format_size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"
