"""What is shown of a shift from a reference."""

from __future__ import annotations

from .. import render
from ..distances.figures import histograms_figure
from ..distances.verdict import changes_table, verdict_rows, verdict_words
from ..distances.view import distance_content
from ..render.words import short_bounds, short_number
from .shift import Shift

_MOST = 8


def shift_content(result: Shift) -> render.Content:
    """Declare whether records shifted, how far, and by which columns, the clearest first."""
    words = verdict_words(result.verdict)
    rows = {
        **verdict_rows(result.verdict),
        "W2": f"{short_number(result.distance)} standard deviations of the reference",
        "bounds": short_bounds(result.lower, result.upper),
    }
    return [
        render.Headline("Have the records shifted?", f"{words[:1].upper()}{words[1:]}."),
        render.section("The test", "test", render.facts(rows), link="Test"),
        render.section(
            "By column",
            "columns",
            changes_table(result.verdict, _MOST),
            render.on_page(histograms_figure(result.verdict, ("reference", "records"))),
            link="Columns",
        ),
        render.on_page(
            render.section(
                "The distance",
                "distance",
                lambda: render.written(distance_content(result.result), "terminal"),
                link="Distance",
            )
        ),
    ]
