"""Figures of a plan: pairs of devices, progress, and the network of sources and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..federation.result import Array
from ..render import Picture
from ..render.figure import (
    COLOURS,
    DARK,
    GREY,
    NARROW,
    NUMBERED_CELLS,
    WIDTH,
    NamedCells,
    is_narrow,
    label,
    name_columns,
    number_cells,
    shade_cells,
)
from ..render.words import count, listed
from .plan import LinkPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELLED_TICKS = 40
# Most rows that have room for words on what each device sends.
_ROOMY = 40
_LONGEST_RECIPE = 40
_SWEEPS = 12
_SPELLED_LINKS = 8


def pair_figure(
    names: Sequence[str],
    values: Array,
    *,
    what: str,
    caption: str,
    links: Array | None = None,
    strip: Array | None = None,
    ends: tuple[str, str] = ("source", "target"),
) -> Picture:
    """Draw a heat map of pairs of devices; NaN is grey, links are marked.

    ``strip`` stands left of the rows, with colours of its own.
    """
    heat = _PairMap(names, values, what, links, strip, ends)
    notes = [caption]
    if links is not None and (links > 0).any():
        notes.append("Links of the plan are marked.")
    if np.isnan(values).any():
        notes.append("Grey pairs do not count or may not be linked.")
    if heat.step > 1:
        notes.append(f"One device in {heat.step} is named.")
    return Picture(
        heat.draw,
        heat.layout(False),
        f"Heat map over pairs of {count(len(names), 'device')}: {what}.",
        " ".join(notes),
        narrow_height=heat.layout(True)[1],
    )


@dataclass(frozen=True, eq=False)
class _PairMap(NamedCells):
    """Pairs as coloured cells, about square, with a strip on their left where there is one."""

    values: Array
    what: str
    links: Array | None
    strip: Array | None
    ends: tuple[str, str]

    @property
    def step(self) -> int:
        """How many devices there are to one that is named."""
        return -(-len(self.names) // _LABELLED_TICKS)

    def layout(self, narrow: bool) -> tuple[float, float]:
        """Return width and height in inches."""
        word = 0.62 * self._size / 72 * max(len(label(name, narrow)) for name in self.names)
        width = NARROW if narrow else min(max(0.62 * len(self.names) + word + 2.2, 5.2), WIDTH)
        side = max(width - word - 2.2, 1.5)
        return width, side + word * (1.0 if self._steep else 0.75) + 0.6

    def draw(self, figure: Figure) -> None:
        """Draw it."""
        if self.strip is None:
            beside = main = figure.add_subplot()
        else:
            beside, main = self._beside(figure, self.strip)
        image = _cells(main, self.values, self._size - 0.5, NUMBERED_CELLS)
        self._name(beside, main, is_narrow(figure))
        if self.links is not None:
            _mark(main, self.links)
        figure.colorbar(image, ax=main, shrink=0.7, label=self.what, pad=0.02)

    def _beside(self, figure: Figure, strip: Array) -> tuple[Axes, Axes]:
        n = len(self.names)
        ratios = (max(1.0, n / 16), n)
        beside, main = figure.subplots(1, 2, sharey=True, width_ratios=ratios)
        _cells(beside, strip[:, None], self._size if n <= 20 else 5.5, _LABELLED_TICKS)
        beside.set_xticks([0], ["S"], fontsize=self._size, rotation=0)
        return beside, main

    def _name(self, beside: Axes, main: Axes, narrow: bool) -> None:
        # A small screen has room for half of the names.
        ticks = list(range(0, len(self.names), self.step * (1 + (narrow and self._steep))))
        words = [label(self.names[k], narrow) for k in ticks]
        name_columns(main, ticks, words, self._size, 90 if self._steep else 40)
        beside.set_yticks(ticks, words, fontsize=self._size, parse_math=False)
        main.set_xlabel(self.ends[1])
        beside.set_ylabel(self.ends[0])


def _mark(axes: Axes, links: Array) -> None:
    """Draw frames around cells with numbers, dots on cells without."""
    rows, columns = np.nonzero(links)
    if len(links) > NUMBERED_CELLS:
        size = 4.5 if len(links) <= _ROOMY else 2.5
        axes.plot(
            columns, rows, "o", color="white", markeredgecolor="black", markersize=size,
            markeredgewidth=0.8,
        )  # fmt: skip
        return
    # Slow to import.
    from matplotlib.patches import Rectangle

    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        for colour, thick in (("black", 3.2), ("white", 1.4)):
            frame = Rectangle((j - 0.42, i - 0.42), 0.84, 0.84, fill=False)
            frame.set(edgecolor=colour, linewidth=thick)
            axes.add_patch(frame)


def _cells(axes: Axes, values: Array, size: float, most: int) -> Any:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    image = shade_cells(axes, values, low, high)
    if len(values) <= most:
        number_cells(axes, values, size, lambda value: value > low + 0.55 * (high - low))
    return image


def history_figure(plan: LinkPlan) -> Picture | None:
    """Draw numbers of an iterative method, one point an iteration; ``None`` without any."""
    titles = [name for name in ("surrogate", "objective", "lower_bound", "upper_bound")
              if sum(name in entry for entry in plan.history) > 1]  # fmt: skip
    if not titles:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for k, name in enumerate(titles):
            points = [(i, entry[name]) for i, entry in enumerate(plan.history) if name in entry]
            kept = np.array([(i, value) for i, value in points if np.isfinite(value)])
            if len(kept):
                style = ("-", "-.", "--", ":")[k]
                axes.plot(
                    *kept.T, style, color=COLOURS[k], linewidth=1.8, label=name.replace("_", " ")
                )
        axes.set_xlabel("iteration")
        axes.set_ylabel("cost")
        axes.legend()

    return Picture(
        draw,
        (WIDTH, 3.2),
        f"{listed(titles, 4).replace('_', ' ')} over {count(len(plan.history), 'iteration')}.",
        "Progress of the method; the last objective is the one before rounding.",
    )


@dataclass(frozen=True)
class Layout:
    """Devices of a plan from the top down, and their heights in rows."""

    sources: list[int]
    targets: list[int]
    source_heights: list[float]
    target_heights: list[float]

    @property
    def order(self) -> list[int]:
        """Sources, then targets; a device that is both comes once."""
        return list(dict.fromkeys([*self.sources, *self.targets]))

    @property
    def rows(self) -> int:
        """Height of the taller side."""
        return max(len(self.sources), len(self.targets), 1)

    @property
    def roomy(self) -> bool:
        """Whether there is room for words on what each device sends."""
        return self.rows <= _ROOMY


def layout(plan: LinkPlan) -> Layout:
    """Place sources and targets in two columns with few links that cross.

    Each side in turn is sorted by the mean place of what it is linked to; the best of all orders
    seen is kept. Devices without links come last.
    """
    sources = [k for k, name in enumerate(plan.names) if name in plan.sources]
    targets = [k for k, kind in enumerate(plan.psi.tolist()) if kind == 1]
    weights = plan.sent[np.ix_(sources, targets)]
    # The order given, those without links last.
    senders = np.argsort(weights.sum(axis=1) == 0, kind="stable")
    receivers = np.argsort(weights.sum(axis=0) == 0, kind="stable")
    best, fewest = (senders, receivers), crossings(weights[np.ix_(senders, receivers)])
    for _ in range(_SWEEPS):
        receivers = _by_neighbours(weights[senders].T)
        senders = _by_neighbours(weights[:, receivers])
        crossed = crossings(weights[np.ix_(senders, receivers)])
        if crossed < fewest:
            best, fewest = (senders, receivers), crossed
    senders, receivers = best
    shown = weights[np.ix_(senders, receivers)]
    rows = max(len(sources), len(targets))
    low = _heights(shown, np.arange(len(targets), dtype=np.float64), rows)
    high = np.arange(len(targets), dtype=np.float64) + (rows - len(targets)) / 2
    if len(sources) > len(targets):
        low = np.arange(len(sources), dtype=np.float64)
        high = _heights(shown.T, low, rows)
    return Layout(
        [sources[k] for k in senders],
        [targets[k] for k in receivers],
        low.tolist(),
        high.tolist(),
    )


def crossings(weights: Array) -> int:
    """Count the pairs of links that cross when rows and columns stand in two parallel lines."""
    links = (weights > 0).astype(np.int64)
    below = np.zeros_like(links)
    below[:-1] = np.cumsum(links[::-1], axis=0)[::-1][1:]
    before = np.zeros_like(links)
    before[:, 1:] = np.cumsum(below, axis=1)[:, :-1]
    return int((links * before).sum())


def _by_neighbours(weights: Array) -> Any:
    """Sort rows by the mean column of their links, those without any last; ties stay in order."""
    total = weights.sum(axis=1)
    places = np.arange(weights.shape[1])
    means = np.where(total > 0, weights @ places / np.where(total > 0, total, 1.0), np.inf)
    return np.argsort(means, kind="stable")


def _heights(weights: Array, others: Array, rows: int) -> Array:
    """Return places near the middle of each row's links, one apart at least, within all rows."""
    n = len(weights)
    if not n:
        return np.empty(0)
    total = weights.sum(axis=1)
    wanted = np.where(
        total > 0, weights @ others / np.where(total > 0, total, 1.0), float(rows - 1)
    )
    steps = np.arange(n, dtype=np.float64)
    # Slow to import.
    from sklearn.isotonic import isotonic_regression

    # The closest places in rising order, of what remains when each row's own step is taken away.
    places = isotonic_regression(wanted - steps, y_min=0.0, y_max=float(max(rows - n, 0)))
    return np.asarray(places, dtype=np.float64) + steps


