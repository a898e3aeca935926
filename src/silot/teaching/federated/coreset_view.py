"""What is shown of a coreset."""

from __future__ import annotations

from ...distances.worth.barycenter_view import distances_content, objective_text
from ...render import Content
from ...render.words import count, number, percent
from .coreset import Coreset

_POINTS = {
    "fedbary": "means of records; one that stands for a single record is that record",
    "sketch": "computed from the releases alone: they tell no more than these do",
}


def coreset_content(result: Coreset) -> Content:
    """Declare how far every holder is from the coreset, what it is worth, and the bill.

    The points are not shown.
    """
    lead = (
        f"{count(result.size, 'point')} that {'stands' if result.size == 1 else 'stand'} for the "
        f"records of {count(len(result.distances), 'holder')}: the weighted sum of squared "
        f"distances is {number(result.objective)}."
    )
    is_estimate = result.method == "sketch"
    rows = {
        "objective": f"{number(result.objective)}, an estimate"
        if is_estimate
        else objective_text(result),
        "points": f"{result.size}: {_POINTS[result.method]}",
    }
    if result.sizes:
        few, many = min(result.sizes.values()), max(result.sizes.values())
        size = str(few) if few == many else f"{few} to {many}"
        rows["classes"] = f"{len(result.sizes)}, of {size} points each"
    if result.accuracy is not None:
        rows["1-NN accuracy"] = f"{percent(result.accuracy)} of {count(result.tests, 'record')}"
    rows["status"] = result.status
    return distances_content(result, "A coreset of the holders", lead, "coreset", rows)
