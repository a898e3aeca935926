"""A coreset: the tables of a terminal, and the page."""

from __future__ import annotations

from ...distances.worth.barycenter_view import distance_page, distance_sections, objective_text
from ...render import Block, Heading, Paragraph
from ...render.words import count, number, percent
from .coreset import Coreset

_POINTS = {
    "fedbary": "means of records; one that stands for a single record is that record",
    "sketch": "computed from the releases alone: they tell no more than these do",
}


def coreset_sections(result: Coreset) -> list[Block]:
    """How far every holder is from the coreset, what it is worth, and the bill."""
    return distance_sections(result, _rows(result))


def _rows(result: Coreset) -> dict[str, str]:
    rows = {"objective": objective_text(result)}
    if result.method == "sketch":
        rows = {"objective": f"{number(result.objective)}, an estimate"}
    rows["points"] = f"{result.size}: {_POINTS[result.method]}"
    if result.sizes:
        few, many = min(result.sizes.values()), max(result.sizes.values())
        each = str(few) if few == many else f"{few} to {many}"
        rows["classes"] = f"{len(result.sizes)}, of {each} points each"
    if result.accuracy is not None:
        rows["1-NN accuracy"] = f"{percent(result.accuracy)} of {count(result.tests, 'record')}"
    return {**rows, "status": result.status}


def coreset_page(result: Coreset) -> list[Block]:
    """The page of a coreset; its points are not in it."""
    lead = (
        f"{count(result.size, 'point')} that {'stands' if result.size == 1 else 'stand'} for the "
        f"records of {count(len(result.distances), 'holder')}: the weighted sum of squared "
        f"distances is {number(result.objective)}."
    )
    return [
        Heading("A coreset of the holders", level=1),
        Paragraph(lead, "lead"),
        *distance_page(result, "coreset", _rows(result)),
    ]
