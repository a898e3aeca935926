"""What every result offers: the verdict, the value, what it cost and disclosed, and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..render.figure import axes_of
from ..render.shown import Shown, shown, verdict_of
from .files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of the JSON of results; result.schema.json, beside this file, describes it.
FORMAT = 1


class Result(Protocol):
    """Base of the results of all functions of ``silot`` that compute something."""

    @property
    def verdict(self) -> str:
        """The conclusion, in one or two sentences."""
        ...

    @property
    def value(self) -> Any:
        """The number that was requested, or numbers by name; ``None`` where there is none."""
        ...

    @property
    def interval(self) -> Any:
        """Where the value lies in 95 % of cases, by name as the value; ``None`` if not known."""
        ...

    @property
    def cost(self) -> Any:
        """Rounds, bytes, seconds and privacy spent; ``None`` where nothing was sent."""
        ...

    @property
    def disclosure(self) -> str:
        """The most detailed thing that a holder sent; empty where nothing was sent."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        ...

    def to_json(self) -> str:
        """Return the JSON text that ``result.schema.json`` describes."""
        ...

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the value."""
        ...

    def report(self, path: str | Path) -> None:
        """Write the report as one HTML file."""
        ...


class Reported(Shown):
    """Base of all results: a ``Result`` once it has a ``value`` and ``to_dict``."""

    interval: Any = None
    """Where the value lies in 95 % of cases, by name as the value; ``None`` if not known."""
    cost: Any = None
    """Rounds, bytes, seconds and privacy spent; ``None`` where nothing was sent."""
    disclosure: Any = ""
    """The most detailed thing that a holder sent; empty where nothing was sent."""

    @property
    def verdict(self) -> str:
        """What follows, in a sentence or two: what a report begins with."""
        return verdict_of(self)

    @property
    def body(self) -> dict[str, Any]:
        """What the JSON of all results begins with, and then ``to_dict``."""
        result = cast("Result", self)
        cost = result.cost
        head = {
            "format": FORMAT,
            "kind": type(self).__name__,
            "verdict": result.verdict,
            "value": _numbers(result.value),
            "interval": _numbers(result.interval),
            "cost": None if cost is None else vars(cost),
            "disclosure": result.disclosure,
        }
        return {**head, **result.to_dict()}

    def to_json(self) -> str:
        """Return ``body`` as JSON text."""
        return json.dumps(self.body, allow_nan=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the value, or values by name as points with their intervals."""
        result = cast("Result", self)
        value, interval = result.value, result.interval
        values = value if isinstance(value, Mapping) else {"": value}
        ends = interval if isinstance(interval, Mapping) else {"": interval}
        axes = axes_of(ax)
        for k, (name, number) in enumerate(cast("Mapping[Any, Any]", values).items()):
            low, high = cast("Mapping[Any, Any]", ends).get(name) or (number, number)
            axes.plot([low, high], [k, k], "-", color="C0")
            axes.plot([number], [k], "o", color="C0")
        axes.set_yticks(range(len(values)), [*map(_name, values)], parse_math=False)
        axes.invert_yaxis()
        return axes

    def report(self, path: str | Path) -> None:
        """Write the report as one HTML file, whole or not at all.

        Where it shows records, only the user may read the file.

        Raises
        ------
        FileError
            The folder is missing or not writable, or the disk is full.
        """
        # Slow to import.
        from ..render import html

        blocks = shown(self, "page")
        write_whole(Path(path), html.render(blocks).encode(), private=html.is_private(blocks))


def _name(key: Any) -> str:
    return " and ".join(cast("tuple[str, ...]", key)) if isinstance(key, tuple) else str(key)


def _numbers(value: Any) -> Any:
    """Return numbers ready for JSON; those of pairs by both names."""
    if isinstance(value, Mapping):
        return {_name(key): _numbers(item) for key, item in cast("Any", value).items()}
    if isinstance(value, tuple):
        return [_numbers(item) for item in cast("tuple[Any, ...]", value)]
    number = None if value is None else float(value)
    return number if number is not None and abs(number) < float("inf") else None
