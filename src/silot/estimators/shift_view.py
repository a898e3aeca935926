"""What is shown of a shift from a reference."""

from __future__ import annotations

from .. import render
from ..distances.view import distance_content
from ..render.words import short_bounds, short_number
from .shift import Shift

_MOST = 8


def shift_content(result: Shift) -> render.Content:
    """Declare whether records shifted, how far, and by which columns, the clearest first."""
    p = f"p = {result.p_value:.3f}"
    verdict = f"Shifted: {p}" if result.shifted else f"No shift was found, which proves none: {p}"
    rows = {
        "verdict": verdict,
        "W2": f"{short_number(result.distance)} standard deviations of the reference",
        "bounds": short_bounds(result.lower, result.upper),
    }
    if result.chance is not None:
        rows["chance"] = f"{short_number(result.chance)}, for two samples of one law"
    return [
        render.Headline("Have the records shifted?", f"{verdict}."),
        render.section("The test", "test", render.facts(rows), link="Test"),
        render.section("By column", "columns", _columns(result), link="Columns"),
        render.on_page(
            render.section(
                "The distance",
                "distance",
                lambda: render.written(distance_content(result.result), "terminal"),
                link="Distance",
            )
        ),
    ]


def _columns(result: Shift) -> render.Table:
    order = sorted(result.column_p_values, key=lambda name: result.column_p_values[name])
    rows = [
        (
            name,
            result.columns.get(name, ""),
            result.column_p_values[name],
            render.Cell("shifted" if name in result.blamed else "", warn=name in result.blamed),
        )
        for name in order
    ]
    return render.Table(
        "Shares of the squared distance, and the chance of each column.",
        [
            render.names("column", 30),
            render.shares("share"),
            render.digits("p", 3),
            render.texts(""),
        ],
        rows,
        most=_MOST,
    )
