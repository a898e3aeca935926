"""Draw a matrix of distances between holders as coloured cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .figure import (
    NARROW,
    NUMBERED_CELLS,
    TARGET,
    WIDTH,
    Array,
    NamedCells,
    is_narrow,
    label,
    name_columns,
    number_cells,
    shade_cells,
)
from .sections import Picture
from .words import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches of a cell in which a number of three digits fits.
_NUMBERED_WIDTH = 0.42


def heat_map(
    names: Sequence[str],
    between: Array,
    to_target: Array | None,
    order: str = "of the ranking",
    same: npt.NDArray[np.bool_] | None = None,
) -> Picture:
    """Draw distances between holders, below a strip of their distances to the target.

    Pairs that are the ``same``, as far as a test can tell, are hatched.
    """
    cells = _HeatMap(names, between, to_target, same)
    caption = "Stronger colours are larger distances."
    if same is not None and same.any():
        caption += " Hatched pairs are not distinguishable."
    if to_target is not None:
        caption += " The strip on top shows distances to the target."
    wide, narrow = cells.step(False), cells.step(True)
    if wide > 1:
        caption += f" Every {_ordinal(wide)} holder is named."
    if narrow > wide:
        caption += f" On small screens every {_ordinal(narrow)} holder is named."
    return Picture(
        cells.draw,
        cells.layout(False)[:2],
        f"Heat map of the distances between {count(len(names), 'holder')}, in the order {order}.",
        f"{caption} Holders are in the order {order}.",
        narrow_height=cells.layout(True)[1],
    )


@dataclass(frozen=True, eq=False)
class _HeatMap(NamedCells):
    """A matrix as coloured cells, about square: the room for names is known before it is drawn."""

    between: Array
    to_target: Array | None
    same: npt.NDArray[np.bool_] | None = None

    @property
    def _strip(self) -> float:
        return max(1.0, len(self.names) / 28)

    def layout(self, narrow: bool) -> tuple[float, float, float]:
        """Return width and height of the figure, and the width of a cell, in inches."""
        n = len(self.names)
        longest = max(len(word) for word in (*(label(name, narrow) for name in self.names), TARGET))
        word = 0.62 * self._size / 72 * longest
        width = NARROW if narrow else min(max(0.8 * n + word + 1.1, 4.6), WIDTH)
        side = max(width - word - (0.8 if narrow else 1.1), 1.5)
        cells = 1 + (0.0 if self.to_target is None else self._strip / n)
        return width, side * cells + word * (1.0 if self._steep else 0.75) + 0.35, side / n

    def step(self, narrow: bool) -> int:
        """Return how many holders stand between those that are named."""
        return max(1, math.ceil(1.2 * self._size / 72 / self.layout(narrow)[2]))

    def draw(self, figure: Figure) -> None:
        """Draw it."""
        parts = {"bottom": self.between}
        if self.to_target is not None:
            parts = {"top": self.to_target[None], **parts}
        finite = np.concatenate([part[np.isfinite(part)] for part in parts.values()])
        most = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
        places = figure.subplot_mosaic(
            [[part] for part in parts],
            sharex=True,
            height_ratios=[self._strip, len(self.names)][-len(parts) :],
            gridspec_kw={"hspace": 0.02},
        )
        images = {part: shade_cells(places[part], parts[part], 0.0, most) for part in parts}
        if self.same is not None:
            # Slow to import.
            from matplotlib.patches import PathPatch
            from matplotlib.path import Path

            corners = np.asarray(Path.unit_rectangle().vertices)
            cells = [corners + np.array([j, i]) for i, j in np.argwhere(self.same) - 0.5]
            if cells:
                # One path for all of them takes a tenth of the room.
                hatched = Path.make_compound_path(*[Path(cell, closed=True) for cell in cells])
                places["bottom"].add_patch(
                    PathPatch(hatched, fill=False, hatch="/", edgecolor="#6b6b6b90", lw=0)
                )
        narrow = is_narrow(figure)
        self._name(places, narrow)
        if len(self.names) <= NUMBERED_CELLS and self.layout(narrow)[2] >= _NUMBERED_WIDTH:
            for part, axes in places.items():
                number_cells(axes, parts[part], self._size, lambda value: value > 0.55 * most)
        figure.colorbar(
            images["bottom"], ax=[*places.values()], shrink=0.7, label="distance", pad=0.02
        )

    def _name(self, places: Mapping[str, Axes], narrow: bool) -> None:
        ticks = list(range(0, len(self.names), self.step(narrow)))
        words = [label(self.names[k], narrow) for k in ticks]
        name_columns(places["bottom"], ticks, words, self._size, 90 if self._steep else 40)
        places["bottom"].set_yticks(ticks, words, fontsize=self._size, parse_math=False)
        if "top" in places:
            places["top"].set_yticks([0], [TARGET], fontsize=self._size)
            places["top"].tick_params(axis="x", bottom=False, labelbottom=False)


def _ordinal(k: int) -> str:
    return {2: "second", 3: "third"}.get(k, f"{k}th")
