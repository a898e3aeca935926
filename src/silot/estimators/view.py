"""What is shown of a shift from a reference, and of a change between domains."""

from __future__ import annotations

from .. import render
from ..distances.figures import histograms_figure
from ..distances.verdict import changes_table, verdict_rows, verdict_words
from ..distances.view import distance_rows, distances_chart
from ..federation.view import cost_rows
from ..render.words import short_bounds, short_number
from .adaptation import VERDICTS, DomainChange
from .shift import Shift

_MOST = 8


def shift_content(result: Shift) -> render.Content:
    """Declare whether records shifted, how far, and by which columns, the clearest first."""
    words = verdict_words(result.test)
    rows = {
        **verdict_rows(result.test),
        "W2": f"{short_number(result.distance)} standard deviations of the reference",
        "bounds": short_bounds(result.lower, result.upper),
    }
    return [
        render.Headline("Have the records shifted?", f"{words[:1].upper()}{words[1:]}."),
        render.section(
            "The test",
            distances_chart("Distance from the reference", {"records": result.result}),
            render.facts(rows),
        ),
        render.section(
            "By column",
            changes_table(result.test),
            render.on_page(histograms_figure(result.test, ("reference", "records"))),
        ),
        render.on_page(
            render.Details(
                "How the distance was computed",
                [render.facts(distance_rows(result.result), page=cost_rows(result.result))],
            )
        ),
    ]


def adaptation_content(result: DomainChange) -> render.Content:
    """Declare what explains the target, and how."""
    verdict = VERDICTS[result.change]
    order = sorted(result.scale, key=lambda name: -abs(result.scale[name] - 1.0))
    return [
        render.Headline("How does the target differ?", f"{verdict}."),
        render.facts({}, terminal={"verdict": verdict}),
        render.table(
            "What was tried: the distance of the changed source from the target, its "
            "p-value, and by which share the energy distance of held-out records is "
            "smaller than without the change.",
            result.steps,
            render.texts("change"),
            render.numbers("W2", of="distance"),
            render.digits("p", 3, of="p_value"),
            render.texts("", of=lambda step: "explains" * step.explains),
            render.shares("nearer"),
        ),
        result.change in ("classes", "units")
        and render.Table(
            "Shares of the classes.",
            [render.names("class", 30), render.shares("source"), render.shares("target")],
            [(name, *ends) for name, ends in result.shares.items()],
        ),
        result.change == "units"
        and render.Table(
            "Target from source, column by column.",
            [render.names("column", 30), render.numbers("times"), render.numbers("plus")],
            [(name, result.scale[name], result.offset[name]) for name in order],
            most=_MOST,
        ),
    ]
