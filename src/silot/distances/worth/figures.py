"""Holders by their distances to a target, and a barycenter round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...render import Picture
from ...render.figure import BLUE, ORANGE, WIDTH, is_narrow, label, name_rows
from ...render.words import count, number
from ..figures import rounds_figure
from .result import Barycenter, Contribution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ranking_figure(ranked: Sequence[Contribution], target: str) -> Picture:
    """Draw distances of holders to the target with bounds or intervals, the closest on top."""
    rows = len(ranked)
    places = np.arange(rows)
    size, line = (9.0, 0.3) if rows <= 40 else (7.0, 0.185)
    height = 0.75 + rows * line
    values, lower, upper = np.array([(item.distance.value, *_ends(item)) for item in ranked]).T
    done = np.array([item.distance.converged for item in ranked])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        open_ended = ~np.isfinite(upper)
        shown = np.where(open_ended, values, upper)
        axes.hlines(places, lower, shown, color=BLUE, linewidth=2.2, alpha=0.45)
        axes.plot(lower, places, "|", color=BLUE, markersize=size - 1)
        axes.plot(shown[~open_ended], places[~open_ended], "|", color=BLUE, markersize=size - 1)
        axes.plot(values[open_ended], places[open_ended], color=BLUE, marker=9, linestyle="none")
        axes.plot(values[done], places[done], "o", color=BLUE, markersize=size / 2)
        axes.plot(values[~done], places[~done], "o", color=ORANGE, mfc="white", markersize=size / 2)
        words = [label(item.holder, is_narrow(figure)) for item in ranked]
        name_rows(axes, words, size)
        axes.set_xlim(left=min(0.0, float(np.nanmin(lower))))
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="x", top=rows > 20, labeltop=rows > 20)
        axes.set_xlabel(f"distance to {target}")

    first = ranked[0]
    likely = [_ends(item) != item.distance.bounds for item in ranked]
    what = "certified lower to the upper bound"
    if all(likely):
        what = "lower to the upper end of likely intervals (95 %), which are not certified"
    elif any(likely):
        what += ", or of likely intervals (95 %), where no upper bound is known"
    notes = [f"Points are estimates, bars reach from the {what}."]
    if not np.isfinite(upper).all():
        notes.append("An arrow stands for a bound that is not known.")
    if not done.all():
        notes.append("Hollow points did not converge.")
    return Picture(
        draw,
        (WIDTH, height),
        f"Distances of {count(rows, 'holder')} to {target} with bounds, the closest on top: "
        f"{label(first.holder)} at {number(first.distance.value)}.",
        " ".join(notes),
        narrow_height=height,
    )


def _ends(item: Contribution) -> tuple[float, float]:
    """Return the bounds of a distance, or its interval where no upper bound is known."""
    distance = item.distance
    likely = distance.interval is not None and not np.isfinite(distance.upper)
    return distance.interval if likely and distance.interval else distance.bounds


def objective_figure(result: Barycenter) -> Picture:
    """Draw the objective of a barycenter round by round."""
    return rounds_figure(
        [entry["round"] for entry in result.history],
        {"objective": [entry["objective"] for entry in result.history]},
        "objective",
        "The weighted sum of squared distances after every round; less is better.",
    )