def network_figure(plan: LinkPlan, energy: Array, placed: Layout, unit: str = "J") -> Picture:
    """Draw sources on the left, targets on the right, links as wide as their weights.

    ``energy`` is that of every pair, in ``unit``.
    """
    recipes = _recipes(plan, energy, placed, unit) if placed.roomy else {}
    drawing = _Drawing(plan, placed, recipes)
    alt = f"Network of devices: {_in_words(plan, placed)}."
    return Picture(drawing.draw, (WIDTH, drawing.height), alt, _caption(plan, placed))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """The plan in inches of the whole figure, so that the room of words is known."""

    plan: LinkPlan
    placed: Layout
    recipes: Mapping[tuple[int, int], str]
    width: float = WIDTH

    @property
    def _step(self) -> float:
        return 0.42 if self.placed.roomy else 0.2

    @property
    def _size(self) -> float:
        return 9.0 if self.placed.roomy else 7.0

    @property
    def height(self) -> float:
        """Height of the figure."""
        return 0.5 + self._step * self.placed.rows

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Where sources and targets stand."""
        return self._room(0, self.placed.sources), self.width - self._room(1, self.placed.targets)

    def _label(self, k: int) -> str:
        return label(self.plan.names[k], self.width <= NARROW)

    def _room(self, side: int, devices: Sequence[int]) -> float:
        """Return the width of the words beside devices."""
        size = self._size
        widths = [0.62 * size / 72 * len(self._label(k)) for k in devices]
        widths += [0.62 * (size - 1.5) / 72 * len(self.recipes.get((side, k), "")) for k in devices]
        return max([*widths, 0.9]) + 0.2

    @cached_property
    def _heights(self) -> tuple[dict[int, float], dict[int, float]]:
        """Where sources and targets stand, from the bottom up; a device may be both."""

        def stand(devices: Sequence[int], places: Sequence[float]) -> dict[int, float]:
            top = self.height - 0.45
            pairs = zip(devices, places, strict=True)
            return {k: top - self._step * (place + 0.5) for k, place in pairs}

        placed = self.placed
        return (
            stand(placed.sources, placed.source_heights),
            stand(placed.targets, placed.target_heights),
        )

    def draw(self, figure: Figure) -> None:
        """Draw it."""
        if is_narrow(figure) and self.width > NARROW:
            # Names alone have room; what a target combines is in the table of links.
            replace(self, recipes={}, width=NARROW).draw(figure)
            return
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0.0, self.width)
        axes.set_ylim(0.0, self.height)
        axes.set_axis_off()
        colours = {device: COLOURS[k % 7] for k, device in enumerate(self.placed.sources)}
        for i, colour in colours.items():
            for j in np.flatnonzero(self.plan.sent[i]).tolist():
                heights = self._heights[0][i], self._heights[1][j]
                _link(axes, self._ends, heights, float(self.plan.alpha[i, j]), colour)
        for i, colour in colours.items():
            self._device(axes, 0, i, "s", colour, colour)
        for j in self.placed.targets:
            left_out = self.plan.names[j] in self.plan.unserved
            self._device(axes, 1, j, *(("D", GREY) if left_out else ("o", DARK)))
        for x, text, side in (
            (self._ends[0], count(len(self.placed.sources), "source"), "right"),
            (self._ends[1], count(len(self.placed.targets), "target"), "left"),
        ):
            top = self.height - 0.22
            axes.text(x, top, text, ha=side, va="center", fontsize=10, weight="bold")

    def _device(
        self, axes: Axes, side: int, k: int, marker: str, edge: str, fill: str = "white"
    ) -> None:
        x, y = self._ends[side], self._heights[side][k]
        axes.plot(
            x,
            y,
            marker=marker,
            color=fill,
            markeredgecolor=edge,
            markeredgewidth=1.4,
            markersize=self._size,
            zorder=3,
        )
        name, recipe = self._label(k), self.recipes.get((side, k), "")
        _words(axes, x, y, name, recipe, self._size, side == 0)


def _in_words(plan: LinkPlan, placed: Layout) -> str:
    """Return sources, targets and links in words; each of them where they are few."""
    links = plan.links
    words = f"{count(len(placed.sources), 'source')} on the left, "
    words += f"{count(len(placed.targets), 'target')} on the right, {count(len(links), 'link')}"
    if not 0 < len(links) <= _SPELLED_LINKS:
        return words
    return f"{words}: " + "; ".join(
        f"{label(source)} to {label(target)} with weight {weight:.2f}"
        for source, target, weight in links
    )


def _caption(plan: LinkPlan, placed: Layout) -> str:
    notes = [
        "Squares train and send their models to the right; circles receive. A link is as wide as "
        "its weight, and has the colour of its source."
    ]
    if plan.unserved:
        notes.append("Diamonds are targets without a model.")
    if not placed.roomy:
        notes.append("The table of links has weights and energies.")
    return " ".join(notes)


def _recipes(
    plan: LinkPlan, energy: Array, placed: Layout, unit: str
) -> dict[tuple[int, int], str]:
    """Return what each device sends (0) or combines (1), in a few words."""
    recipes: dict[tuple[int, int], str] = {}

    def spent(sources: Any, targets: Any) -> str:
        return f"{float(energy[sources, targets].sum()):.3g} {unit}".strip()

    for i in placed.sources:
        receivers = np.flatnonzero(plan.sent[i])
        total = f"{count(len(receivers), 'link')}, {spent(i, receivers)}"
        recipes[0, i] = total if len(receivers) else "no link"
    for j in placed.targets:
        senders = np.flatnonzero(plan.alpha[:, j])
        if not len(senders):
            recipes[1, j] = "no model reaches it"
            continue
        parts = [
            f"{'own' if i == j else label(plan.names[i])} {plan.alpha[i, j]:.2f}" for i in senders
        ]
        others = senders[senders != j]
        recipes[1, j] = f"{' + '.join(parts)}, {spent(others, j)}"
        if len(recipes[1, j]) > _LONGEST_RECIPE:
            recipes[1, j] = f"from {count(len(senders), 'source')}, {spent(others, j)}"
    return recipes


def _link(
    axes: Axes,
    ends: tuple[float, float],
    heights: tuple[float, float],
    weight: float,
    colour: str,
) -> None:
    """Draw a curve that leaves and arrives level."""
    (x, end), (y, goal) = ends, heights
    middle = (x + end) / 2
    points = [(x, y), (middle, y), (middle, goal), (end, goal)]
    # Slow to import.
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

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
