"""A barycenter: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Mapping

from ...federation.view import bill_rows, bill_sections, facts, missing_table
from ...render import Block, Cell, Column, Heading, Paragraph, Table, plain_table, textual
from ...render.words import (
    count,
    interval,
    number,
    printable,
    short_bounds,
    short_number,
    short_status,
)
from .result import Barycenter


def barycenter_sections(result: Barycenter) -> list[Block]:
    """How far every holder is from the barycenter, the objective and the bill."""
    return distance_sections(result, _rows(result))


def distance_sections(result: Barycenter, rows: Mapping[str, str]) -> list[Block]:
    """How far every holder is, what else is to be said in ``rows``, and the bill."""
    told = [
        [
            name,
            f"{result.shares[name]:.3f}",
            short_number(distance.value),
            short_bounds(*distance.bounds),
        ]
        for name, distance in result.distances.items()
    ]
    columns = [textual("holder"), *map(Column, ("weight", "distance", "bounds"))]
    return [plain_table(columns, told), facts({**rows, **bill_rows(result)})]


def _rows(result: Barycenter) -> dict[str, str]:
    return {
        "objective": objective_text(result),
        "atoms": str(len(result.weights)),
        "status": result.status,
    }


def objective_text(result: Barycenter) -> str:
    """The objective, and what no measure goes below."""
    return f"{result.objective:.6g}; no measure has less than {result.lower:.6g}"


def barycenter_page(result: Barycenter) -> list[Block]:
    """The page of a barycenter; its atoms are not in it."""
    holders = count(len(result.distances), "holder")
    low = number(result.lower)
    lead = (
        f"A measure of {count(len(result.weights), 'atom')} between {holders}: the weighted sum of "
        f"its squared distances is {number(result.objective)}, and that of no measure is less "
        f"than {low}."
    )
    return [
        Heading("Between the holders", level=1),
        Paragraph(lead, "lead"),
        *distance_page(result, "barycenter", _rows(result)),
    ]


def distance_page(result: Barycenter, what: str, rows: Mapping[str, str]) -> list[Block]:
    """Distances to what was found, what else is to be said in ``rows``, and the bill."""
    columns = [textual("holder"), *map(Column, ("weight", "distance", "bounds")), textual("status")]
    told = [
        [
            Cell(printable(name)),
            Cell(f"{result.shares[name]:.3f}", result.shares[name]),
            Cell(number(distance.value)),
            Cell(interval(*distance.bounds)),
            Cell(short_status(distance.status), warn=not distance.converged),
        ]
        for name, distance in result.distances.items()
    ]
    blocks: list[Block] = []
    if not result.converged:
        blocks.append(Paragraph(f"Not converged: {printable(result.status, 400)}", "warning"))
    blocks += [
        Heading(f"Distances to the {what}", "distances", "Distances"),
        Table(f"Holders by their distance to the {what}.", columns, told, filter=True),
        facts(rows),
    ]
    if result.history:
        # Slow to import: it draws.
        from .figures import objective_figure

        blocks.append(objective_figure(result))
    if result.missing:
        blocks += [
            Heading("Missing holders", "missing", "Missing holders"),
            missing_table(result.missing, {}, "holder"),
        ]
    return [*blocks, *bill_sections([("", result)])]
