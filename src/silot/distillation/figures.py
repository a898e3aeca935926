"""Figures of a distillation: losses, where classes are expected, confusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..federation.result import Array
from ..render import Picture
from ..render.figure import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    WIDTH,
    is_narrow,
    label,
    name_columns,
    number_cells,
    shade_cells,
)
from ..render.words import count, number
from .labels import LabelSpace
from .scores import ClassScores, Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUMBERED_CELLS = 12
_LINES = 6
_BOXES = "Boxes hold the middle half, the line is the median, whiskers reach from 5 % to 95 %."


def loss_figure(losses: Array, by_teacher: Array, teachers: Sequence[str], resumed: int) -> Picture:
    """Draw the loss of every epoch, with that against each of a few teachers."""
    epochs = np.arange(1, len(losses) + 1)
    shown = len(teachers) if len(teachers) <= _LINES else 0

    def draw(figure: Figure) -> None:
        # Slow to import.
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        dot: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(losses) <= 40 else {}
        for k in range(shown):
            axes.plot(
                epochs,
                by_teacher[:, k],
                color=COLOURS[(k + 1) % len(COLOURS)],
                linewidth=1.0,
                linestyle=("-", "--", "-.", ":")[k % 4],
                label=f"against {label(teachers[k])}",
            )
        axes.plot(
            epochs, losses, color=BLUE, linewidth=2.2, label="weighted: what is learnt", **dot
        )
        if 0 < resumed < len(losses):
            axes.axvline(resumed + 0.5, color=GREY, linestyle=":", linewidth=1.0)
        axes.set_ylim(bottom=0.0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel("mean loss of an input")
        if shown:
            where = "outside upper left" if is_narrow(figure) else "outside right center"
            legend = figure.legend(loc=where)
            for text in legend.get_texts():
                text.set_parse_math(False)

    caption = "Weighted loss of every epoch, computed before each training step."
    if shown:
        caption += " Losses against single teachers are not weighted."
    if 0 < resumed < len(losses):
        caption += " Epochs left of the dotted line come from the checkpoint."
    return Picture(
        draw,
        (WIDTH, 3.1),
        f"Loss over {count(len(losses), 'epoch')}: {number(float(losses[0]))} in the first, "
        f"{number(float(losses[-1]))} in the last.",
        caption,
    )


def class_figure(name: str, before: Scores, after: Scores, space: LabelSpace) -> Picture:
    """Draw box plots by class, before and after: where it is expected, or how far off."""
    line = space.line
    size = 9.0 if len(after.per_class) <= 12 else 7.0

    def draw(figure: Figure) -> None:
        # Slow to import.
        from matplotlib.patches import Patch

        axes = figure.add_subplot()
        places = np.arange(len(after.per_class), dtype=np.float64)
        for shift, scores, colour in ((-0.18, before, GREY), (0.18, after, BLUE)):
            _boxes(axes, [_quantiles(row, line) for row in scores.per_class],
                   places + shift, colour)  # fmt: skip
        if line:
            truth = [float(space.coordinates[row.code, 0]) for row in after.per_class]
            axes.hlines(truth, places - 0.42, places + 0.42, color=ORANGE, linewidth=1.6, zorder=1)
            axes.set_ylabel("expected coordinate")
        else:
            axes.set_ylim(bottom=0.0)
            axes.set_ylabel("distance of the expected label")
        names = [label(row.name, is_narrow(figure)) for row in after.per_class]
        turn, side = (40, "right") if sum(map(len, names)) > 80 else (0, "center")
        axes.set_xticks(places, names, fontsize=size, rotation=turn, ha=side, parse_math=False)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel("class")
        handles = [Patch(color=GREY, alpha=0.6, label="before"), Patch(color=BLUE, label="after")]
        if line:
            handles.append(Patch(color=ORANGE, label="the class itself"))
        where = "outside upper left" if is_narrow(figure) else "outside right center"
        figure.legend(handles=handles, loc=where)

    what = "distances of the expected label"
    caption = "Distance of the expected label from the true one, by class; 0 is best."
    if line:
        what = "expected coordinates"
        caption = (
            "Expected coordinates of the records of each class; the nearer to the class's own "
            "coordinate, the better."
        )
    return Picture(
        draw,
        (WIDTH, 3.3),
        f"Box plots of {label(name)} for each of {len(after.per_class)} classes, before and after: "
        f"{what}.",
        f"{caption} {_BOXES}",
        narrow_height=4.2,
    )


def _quantiles(scores: ClassScores, line: bool) -> Array:
    return scores.expected_quantiles[:, 0] if line else scores.distance_quantiles


def _boxes(axes: Axes, rows: Sequence[Array], places: Array, colour: str) -> None:
    """Draw box plots of known quantiles."""
    low, first, middle, third, high = np.array(rows, dtype=np.float64).T
    starts, stops, nothing = places - 0.15, places + 0.15, np.full(len(places), np.nan)
    ends = (starts + places) / 2, (stops + places) / 2
    lines = [
        ((places, places), (low, first), 1.0),
        ((places, places), (third, high), 1.0),
        (ends, (low, low), 1.0),
        (ends, (high, high), 1.0),
        ((starts, stops), (middle, middle), 2.2),
    ]
    for x, y, thick in lines:
        # One line with gaps for all boxes: a drawing of many lines is long.
        along, up = np.ravel([*x, nothing], "F"), np.ravel([*y, nothing], "F")
        axes.plot(along, up, color=colour, linewidth=thick, zorder=3)
    style = {"facecolor": colour, "alpha": 0.35, "edgecolor": colour, "linewidth": 1.0}
    axes.bar(places, third - first, 0.3, first, zorder=2, **style)


def confusion_figure(name: str, before: Scores, after: Scores, space: LabelSpace) -> Picture:
    """Draw the shares of each class that are named as each label, before and after."""
    rows = len(space.names)
    shown = [label(words) for words in space.names]
    size = 8.5 if rows <= _NUMBERED_CELLS else 6.5
    word = 0.62 * size / 72 * max(map(len, shown))
    steep = word > 0.6 * (WIDTH - word) / (2 * rows)
    side = (WIDTH - word - 1.2) / 2
    empty = bool((after.confusion.sum(axis=1) == 0).any())
    height = min(side, 0.62 * rows) + (word * 0.75 if steep else 0.25) + 0.9

    def draw(figure: Figure) -> None:
        narrow = is_narrow(figure)
        first, second = figure.subplots(*((2, 1) if narrow else (1, 2)), sharey=True)
        names = [label(words, narrow) for words in space.names]
        image = None
        for axes, scores, title in ((first, before, "before"), (second, after, "after")):
            image = _shares(axes, scores, size, rows, numbered=not narrow)
            axes.set_title(title)
            axes.set_xlabel("named as")
            name_columns(axes, range(rows), names, size, 40 if steep else 0)
            axes.set_yticks(range(rows), names, fontsize=size, parse_math=False)
        first.set_ylabel("true label")
        assert image is not None
        figure.colorbar(image, ax=[first, second], shrink=0.8, label="share of the class", pad=0.02)

    return Picture(
        draw,
        (WIDTH, height),
        f"Confusion of {label(name)}: {100 * before.accuracy:.1f} % of the records are "
        f"classified correctly before and {100 * after.accuracy:.1f} % after.",
        "Each row is a class: its records, in per cent, by their most probable label (columns)."
        + (" Grey rows have no records." if empty else ""),
        narrow_height=2 * height,
    )


def _shares(axes: Axes, scores: Scores, size: float, rows: int, *, numbered: bool) -> Any:
    totals = scores.confusion.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0, scores.confusion / np.maximum(totals, 1), np.nan)
    image = shade_cells(axes, shares, 0.0, 1.0, "Blues")
    axes.tick_params(length=0)
    if numbered and rows <= _NUMBERED_CELLS:
        number_cells(
            axes, shares, size - 0.5, lambda share: share > 0.55,
            lambda share: f"{100 * share:.0f}",
        )  # fmt: skip
    return image
