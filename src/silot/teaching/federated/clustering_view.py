"""What is shown of groups of holders."""

from __future__ import annotations

from ... import render
from ...distances.figures import holder_map
from ...distances.verdict import group_rows, pairs_of_groups
from ...distances.view import pairs_table, same_pairs
from ...federation.view import Run, bill_rows, cost_content
from ...render.heat_map import heat_map
from ...render.words import count, printable
from .clustering import Clustering


def clustering_content(result: Clustering) -> render.Content:
    """Declare holders with their groups, what decided, and the bill."""
    matrix = result.in_order
    ordered = list(matrix.names)
    numbers = [result.assignment[name] + 1 for name in ordered]
    words = [f"{group}: {name}" for group, name in zip(numbers, ordered, strict=True)]
    names = sorted(result.names)
    rows = {
        "groups": f"{result.k}" + ("" if result.requested == "auto" else ", as requested"),
        **({} if result.verdict is None else group_rows(result.verdict, names)),
        # Where a test decides the number of groups, its verdict is the status.
        **(
            {}
            if result.verdict and result.requested == "auto"
            else {"status": printable(result.status, 1000)}
        ),
    }
    return [
        render.Headline(
            "Groups of holders",
            _lead(result),
            render.not_converged(result.matrix, several=True),
        ),
        render.section(
            "Groups",
            "groups",
            _members(result),
            render.facts(
                rows,
                terminal={
                    "distances": f"W{result.matrix.p} by {result.method}", **bill_rows(result)
                },
            ),
        ),
        render.on_page(
            render.section(
                "Distances",
                "distances",
                heat_map(
                    ordered, matrix.values, None, order="of the groups", same=same_pairs(matrix)
                ),
            ),
            lambda: _map(holder_map(words, numbers, matrix.values, None)),
            render.section(
                "Which pairs differ",
                "pairs",
                None if result.verdict is None else pairs_of_groups(result.verdict, names),
                render.Details("All distances with their bounds", [pairs_table(result.matrix)]),
                link="Pairs",
            ),
        ),
        cost_content(clustering_runs(result)),
    ]  # fmt: skip


def _map(drawn: render.Content) -> render.Content:
    words = "Before each name, or in its place, stands the number of the group."
    content = [render.Paragraph(words), drawn] if drawn else []
    return render.section("Map of the holders", "map", content, link="Map")


def clustering_runs(result: Clustering, name: str = "distances") -> list[tuple[str, Run]]:
    """Return the runs on its bill."""
    tested = [] if result.test is None else [("test of the records", result.test)]
    return [(name, result.matrix), *tested]


def _lead(result: Clustering) -> str:
    holders = count(len(result.names), "holder")
    if result.requested != "auto":
        return f"{holders} in {count(result.k, 'group')}, the number that was requested."
    if result.k == 1:
        return f"{holders}, and the tests tell none of them apart: one group."
    return f"{holders} in {count(result.k, 'group')}: the tests tell these apart."


def _members(result: Clustering) -> render.Table:
    """Return holders in the order of their groups."""
    rows = [(name, result.assignment[name] + 1) for group in result.groups for name in group]
    return render.Table("", [render.names(), render.Column("group")], rows, filled=True)
