"""The drawing of a plan: sources on the left, targets on the right, links between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from sklearn.isotonic import isotonic_regression

from ..federation.result import Array
from ..render import Picture
from ..render.figure import COLOURS, DARK, GREY, WIDTH, label, picture
from ..render.words import count
from .plan import LinkPlan

# Okabe and Ito's colours without yellow, which white paper swallows.
ROOMY = 40
_LONGEST_RECIPE = 40
_SWEEPS = 12
_SPELLED_LINKS = 8


@dataclass(frozen=True)
class Layout:
    """Devices of a plan from the top down, and their heights in rows."""

    sources: list[int]
    targets: list[int]
    source_heights: list[float]
    target_heights: list[float]

    @property
    def order(self) -> list[int]:
        """Sources, then targets."""
        return [*self.sources, *self.targets]

    @property
    def rows(self) -> int:
        """Height of the taller side."""
        return max(len(self.sources), len(self.targets), 1)


def layout(plan: LinkPlan) -> Layout:
    """Sources and targets in two columns with few links that cross.

    Each side in turn is sorted by the mean place of what it is linked to; the best of all orders
    seen is kept. Devices without links come last.
    """
    sources = [k for k, kind in enumerate(plan.psi.tolist()) if kind == 0]
    targets = [k for k, kind in enumerate(plan.psi.tolist()) if kind == 1]
    weights = plan.alpha[np.ix_(sources, targets)]
    # The order given, those without links last.
    left = np.argsort(weights.sum(axis=1) == 0, kind="stable")
    right = np.argsort(weights.sum(axis=0) == 0, kind="stable")
    best, fewest = (left, right), crossings(weights[np.ix_(left, right)])
    for _ in range(_SWEEPS):
        right = _by_neighbours(weights[left].T)
        left = _by_neighbours(weights[:, right])
        crossed = crossings(weights[np.ix_(left, right)])
        if crossed < fewest:
            best, fewest = (left, right), crossed
    left, right = best
    shown = weights[np.ix_(left, right)]
    rows = max(len(sources), len(targets))
    low = _heights(shown, np.arange(len(targets), dtype=np.float64), rows)
    high = np.arange(len(targets), dtype=np.float64) + (rows - len(targets)) / 2
    if len(sources) > len(targets):
        low = np.arange(len(sources), dtype=np.float64)
        high = _heights(shown.T, low, rows)
    return Layout(
        [sources[k] for k in left],
        [targets[k] for k in right],
        low.tolist(),
        high.tolist(),
    )


def crossings(weights: Array) -> int:
    """Pairs of links that cross when rows and columns stand in two parallel lines."""
    links = (weights > 0).astype(np.int64)
    below = np.zeros_like(links)
    below[:-1] = np.cumsum(links[::-1], axis=0)[::-1][1:]
    before = np.zeros_like(links)
    before[:, 1:] = np.cumsum(below, axis=1)[:, :-1]
    return int((links * before).sum())


def _by_neighbours(weights: Array) -> Any:
    """Rows by the mean column of their links, those without any last; ties stay in order."""
    total = weights.sum(axis=1)
    places = np.arange(weights.shape[1])
    means = np.where(total > 0, weights @ places / np.where(total > 0, total, 1.0), np.inf)
    return np.argsort(means, kind="stable")


def _heights(weights: Array, others: Array, rows: int) -> Array:
    """Places near the middle of each row's links, one apart at least, within the rows there are."""
    n = len(weights)
    if not n:
        return np.empty(0)
    total = weights.sum(axis=1)
    wanted = np.where(
        total > 0, weights @ others / np.where(total > 0, total, 1.0), float(rows - 1)
    )
    steps = np.arange(n, dtype=np.float64)
    # The closest places in rising order, of what remains when each row's own step is taken away.
    found = isotonic_regression(wanted - steps, y_min=0.0, y_max=float(max(rows - n, 0)))
    return np.asarray(found, dtype=np.float64) + steps


