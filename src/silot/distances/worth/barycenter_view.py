"""What is shown of a barycenter, and of distances to what stands for holders."""

from __future__ import annotations

from collections.abc import Mapping

from ... import render
from ...federation.view import bill_rows, cost_content, missing_section
from ...render.words import count, number, short_status
from .figures import objective_figure
from .result import Barycenter


def barycenter_content(result: Barycenter) -> render.Content:
    """Declare how far every holder is from the barycenter, the objective and the bill.

    The atoms are not shown.
    """
    lead = (
        f"A measure of {count(len(result.weights), 'atom')} between "
        f"{count(len(result.distances), 'holder')}: the weighted sum of its squared distances is "
        f"{number(result.objective)}, and that of no measure is less than {number(result.lower)}."
    )
    rows = {
        "objective": objective_text(result),
        "atoms": str(len(result.weights)),
        "status": result.status,
    }
    return distances_content(result, "Between the holders", lead, "barycenter", rows)


def objective_text(result: Barycenter) -> str:
    """Return the objective, and what no measure goes below."""
    return f"{result.objective:.6g}; no measure has less than {result.lower:.6g}"


def distances_content(
    result: Barycenter, title: str, lead: str, what: str, rows: Mapping[str, str]
) -> render.Content:
    """Declare distances of holders to what stands for them, other facts, and the bill."""
    cells = [
        (
            name,
            render.Cell(result.shares[name], result.shares[name]),
            distance.value,
            distance.bounds,
            render.Cell(distance.status, warn=not distance.converged),
        )
        for name, distance in result.distances.items()
    ]
    columns = [
        render.names(),
        render.digits("weight", 3),
        render.numbers("distance"),
        render.intervals(),
        render.texts("status", page=short_status, on="page"),
    ]
    return [
        render.Headline(title, lead, render.not_converged(result)),
        render.section(
            f"Distances to the {what}",
            "distances",
            render.Table(f"Holders by their distance to the {what}.", columns, cells, filter=True),
            render.facts(rows, terminal=bill_rows(result)),
            objective_figure(result) if result.history else None,
            link="Distances",
        ),
        missing_section(result.missing, title="Missing holders"),
        cost_content(result),
    ]
