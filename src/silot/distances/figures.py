"""Holders by their distances: in a row, round by round, and as points of a plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..federation.result import Array
from ..render import Picture
from ..render.figure import BLUE, COLOURS, NARROW, ORANGE, TARGET, WIDTH, is_narrow, label
from ..render.words import count, listed, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from silot_transport import TwoSampleResult

_NAMED_POINTS, _NARROW_POINTS = 30, 10
# Stress that nobody sees, and what more of it means, after Kruskal.
_EXACT = 1e-3
_STRESS = {
    0.05: "that is little",
    0.1: "that is good enough for groups, not for single distances",
    0.2: "that is large: trust only groups that are far apart",
    math.inf: "this map is misleading: read distances in the heat map",
}


def histograms_figure(
    result: TwoSampleResult | None, sides: tuple[str, str], most: int = 6
) -> Picture | None:
    """Draw the columns that drive a difference, a panel each, one side over the other."""
    if result is None or not result.histograms or not most:
        return None
    shown = result.histograms[:most]
    wide = min(len(shown), 3)

    def draw(figure: Figure) -> None:
        narrow = is_narrow(figure)
        across = 1 if narrow else wide
        panels = figure.subplots(-(-len(shown) // across), across, squeeze=False).ravel()
        for axes, item in zip(panels, shown, strict=False):
            for shares, colour, side in zip(
                (item.first, item.second), COLOURS, sides, strict=False
            ):
                axes.stairs(
                    shares, item.edges, fill=True, alpha=0.45, color=colour, label=label(side)
                )
            axes.set_title(label(item.name, narrow))
            axes.set_yticks([])
        # Panels of the last row that no column fills.
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        # Beside bars there is no room that is always free.
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left")

    names = listed([item.name for item in shown], 6)
    return Picture(
        draw, (2.9 * wide, 0.5 + 2.2 * -(-len(shown) // wide)),
        f"Histograms of {names}: {' beside '.join(sides)}.",
        "Shares of records; values farther out are in the bins at the ends.",
        narrow_height=0.5 + 2.0 * len(shown),
    )  # fmt: skip


def rounds_figure(
    rounds: Sequence[float], lines: Mapping[str, Sequence[float]], what: str, caption: str
) -> Picture:
    """Draw numbers round by round."""

    def draw(figure: Figure) -> None:
        # Slow to import.
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for (name, values), colour in zip(lines.items(), (BLUE, ORANGE), strict=False):
            axes.plot(rounds, values, "o-", color=colour, markersize=3, label=name)
        axes.set_xlabel("round")
        axes.set_ylabel(what)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(lines) > 1:
            axes.legend()

    last = " and ".join(f"{name} {number(values[-1])}" for name, values in lines.items())
    alt = f"After {count(len(rounds), 'round')}: {last}."
    return Picture(draw, (6.6, 3.2), alt, caption, narrow_height=3.2)


def holder_map(
    names: Sequence[str], ranks: Sequence[int], between: Array, to_target: Array | None
) -> Picture | None:
    """Draw holders as points of a plane; ``None`` where distances are not known."""
    distances = between
    if to_target is not None and np.isfinite(to_target).all():
        edge = np.append(to_target, 0.0)
        distances = np.vstack([np.column_stack([between, to_target]), edge])
    if len(distances) < 3 or not np.isfinite(distances).all():
        return None
    places = _HolderMap(names, ranks, classical_scaling(distances)[0])
    return Picture(
        places.draw,
        (WIDTH, places.height(WIDTH)),
        f"Map of {count(len(names), 'holder')} in two dimensions: holders with similar data lie "
        "close.",
        # How many labels have no room is known when it is drawn.
        lambda: places.caption(distances),
        narrow_height=places.height(NARROW),
    )


@dataclass(frozen=True, eq=False)
class _HolderMap:
    """Points of holders by their names or ranks, and a star for the target, if it is there."""

    names: Sequence[str]
    ranks: Sequence[int]
    places: Array
    left_out: list[int] = field(default_factory=list[int])

    @property
    def _targeted(self) -> bool:
        return len(self.places) > len(self.names)

    def height(self, width: float) -> float:
        """Return the height that the points need when both axes have one scale."""
        wide, high = np.ptp(self.places, axis=0)
        return float(np.clip(width * (high / wide if wide > 0 else 1.0), 3.4, 6.5))

    def draw(self, figure: Figure) -> None:
        """Draw it."""
        narrow, n = is_narrow(figure), len(self.names)
        named = n <= (_NARROW_POINTS if narrow else _NAMED_POINTS)
        words = [label(name, narrow) for name in self.names] if named else [*map(str, self.ranks)]
        axes = figure.add_subplot()
        axes.plot(*self.places[:n].T, "o", color=BLUE, markersize=6 if named else 4.5, alpha=0.85)
        if self._targeted:
            axes.plot(*self.places[n], "*", color=ORANGE, markersize=15)
            words.append(TARGET)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.12)
        axes.set_xlabel("first axis")
        axes.set_ylabel("second axis")
        figure.draw_without_rendering()
        size = 8.5 if named else 7.0
        self.left_out.append(_place_labels(axes, self.places, words, size, n))

    def caption(self, distances: Array) -> str:
        """Say what the map shows, and how far it is to be trusted."""
        apart = np.linalg.norm(self.places[:, None] - self.places[None], axis=2)
        off, (a, b) = stress(apart, distances)
        text = f"Holders whose data are similar lie close together. {_trust(off)}"
        if off >= _EXACT:
            every = [*map(label, self.names), TARGET]
            in_map, true = number(float(apart[a, b])), number(float(distances[a, b]))
            pair = listed([every[a], every[b]])
            text += f" Largest error: {pair}, drawn {in_map} apart, in truth {true}."
        if self._targeted:
            text += " The star is the target."
        if len(self.names) > _NAMED_POINTS:
            text += " Numbers are ranks."
        elif len(self.names) > _NARROW_POINTS:
            text += " On small screens numbers are ranks."
        if any(self.left_out):
            text += (
                f" {count(max(self.left_out), 'label')} at most are left out because there is no "
                "space."
            )
        return text


def classical_scaling(distances: Array) -> tuple[Array, float]:
    """Return points of a plane for distances, and the part of the variance they show."""
    n = len(distances)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (distances**2) @ centre)
    first = np.argsort(-values)[:2]
    axes = vectors[:, first]
    # An eigenvector has no sign of its own.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(2)] < 0, -1.0, 1.0)
    kept = np.maximum(values[first], 0.0)
    total = float(np.abs(values).sum())
    return axes * np.sqrt(kept), float(kept.sum()) / total if total > 0 else 1.0


def _trust(off: float) -> str:
    """Return what a stress means for a reader."""
    if off < _EXACT:
        return "All distances are drawn as they are (classical scaling)."
    words = next(words for most, words in _STRESS.items() if off < most)
    return (
        f"Two dimensions cannot show all distances: the drawn ones are wrong by {percent(off)} "
        f"(stress of classical scaling); {words}."
    )


def stress(drawn: Array, distances: Array) -> tuple[float, tuple[int, int]]:
    r"""Return how far drawn distances are off, and the pair that is farthest off.

    Kruskal's stress, the root of :math:`\sum (\hat d - d)^2 / \sum d^2` over pairs.
    """
    first, second = np.triu_indices(len(distances), 1)
    apart = np.abs(drawn - distances)[first, second]
    total = float(np.sum(distances[first, second] ** 2))
    worst = int(np.argmax(apart))
    off = (float(np.sum(apart**2)) / total) ** 0.5 if total > 0 else 0.0
    return off, (int(first[worst]), int(second[worst]))


def _place_labels(
    axes: Axes, points: Array, words: Sequence[str], size: float, holders: int
) -> int:
    """Write each word where it covers nothing, the last first; return how many found no room."""
    spots = axes.transData.transform(points)
    room = np.where(np.arange(len(words)) < holders, 0.0, 5.0)
    reach = (5.0 + room)[:, None]
    dots = np.hstack([spots - reach, spots + reach])
    frame = axes.bbox
    inch = axes.figure.dpi if axes.figure is not None else 100.0
    letter, line = 0.62 * size * inch / 72, 1.25 * size * inch / 72
    boxes = np.empty((0, 4))
    left_out = 0
    for k in range(len(words) - 1, -1, -1):
        x, y = spots[k]
        width = letter * len(words[k])
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            gap = (7.0 if across == 0 or up == 0 else 3.0) + room[k]
            start = x + gap * across - width * (1 - across) / 2
            low = y + gap * up - line * (1 - up) / 2
            box = np.array([start, low, start + width, low + line])
            inside = (box[:2] >= frame.min).all() and (box[2:] <= frame.max).all()
            others = np.vstack([np.delete(dots, k, axis=0), boxes])
            if inside and not _overlap(box, others).any():
                boxes = np.vstack([boxes, box])
                axes.annotate(
                    words[k],
                    points[k],
                    xytext=(gap * across * 72 / inch, gap * up * 72 / inch),
                    textcoords="offset points",
                    ha=("right", "center", "left")[across + 1],
                    va=("top", "center", "bottom")[up + 1],
                    fontsize=size,
                    parse_math=False,
                )
                break
        else:
            left_out += 1
    return left_out


def _overlap(box: Array, others: Array) -> Any:
    return (
        (box[0] < others[:, 2])
        & (others[:, 0] < box[2])
        & (box[1] < others[:, 3])
        & (others[:, 1] < box[3])
    )
