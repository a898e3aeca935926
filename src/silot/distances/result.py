"""Distances with bounds, a status, a cost and a statement of what was disclosed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..federation.result import Cost, Preflighted, RunResult, finite, in_doubt, plain
from ..render.figure import axes_of
from .cost_parts import Parts
from .naming import Columns, column_of_each, name_verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from silot_transport import TwoSampleResult

    from ..data.preflight import Preflight


def summarize(result: Any, *facts: str) -> str:
    """Write a result in one line: its kind, a few facts, and how its status begins."""
    return f"{type(result).__name__}({', '.join([*facts, result.status.split(':')[0]])})"


def fields_by_name(result: Any, *names: str) -> dict[str, Any]:
    """Return fields and properties of a result, ready for JSON."""
    return {name: plain(getattr(result, name)) for name in names}


@dataclass(frozen=True, kw_only=True)
class Distance(RunResult):
    """A Wasserstein distance between two measures, with bounds.

    Attributes
    ----------
    value
        Best estimate of ``W_p``, between ``lower`` and ``upper``.
    lower, upper
        Certified bounds of the exact distance: they hold whenever every party followed the
        protocol. ``upper`` is infinite when the run gives none.
    method
        Name of the protocol.
    status
        In words: whether the method finished, what kind of number ``value`` is, and what to
        change for a better one.
    converged
        Whether the method reached what it can reach.
    holders
        The two sides.
    p
        Order of the distance.
    rounds, bytes_sent, bytes_received, seconds
        The cost: exchanges, bytes each way seen from the coordinator, and duration.
    disclosure
        Most detailed level disclosed: ``public``, ``private``, ``statistics`` or ``record``.
    seed
        Seed of the run; with it and the same data the result is the same.
    history
        One entry a round, for methods that iterate.
    interval
        Where ``W_p`` likely lies by a statistical argument (95 %), for methods that add noise:
        bias, noise and sampling together, as estimated on public records; not certified.
        ``None`` for others, and where nothing public shows how far estimates are off.
    parts
        What the squared distance is made of, by column and by class, where that was requested
        (``why=True``) and sent; ``None`` elsewhere.
    test
        Whether both are samples of one distribution, as far as a test can tell: p-value, which
        columns drive a difference and by how much, and which difference would have been detected
        (``silot.transport.two_sample``). It may be computed when it is first read. ``None`` where
        nobody had the records of both sides.
    transcript
        The messages of the run.
    """

    view: ClassVar = "view:distance"

    value: float
    lower: float
    upper: float
    method: str
    status: str
    converged: bool
    holders: tuple[str, str]
    p: int
    seed: int | None = None
    history: tuple[Mapping[str, float], ...] = ()
    interval: tuple[float, float] | None = None
    parts: Parts | None = None
    test: TwoSampleResult | None = None

    @property
    def indistinct(self) -> bool:
        """Whether a test could not distinguish both sides; ``False`` if nobody tested."""
        return self.test is not None and self.test.verdict == "not distinguishable"

    @property
    def bounds(self) -> tuple[float, float]:
        """``(lower, upper)``."""
        return self.lower, self.upper

    def named(self, columns: Columns) -> Self:
        """Return the distance with names, and units, of the columns in its parts and verdict."""
        # The test saw columns by their places; names are those of the asker.
        verdict = None if self.test is None else name_verdict(self.test, columns)
        parts = None if self.parts is None else self.parts.named(column_of_each(columns))
        return replace(self, parts=parts, test=verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON: an infinite bound is ``None``."""
        return {
            "value": finite(self.value),
            "lower": finite(self.lower),
            "upper": finite(self.upper),
            "method": self.method,
            "status": self.status,
            "converged": self.converged,
            "holders": list(self.holders),
            "p": self.p,
            **self._cost_dict(),
            "seed": self.seed,
            "history": [
                {key: finite(value) for key, value in entry.items()} for entry in self.history
            ],
            "interval": None if self.interval is None else list(self.interval),
            "parts": None if self.parts is None else self.parts.to_dict(),
            "test": None if self.test is None else self.test.to_dict(),
        }

    def __repr__(self) -> str:
        bounds = f"[{self.lower:.6g}, {self.upper:.6g}]"
        return summarize(self, f"{self.value:.6g} in {bounds}", self.method)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bounds round by round (one point for methods of one round)."""
        axes = axes_of(ax)
        steps = [entry for entry in self.history if "upper" in entry]
        if steps:
            rounds = [entry["round"] for entry in steps]
            axes.plot(rounds, [entry["upper"] for entry in steps], label="upper bound")
            axes.plot(rounds, [entry["lower"] for entry in steps], label="lower bound")
            axes.set_xlabel("round")
        top = self.upper if math.isfinite(self.upper) else self.value
        last = steps[-1]["round"] if steps else 0
        axes.errorbar(
            [last],
            [self.value],
            [[self.value - self.lower], [top - self.value]],
            fmt="o",
            capsize=4,
            color="black",
            label="value",
        )
        axes.set_ylabel(f"$W_{self.p}$")
        axes.set_title(f"{self.method}: {' and '.join(self.holders)}")
        axes.legend()
        return axes


@dataclass(frozen=True, kw_only=True, eq=False)
class DistanceMatrix(Preflighted):
    """Distances between all pairs of holders.

    Attributes
    ----------
    names
        Holders, in the order of rows and columns.
    values, lower, upper
        Symmetric matrices (N, N) with a zero diagonal.
    pairs
        The ``Distance`` of every pair of names, in the order of ``names``.
    shared_cost
        The cost where one run made all pairs; ``None`` where each pair has its own.
    together
        What all pairs took where those that share no holder were asked together: fewer exchanges,
        and less time, than the sum of their costs.
    """

    view: ClassVar = "view:matrix"

    names: tuple[str, ...]
    pairs: Mapping[tuple[str, str], Distance]
    method: str
    p: int
    shared_cost: Cost | None = None
    together: Cost | None = None

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Estimates."""
        return self._build_matrix("value")

    @property
    def lower(self) -> npt.NDArray[np.float64]:
        """Certified lower bounds."""
        return self._build_matrix("lower")

    @property
    def upper(self) -> npt.NDArray[np.float64]:
        """Certified upper bounds, infinite where there is none."""
        return self._build_matrix("upper")

    @property
    def cost(self) -> Cost:
        """Cost of all pairs: the one cost they share, or the sum."""
        if self.shared_cost is not None or self.together is not None:
            return self.shared_cost or self.together or Cost()
        # Holders have ledgers of their own: their charges are no sum.
        return replace(sum((pair.cost for pair in self.pairs.values()), Cost()), privacy_mu=0.0)

    @property
    def disclosure(self) -> str:
        """Most detailed thing disclosed in any pair."""
        order = ("public", "private", "statistics", "record")
        return max((pair.disclosure for pair in self.pairs.values()), key=order.index)

    @property
    def preflight(self) -> Preflight | None:
        """Checks of the tables of all holders, which every pair has."""
        return next(iter(self.pairs.values())).preflight if self.pairs else None

    @property
    def converged(self) -> bool:
        """Whether every pair converged."""
        return all(pair.converged for pair in self.pairs.values())

    @property
    def status(self) -> str:
        """How many pairs converged, and the status of the first other one."""
        others = [pair for pair in self.pairs.values() if not pair.converged]
        if not others:
            return in_doubt(f"converged: all {len(self.pairs)} pairs", self.preflight)
        return (
            f"{len(others)} of {len(self.pairs)} pairs did not converge; "
            f"{' and '.join(others[0].holders)}: {others[0].status}"
        )

    @property
    def p_values(self) -> dict[tuple[str, str], float]:
        """p-value of every pair that was tested, for all of them together.

        Of the pairs that are called different at a level, that share is not, on average
        (Benjamini and Hochberg, 1995).
        """
        raw = {
            pair: item.test.p_value
            for pair, item in self.pairs.items()
            if item.test is not None and item.test.verdict != "cannot be tested"
        }
        # From the largest downwards: each counts for as many pairs as there are to one below it.
        adjusted, least = dict[tuple[str, str], float](), 1.0
        ranked = sorted(raw, key=lambda pair: raw[pair])
        for k, pair in reversed([*enumerate(ranked, 1)]):
            adjusted[pair] = least = min(least, len(raw) / k * raw[pair])
        return adjusted

    def __getitem__(self, pair: tuple[str, str]) -> Distance:
        """Return the distance of two holders, named in either order."""
        a, b = pair
        return self.pairs[(a, b)] if (a, b) in self.pairs else self.pairs[(b, a)]

    def _build_matrix(self, attribute: str) -> npt.NDArray[np.float64]:
        place = {name: k for k, name in enumerate(self.names)}
        matrix = np.zeros((len(self.names), len(self.names)))
        for (a, b), pair in self.pairs.items():
            i, j = place[a], place[b]
            matrix[i, j] = matrix[j, i] = getattr(pair, attribute)
        return matrix

    @property
    def value(self) -> dict[tuple[str, str], float]:
        """The distance of each pair."""
        return {pair: item.value for pair, item in self.pairs.items()}

    @property
    def interval(self) -> dict[tuple[str, str], tuple[float, float]]:
        """The likely interval (95 %) of each pair that has one."""
        return {pair: item.interval for pair, item in self.pairs.items() if item.interval}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        cost = self.cost
        return {
            **fields_by_name(self, "names", "method", "p", "values", "lower", "upper", "status"),
            "converged": self.converged,
            "rounds": cost.rounds,
            "bytes_sent": cost.bytes_sent,
            "bytes_received": cost.bytes_received,
            "seconds": cost.seconds,
            "disclosure": self.disclosure,
            "preflight": None if self.preflight is None else self.preflight.to_dict(),
            # The preflight is the same for all pairs, and stands above them once.
            "pairs": [replace(pair, preflight=None).to_dict() for pair in self.pairs.values()],
        }

    def __repr__(self) -> str:
        return summarize(self, f"{len(self.names)} holders", self.method)

    def plot(self, ax: Axes | None = None, *, vmax: float | None = None) -> Axes:
        """Draw the values as a heat map, of colours up to ``vmax`` (default: the largest)."""
        axes = axes_of(ax)
        values = self.values
        image = axes.imshow(values, cmap="Blues", vmin=0.0, vmax=vmax)
        ticks = range(len(self.names))
        axes.set_xticks(ticks, self.names, rotation=45, ha="right", parse_math=False)
        axes.set_yticks(ticks, self.names, parse_math=False)
        if len(self.names) <= 12:
            middle = 0.5 * (values.max() if vmax is None else vmax)
            for i in ticks:
                for j in ticks:
                    shade = "white" if values[i, j] > middle else "black"
                    axes.text(j, i, f"{values[i, j]:.3g}", ha="center", va="center", color=shade)
        axes.set_title(f"$W_{self.p}$ by {self.method}")
        if axes.figure is not None:
            axes.figure.colorbar(image, ax=axes, shrink=0.8)
        return axes
