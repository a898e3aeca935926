"""Figures of scored records: inspection curves, sorted scores, thumbnails."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..federation.result import Array
from ..render import Picture
from ..render.figure import BLUE, GREY, ORANGE, data_uri, label
from ..render.words import count, decimals
from .checks import Flags
from .quality import quality
from .result import RecordScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_SIZE = (6.6, 3.5)
_MOST_POINTS = 400
_LARGEST_THUMBNAIL = 80
_SAMPLE = 200


def inspection(scores: Array, truth: Flags) -> tuple[Array, Array]:
    """Return the share of faulty records found against the share inspected, the worst first.

    Records of equal score are taken in no order, so the curve is a straight line across them.
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    last = np.append(np.diff(scores[order]) != 0, True)
    inspected = np.flatnonzero(last) + 1
    shares = np.append(0.0, inspected / len(scores))
    return shares, np.append(0.0, hits[last] / max(hits[-1], 1))


def inspection_figure(name: str, scores: RecordScores, truth: Flags) -> Picture:
    """Draw how soon faulty records are found."""
    broken, auc = float(truth.mean()), decimals(quality(scores, truth).auc, 3)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot([0, broken, 1], [0, 1, 1], ":", color=GREY, label="the best possible")
        axes.plot([0, 1], [0, 1], "-", color="#bbbbbb", linewidth=1, label="random order")
        x, y = _thinned(*inspection(scores.scores, truth))
        axes.plot(x, y, color=BLUE, linewidth=1.8, label=f"scores, AUC {auc}")
        if scores.flagged.any():
            _mark(axes, float(scores.flagged.mean()))
        axes.set_xlabel("share of records inspected, the most suspect first")
        axes.set_ylabel("share of faulty records found")
        axes.set_ylim(0, 1.03)
        _percentages(axes.xaxis, axes.yaxis)
        _legend(axes, "lower right")

    return Picture(
        draw,
        _SIZE,
        f"Inspection curve of {label(name)}: AUC {auc}.",
        "How many of the records known to be faulty are found when records are inspected in the "
        "order of their scores. AUC is the probability that a faulty record scores above a clean "
        "one. The dashed line is at the number of flagged records.",
        narrow_height=_SIZE[1],
    )


def score_figure(name: str, scores: RecordScores) -> Picture:
    """Draw scores in falling order, flagged ones marked."""
    records = len(scores.scores)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        order = scores.worst
        shares = np.arange(1, records + 1) / max(records, 1)
        x, y = _thinned(shares, scores.scores[order])
        axes.plot(x, y, color=BLUE, linewidth=1.8, label="all records")
        flagged = np.flatnonzero(scores.flagged[order])
        if len(flagged):
            chosen = flagged[:: -(-len(flagged) // _MOST_POINTS)]
            axes.plot(
                shares[chosen], scores.scores[order][chosen], "o", color=ORANGE, markersize=3,
                label="flagged",
            )  # fmt: skip
        finite = scores.scores[np.isfinite(scores.scores)]
        if np.max(np.abs(finite), initial=0.0) > 30:
            axes.set_yscale("symlog", linthresh=3.0)
        axes.axhline(0.0, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.set_xlabel("share of records, the most suspect first")
        axes.set_ylabel("log odds of being faulty" if scores.screening else "calibrated gradient")
        _percentages(axes.xaxis)
        _legend(axes, "upper right")

    return Picture(
        draw,
        _SIZE,
        f"Scores of the {count(records, 'record')} of {label(name)} in falling order; "
        f"{scores.flagged.sum()} are flagged.",
        "Scores in falling order. At 0 a record is as likely faulty as not."
        if scores.screening
        else "Calibrated gradients in falling order; positive ones are flagged.",
        narrow_height=_SIZE[1],
    )


def thumbnails(images: npt.NDArray[Any], positions: npt.NDArray[np.intp]) -> list[str]:
    """Return addresses of small images of records at positions, all equally bright."""
    sample = images[:: -(-len(images) // _SAMPLE)]
    dark, bright = _range(np.concatenate([sample, images[positions]]))
    sources: list[str] = []
    for image in images[positions]:
        pixels = np.nan_to_num(image.astype(np.float64), nan=dark, posinf=bright, neginf=dark)
        pixels = np.clip((_smaller(pixels) - dark) / (bright - dark), 0.0, 1.0)
        pixels = pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)
        sources.append(data_uri("image/png", _png(np.rint(255 * pixels).astype(np.uint8))))
    return sources


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode an image in red, green and blue as a PNG file."""
    high, wide = pixels.shape[:2]
    # Before each row of a PNG stands the number of its filter; 0 is none.
    rows = np.pad(pixels.reshape(high, -1), ((0, 0), (1, 0)))
    # Eight bits a colour, three colours, and the only methods that there are.
    header = struct.pack(">2I5B", wide, high, 8, 2, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for chunk in (b"IHDR" + header, b"IDAT" + zlib.compress(rows.tobytes()), b"IEND"):
        file += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return file


def _range(images: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the brightness of black and white; a few wild pixels do not darken all others."""
    if images.dtype == np.uint8:
        return 0.0, 255.0
    values = images[np.isfinite(images)].astype(np.float64)
    if not values.size:
        return 0.0, 1.0
    dark, bright = (float(edge) for edge in np.quantile(values, (0.002, 0.998)))
    if not bright > dark:
        dark, bright = float(values.min()), float(values.max())
    return (dark, bright) if bright > dark else (dark, dark + 1.0)


def _smaller(image: Array) -> Array:
    """Average blocks of pixels until the image is a thumbnail."""
    step = -(-max(image.shape[:2]) // _LARGEST_THUMBNAIL)
    if step == 1:
        return image
    high, wide = (max(side // step, 1) for side in image.shape[:2])
    image = image[: high * step, : wide * step]
    blocks = (high, len(image) // high, wide, image.shape[1] // wide, *image.shape[2:])
    return image.reshape(blocks).mean(axis=(1, 3))


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Return few enough points for a small file, densest at the start, where curves bend."""
    if len(x) <= _MOST_POINTS:
        return x, y
    places = np.unique(np.rint((len(x) - 1) * np.linspace(0, 1, _MOST_POINTS) ** 2).astype(int))
    return x[places], y[places]


def _legend(axes: Axes, place: Literal["upper right", "lower right"]) -> None:
    """Name what is drawn last, and lies on top, first."""
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc=place, frameon=True, framealpha=1.0, edgecolor="w")


def _mark(axes: Axes, share: float) -> None:
    axes.axvline(share, color="#444444", linestyle="--", linewidth=0.9, label="flagged up to here")


def _percentages(*axes: Axis) -> None:
    """Write the numbers of axes from 0 to 1 as percentages."""
    # Slow to import.
    from matplotlib.ticker import PercentFormatter

    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1))
    axes[0].axes.set_xlim(0, 1.01)
