"""Figures of a plan: what pairs of devices cost, what the plan is made of, how good it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..federation.result import Array
from ..render import Picture
from ..render.figure import (
    COLOURS,
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
from .network_figure import ROOMY
from .plan import LinkPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELLED_TICKS = 40


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
        size = 4.5 if len(links) <= ROOMY else 2.5
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
