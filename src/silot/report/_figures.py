"""Figures of holders, each an SVG inside its own address."""

from __future__ import annotations

import base64
import io
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..results import Contribution
from ..results._run import Array
from ._words import count, number, percent, printable

BLUE, ORANGE, GREY = "#1f4e79", "#c8501e", "#6b6b6b"
WIDTH = 8.6
_LONGEST_LABEL = 28
_LABELLED_TICKS = 40
_NUMBERED_CELLS = 10
_NAMED_POINTS = 30
TARGET = "target"
# Stress that nobody sees, and what more of it means, after Kruskal.
_EXACT = 1e-3
_STRESS = {
    0.05: "that is little",
    0.1: "that is fair for groups, not for single distances",
    0.2: "that is much: only groups far apart are to be trusted",
    math.inf: "this map misleads: read distances in the heat map",
}
_STYLE: dict[str, Any] = {
    "font.size": 9.0,
    # The widest of the usual ones first: what is laid out with it fits with the others.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.7,
    "axes.titlesize": 10.0,
    "xtick.color": "#444444",
    "ytick.color": "#222222",
    "legend.frameon": False,
    # Text stays text: browsers draw the letters of a name that matplotlib's font lacks.
    "svg.fonttype": "none",
    "svg.hashsalt": "silot",
}
# Settings of matplotlib belong to the process, and two threads would mix them up.
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """An image with its words; sizes in pixels of a screen."""

    source: str
    width: int
    height: int
    alt: str
    caption: str


