"""Timing of alternatives side by side, and the table they are printed in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table


def medians(
    runs: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each alternative; they run in turn, so that drift hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            began = clock()
            run()
            if turn > 0:  # the first turn warms caches up
                seconds[name].append(clock() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table, highlight=False)