def network_figure(plan: LinkPlan, energy: Array, placed: Layout, unit: str = "J") -> Picture:
    """Sources on the left, targets on the right, links as wide as their weights.

    ``energy`` is that of every pair, in ``unit``.
    """
    roomy = placed.rows <= ROOMY
    step, size = (0.42, 9.0) if roomy else (0.2, 7.0)
    names = [label(name) for name in plan.names]
    recipes = _recipes(plan, energy, placed, unit) if roomy else {}
    height = 0.5 + step * placed.rows

    def room(devices: Sequence[int]) -> float:
        widths = [0.62 * size / 72 * len(names[k]) for k in devices]
        widths += [0.62 * (size - 1.5) / 72 * len(recipes.get(k, "")) for k in devices]
        return max([*widths, 0.9]) + 0.2

    ends = (room(placed.sources), WIDTH - room(placed.targets))

    def high(place: float) -> float:
        return height - 0.45 - step * (place + 0.5)

    def draw(figure: Figure) -> None:
        # Inches over the whole figure, so that the room of words is known.
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0.0, WIDTH)
        axes.set_ylim(0.0, height)
        axes.set_axis_off()
        colours = {device: COLOURS[k % 7] for k, device in enumerate(placed.sources)}
        heights = dict(zip(placed.sources, placed.source_heights, strict=True))
        heights |= dict(zip(placed.targets, placed.target_heights, strict=True))
        for i in placed.sources:
            for j in np.flatnonzero(plan.alpha[i]).tolist():
                weight = float(plan.alpha[i, j])
                _link(axes, ends, (high(heights[i]), high(heights[j])), weight, colours[i])
        for k in placed.order:
            source = plan.psi[k] == 0
            left_out = plan.names[k] in plan.unserved
            x, y = ends[0 if source else 1], high(heights[k])
            axes.plot(
                x,
                y,
                marker="s" if source else "D" if left_out else "o",
                color=colours[k] if source else "white",
                markeredgecolor=colours[k] if source else GREY if left_out else DARK,
                markeredgewidth=1.4,
                markersize=size,
                zorder=3,
            )
            _words(axes, x, y, names[k], recipes.get(k, ""), size, source)
        for x, text, side in (
            (ends[0], count(len(placed.sources), "source"), "right"),
            (ends[1], count(len(placed.targets), "target"), "left"),
        ):
            axes.text(x, height - 0.22, text, ha=side, va="center", fontsize=10, weight="bold")

    links = plan.links
    said = f"{count(len(placed.sources), 'source')} on the left, "
    said += f"{count(len(placed.targets), 'target')} on the right, {count(len(links), 'link')}"
    if links and len(links) <= _SPELLED_LINKS:
        said += ": " + "; ".join(
            f"{label(source)} to {label(target)} with weight {weight:.2f}"
            for source, target, weight in links
        )
    notes = [
        "Squares train and send their models to the right; circles receive. A link is as wide as "
        "its weight, and has the colour of its source."
    ]
    if plan.unserved:
        notes.append("Diamonds are targets that nobody serves.")
    if not roomy:
        notes.append("The table of links has weights and energies.")
    return picture(draw, (WIDTH, height), f"Network of devices: {said}.", " ".join(notes))


def _recipes(plan: LinkPlan, energy: Array, placed: Layout, unit: str) -> dict[int, str]:
    """What each device sends or is made of, in a few words."""
    found: dict[int, str] = {}

    def spent(sources: Any, targets: Any) -> str:
        return f"{float(energy[sources, targets].sum()):.3g} {unit}".strip()

    for i in placed.sources:
        receivers = np.flatnonzero(plan.alpha[i])
        total = f"{count(len(receivers), 'link')}, {spent(i, receivers)}"
        found[i] = total if len(receivers) else "no link"
    for j in placed.targets:
        senders = np.flatnonzero(plan.alpha[:, j])
        if not len(senders):
            found[j] = "nobody serves it"
            continue
        parts = [f"{label(plan.names[i])} {plan.alpha[i, j]:.2f}" for i in senders]
        found[j] = f"{' + '.join(parts)}, {spent(senders, j)}"
        if len(found[j]) > _LONGEST_RECIPE:
            found[j] = f"from {count(len(senders), 'source')}, {spent(senders, j)}"
    return found


def _link(
    axes: Axes,
    ends: tuple[float, float],
    heights: tuple[float, float],
    weight: float,
    colour: str,
) -> None:
    """A curve that leaves and arrives level."""
    (x, end), (y, goal) = ends, heights
    middle = (x + end) / 2
    points = [(x, y), (middle, y), (middle, goal), (end, goal)]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    patch = PathPatch(
        Path(points, codes),
        facecolor="none",
        edgecolor=colour,
        linewidth=0.7 + 4.3 * weight,
        alpha=0.75,
        capstyle="butt",
    )
    axes.add_patch(patch)


def _words(
    axes: Axes, x: float, y: float, name: str, recipe: str, size: float, source: bool
) -> None:
    at = x - 0.13 if source else x + 0.13
    side = "right" if source else "left"
    up = 0.07 if recipe else 0.0
    axes.text(at, y + up, name, ha=side, va="center", fontsize=size, parse_math=False)
    if recipe:
        axes.text(
            at, y - 0.09, recipe, ha=side, va="center", fontsize=size - 1.5, color="#55555b",
            parse_math=False,
        )  # fmt: skip