@contextmanager
def _settings() -> Iterator[None]:
    with _LOCK, warnings.catch_warnings(), style.context(["default", _STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def picture(
    draw: Callable[[Figure], None], size: tuple[float, float], alt: str, caption: str
) -> Picture:
    """Draw on a new figure of a size in inches; the same drawing gives the same bytes."""
    buffer = io.BytesIO()
    with _settings():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", dpi=192, metadata=nothing)
    source = data_uri("image/svg+xml", buffer.getvalue())
    return Picture(source, round(96 * size[0]), round(96 * size[1]), alt, caption)


def data_uri(kind: str, data: bytes) -> str:
    """Bytes as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def label(name: str) -> str:
    """A name short enough for a figure."""
    return printable(name, _LONGEST_LABEL)


def ranking_figure(ranked: Sequence[Contribution], target: str) -> Picture:
    """Distances of holders to the target with their bounds, the closest on top."""
    rows = len(ranked)
    places = np.arange(rows)
    size = 9.0 if rows <= 40 else 7.0
    height = 0.75 + rows * (0.3 if rows <= 40 else 0.185)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        values = np.array([item.distance.value for item in ranked])
        lower = np.array([item.distance.lower for item in ranked])
        upper = np.array([item.distance.upper for item in ranked])
        open_ended = ~np.isfinite(upper)
        shown = np.where(open_ended, values, upper)
        axes.hlines(places, lower, shown, color=BLUE, linewidth=2.2, alpha=0.45)
        axes.plot(lower, places, "|", color=BLUE, markersize=size - 1)
        axes.plot(shown[~open_ended], places[~open_ended], "|", color=BLUE, markersize=size - 1)
        axes.plot(values[open_ended], places[open_ended], color=BLUE, marker=9, linestyle="none")
        done = np.array([item.distance.converged for item in ranked])
        axes.plot(values[done], places[done], "o", color=BLUE, markersize=size / 2)
        axes.plot(values[~done], places[~done], "o", color=ORANGE, mfc="white", markersize=size / 2)
        axes.set_yticks(
            places, [label(item.holder) for item in ranked], fontsize=size, parse_math=False
        )
        axes.set_ylim(rows - 0.4, -0.6)
        axes.set_xlim(left=min(0.0, float(np.nanmin(lower))))
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", top=rows > 20, labeltop=rows > 20)
        axes.set_xlabel(f"distance to {target}")

    first = ranked[0]
    notes = ["Points are estimates, bars reach from the certified lower to the upper bound."]
    if any(not np.isfinite(item.distance.upper) for item in ranked):
        notes.append("An arrow stands for a bound that is not known.")
    if any(not item.distance.converged for item in ranked):
        notes.append("Hollow points did not converge.")
    return picture(
        draw,
        (WIDTH, height),
        f"Distances of {count(rows, 'holder')} to {target} with bounds, the closest on top: "
        f"{label(first.holder)} at {number(first.distance.value)}.",
        " ".join(notes),
    )


def heat_map(names: Sequence[str], between: Array, to_target: Array | None) -> Picture:
    """Distances between holders, below a strip of their distances to the target."""
    n = len(names)
    step = -(-n // _LABELLED_TICKS)
    size = 8.5 if n <= 20 else 7.0
    shown = [label(name) for name in names]
    steep = n > 12
    # Cells are about square: the room that names take is known before anything is drawn.
    word = 0.62 * size / 72 * max(len(name) for name in [*shown, TARGET])
    width = min(max(0.8 * n + word + 1.1, 4.6), WIDTH)
    side = max(width - word - 1.1, 1.5)
    strip = max(1.0, n / 28)
    height = (
        side * (1 + (0.0 if to_target is None else strip / n))
        + word * (1.0 if steep else 0.75)
        + 0.35
    )

    def draw(figure: Figure) -> None:
        parts = {"bottom": between}
        if to_target is not None:
            parts = {"top": to_target[None], **parts}
        known = np.concatenate([part[np.isfinite(part)] for part in parts.values()])
        most = float(known.max()) if known.size and known.max() > 0 else 1.0
        look: dict[str, Any] = {
            "cmap": "viridis",
            "vmin": 0.0,
            "vmax": most,
            "interpolation": "nearest",
            "aspect": "auto",
        }
        places = figure.subplot_mosaic(
            [[part] for part in parts],
            sharex=True,
            height_ratios=[strip, n][-len(parts) :],
            gridspec_kw={"hspace": 0.02},
        )
        images = {part: places[part].imshow(values, **look) for part, values in parts.items()}
        bottom = places["bottom"]
        ticks = list(range(0, n, step))
        words = [shown[k] for k in ticks]
        bottom.set_xticks(
            ticks,
            words,
            rotation=90 if steep else 40,
            ha="center" if steep else "right",
            rotation_mode="default" if steep else "anchor",
            fontsize=size,
            parse_math=False,
        )
        bottom.set_yticks(ticks, words, fontsize=size, parse_math=False)
        if "top" in places:
            places["top"].set_yticks([0], [TARGET], fontsize=size)
            places["top"].tick_params(axis="x", bottom=False, labelbottom=False)
        for axes in places.values():
            axes.tick_params(length=2)
            axes.spines[:].set_visible(False)
        if n <= _NUMBERED_CELLS:
            for part, axes in places.items():
                for (i, j), value in np.ndenumerate(parts[part]):
                    shade = "white" if value < 0.55 * most else "black"
                    text = f"{value:.3g}" if value else "0"
                    axes.text(j, i, text, ha="center", va="center", color=shade, fontsize=size)
        figure.colorbar(
            images["bottom"], ax=[*places.values()], shrink=0.7, label="distance", pad=0.02
        )

    caption = "Dark is close."
    if to_target is not None:
        caption += " The strip on top shows distances to the target."
    if step > 1:
        caption += f" Every {_ordinal(step)} holder is named."
    return picture(
        draw,
        (width, height),
        f"Heat map of the distances between {count(n, 'holder')}, in the order of the ranking.",
        f"{caption} Holders are in the order of the ranking.",
    )


def holder_map(
    names: Sequence[str], ranks: Sequence[int], between: Array, to_target: Array | None
) -> Picture | None:
    """Holders as points of a plane; ``None`` where distances are not known."""
    distances = between
    if to_target is not None and np.isfinite(to_target).all():
        edge = np.append(to_target, 0.0)
        distances = np.vstack([np.column_stack([between, to_target]), edge])
    if len(distances) < 3 or not np.isfinite(distances).all():
        return None
    points, _ = classical_scaling(distances)
    drawn_apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    off, worst = stress(drawn_apart, distances)
    n = len(names)
    named = n <= _NAMED_POINTS
    words = [label(name) if named else str(rank) for name, rank in zip(names, ranks, strict=True)]
    left_out = [0]
    wide, high = np.ptp(points, axis=0)
    # As high as the points need when both axes have one scale.
    height = float(np.clip(WIDTH * (high / wide if wide > 0 else 1.0), 3.4, 6.5))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot(*points[:n].T, "o", color=BLUE, markersize=6 if named else 4.5, alpha=0.85)
        if len(points) > n:
            axes.plot(*points[n], "*", color=ORANGE, markersize=15)
            words.append(TARGET)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.12)
        axes.set_xlabel("first axis")
        axes.set_ylabel("second axis")
        figure.draw_without_rendering()
        left_out[0] = _place_labels(axes, points, words, 8.5 if named else 7.0, n)

    drawn_map = picture(
        draw,
        (WIDTH, height),
        f"Map of {count(n, 'holder')} in two dimensions: holders with similar data lie close.",
        "",
    )
    every = [*map(label, names), TARGET]
    caption = f"Holders whose data are similar lie close together. {_trust(off)}"
    if off >= _EXACT:
        a, b = worst
        caption += (
            f" Farthest off: {every[a]} and {every[b]}, drawn {number(float(drawn_apart[a, b]))} "
            f"apart and {number(float(distances[a, b]))} in truth."
        )
    if len(points) > n:
        caption += " The star is the target."
    if not named:
        caption += " Numbers are ranks."
    if left_out[0]:
        caption += f" {count(left_out[0], 'label')} left out for want of room."
    return replace(drawn_map, caption=caption)


def classical_scaling(distances: Array) -> tuple[Array, float]:
    """Points of a plane for given distances, and the part of the variance they show."""
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
    """What a stress means for a reader."""
    if off < _EXACT:
        return "All distances are drawn as they are (classical scaling)."
    words = next(words for most, words in _STRESS.items() if off < most)
    return (
        f"Two dimensions cannot show all distances: drawn ones are off by {percent(off)} (stress "
        f"of classical scaling); {words}."
    )


def stress(drawn: Array, distances: Array) -> tuple[float, tuple[int, int]]:
    r"""How far drawn distances are off, and the pair that is farthest off.

    Kruskal's stress, the root of :math:`\sum (\hat d - d)^2 / \sum d^2` over pairs.
    """
    first, second = np.triu_indices(len(distances), 1)
    apart = np.abs(drawn - distances)[first, second]
    whole = float(np.sum(distances[first, second] ** 2))
    worst = int(np.argmax(apart))
    off = (float(np.sum(apart**2)) / whole) ** 0.5 if whole > 0 else 0.0
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
    taken = np.empty((0, 4))
    left_out = 0
    for k in range(len(words) - 1, -1, -1):
        x, y = spots[k]
        width = letter * len(words[k])
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            gap = (7.0 if across == 0 or up == 0 else 3.0) + room[k]
            left = x + gap * across - width * (1 - across) / 2
            low = y + gap * up - line * (1 - up) / 2
            box = np.array([left, low, left + width, low + line])
            inside = (
                frame.x0 <= left
                and left + width <= frame.x1
                and frame.y0 <= low
                and low + line <= frame.y1
            )
            others = np.vstack([np.delete(dots, k, axis=0), taken])
            if inside and not _overlap(box, others).any():
                taken = np.vstack([taken, box])
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


def _ordinal(k: int) -> str:
    return {2: "second", 3: "third"}.get(k, f"{k}th")
