"""Figures, each an SVG inside its own address, and the look they share."""

from __future__ import annotations

import base64
import io
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ExtraError
from .words import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

BLUE, ORANGE, GREY, DARK = "#1f4e79", "#c8501e", "#6b6b6b", "#222222"
# Of parties that must be told apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555")
WIDTH = 8.6
# Of a telephone held upright.
NARROW = 3.7
_LONGEST_LABEL, _NARROW_LABEL = 28, 16
# Rows up to which cells hold their numbers.
NUMBERED_CELLS = 10
TARGET = "target"
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


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_drawing() -> None:
    """Raise before work whose figure could not be drawn."""
    if not can_draw():
        raise ExtraError("plots need matplotlib. Run: pip install 'silot[plot]'", code="extra-plot")


def axes_of(ax: Axes | None) -> Axes:
    """Return the axes, or new ones for ``None``."""
    if ax is not None:
        return ax
    check_drawing()
    # Drawing is rare and matplotlib slow to import.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6, 5), layout="constrained")[1]


def drawn(draw: Callable[[Figure], None], size: tuple[float, float]) -> str:
    """Draw on a new figure of a size in inches; the same drawing gives the same address."""
    # Slow to import, and a terminal draws nothing.
    from matplotlib import style
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with _LOCK, warnings.catch_warnings(), style.context(["default", _STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", dpi=192, metadata=nothing)
    return _address(_shortened(buffer.getvalue().decode()))


# Of the tags of a drawing: what nobody refers to, and what a tenth of a point adds.
_NEEDLESS = re.compile(
    r' id="(?![A-Za-z]+[0-9a-f]{10}")[^"]*"| transform="rotate\(-0 [^)]*\)"|\s*\n\s*|'
    r"(?<=\d\.\d\d)\d+| font-family: [^;\"]*;|(?<=[;:]) (?=[a-z#\d])"
)


def _shortened(svg: str) -> str:
    """Return a drawing in half as many letters: a report has several, and is sent by mail."""
    family = ",".join(f"'{name}'" for name in _STYLE["font.sans-serif"])
    svg = re.sub(r">\s+<", "><", svg[svg.index("<svg") :])
    svg = re.sub(r"<[^>]+>", lambda tag: _NEEDLESS.sub("", tag[0]), svg)
    svg = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(?<=\.\d)\d+|(?<=[A-Z]) ", "", path[0]), svg)
    svg = _ungrouped(re.sub(r'( [xy]="-?\d+\.\d)\d+', r"\1", svg))
    ids = {name: f"i{k}" for k, name in enumerate(dict.fromkeys(re.findall(r' id="(.+?)"', svg)))}
    svg = re.sub(r'((?: id="|"#|url\(#))(\w+)', lambda m: m[1] + ids.get(m[2], m[2]), svg)
    styles = Counter(re.findall(r' style="([^"]+)"', svg))
    classes = {style: f"s{k}" for k, (style, times) in enumerate(styles.items()) if times > 2}
    svg = re.sub(
        r' style="([^"]+)"',
        lambda match: f' class="{classes[match[1]]}"' if match[1] in classes else match[0],
        svg,
    )
    rules = "".join(f".{name}{{{style}}}" for style, name in classes.items())
    return svg.replace("</style>", f"text{{font-family:{family},sans-serif}}{rules}</style>", 1)


def _ungrouped(svg: str) -> str:
    """Return a drawing without the groups that say nothing of their members."""
    kept: list[bool] = []

    def tag(match: re.Match[str]) -> str:
        if match[0] == "</g>":
            return "</g>" * kept.pop()
        kept.append(match[0] != "<g>")
        return match[0] * kept[-1]

    return re.sub(r"<g>|<g [^>]*>|</g>", tag, svg)


def _address(svg: str) -> str:
    """Return a drawing as an address that holds it, fit for an attribute; base64 is longer."""
    plain = re.sub(r"<[^>']+>", lambda tag: tag[0].replace('"', "'"), svg)
    # Addresses of namespaces are no addresses of anything: a page that names none can be checked.
    signs = re.compile(r'[%#"&]|(?<=:)/')
    return "data:image/svg+xml," + signs.sub(lambda sign: f"%{ord(sign[0]):02X}", plain)


def is_narrow(figure: Figure) -> bool:
    """Return whether a figure is for a small screen."""
    return figure.get_figwidth() <= NARROW


def data_uri(kind: str, data: bytes) -> str:
    """Return bytes as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def label(name: str, narrow: bool = False) -> str:
    """Return a name short enough for a figure."""
    return printable(name, _NARROW_LABEL if narrow else _LONGEST_LABEL)


@dataclass(frozen=True, eq=False)
class NamedCells:
    """Cells whose rows and columns have names, which shrink and turn where there are many."""

    names: Sequence[str]

    @property
    def _size(self) -> float:
        return 8.5 if len(self.names) <= 20 else 7.0

    @property
    def _steep(self) -> bool:
        return len(self.names) > 12


def shade_cells(axes: Axes, values: Array, low: float, high: float, colours: str = "Blues") -> Any:
    """Draw numbers as coloured cells between two ends, those that are not known in grey."""
    axes.set_facecolor("#c8c8cc")
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        vmin=low,
        vmax=high,
        # Each value is one dot, which the page makes as large as its cell.
        interpolation="none",
        aspect="auto",
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def number_cells(
    axes: Axes,
    values: Array,
    size: float,
    is_dark: Callable[[float], bool],
    write: Callable[[float], str] = "{:.3g}".format,
) -> None:
    """Write numbers into their cells, in white where the cell is dark."""
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            shade = "white" if is_dark(value) else "black"
            axes.text(j, i, write(value), ha="center", va="center", color=shade, fontsize=size)


def name_columns(
    axes: Axes, places: Sequence[float], words: Sequence[str], size: float, turn: float
) -> None:
    """Write names below columns: upright, level, or slanted and then ending at their column."""
    slanted = turn == 40
    axes.set_xticks(
        places,
        words,
        rotation=turn,
        ha="right" if slanted else "center",
        rotation_mode="anchor" if slanted else "default",
        fontsize=size,
        parse_math=False,
    )


def name_rows(axes: Axes, words: Sequence[str], size: float, margin: float = 0.4) -> None:
    """Write names before rows, the first on top."""
    axes.set_yticks(range(len(words)), words, fontsize=size, parse_math=False)
    axes.set_ylim(len(words) - margin, margin - 1.0)
    axes.tick_params(axis="y", length=0)
