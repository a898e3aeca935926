"""What is shown of groups of holders."""

from __future__ import annotations

from ... import render
from ...distances.figures import holder_map
from ...distances.view import pairs_table
from ...errors import reason
from ...federation.view import Run, bill_rows, cost_content
from ...render.heat_map import heat_map
from ...render.words import count, listed, number, printable, short_number
from .clustering import Clustering
from .groups import LEAST_OF_GROUP, LEAST_SILHOUETTE


def clustering_content(result: Clustering) -> render.Content:
    """Declare holders with their groups, what decided, and the bill."""
    matrix = result.in_order
    ordered = list(matrix.names)
    numbers = [result.assignment[name] + 1 for name in ordered]
    words = [f"{group}: {name}" for group, name in zip(numbers, ordered, strict=True)]
    status = printable(result.status, 1000)
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
            render.on_terminal(render.facts({
                "groups": str(result.k),
                "status": status,
                "distances": f"W{result.matrix.p} by {result.method}",
                **bill_rows(result),
            })),
            render.on_page(render.Facts([("status", status), *_unknown(result)])),
        ),
        render.on_page(
            render.section(
                "Distances",
                "distances",
                heat_map(ordered, matrix.values, None, order="of the groups"),
            ),
            lambda: _map(holder_map(words, numbers, matrix.values, None)),
            render.section(
                "How the number of groups was found",
                "criterion",
                _criterion(result),
                render.Details("All distances with their bounds", [pairs_table(result.matrix)]),
                link="Criterion",
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
    more = [] if result.chances is None else [("what chance makes", result.chances)]
    return [(name, result.matrix), *more]


def _lead(result: Clustering) -> str:
    holders = count(len(result.names), "holder")
    if result.k == 1:
        return f"{holders}, and no groups among them."
    return f"{holders} in {count(result.k, 'group')}, by the distances between their data."


def _members(result: Clustering) -> render.Table:
    """Return holders in the order of their groups."""
    stability = result.stability or {}
    rows = [
        (name, result.assignment[name] + 1, stability[name] if stability else "")
        for group in result.groups
        for name in group
    ]
    caption = "Stays: share of resamples in which it is in the same group." if stability else ""
    return render.Table(
        caption, [render.names(), render.Column("group"), render.shares("stays")], rows, filled=True
    )


def _unknown(result: Clustering) -> list[tuple[str, str]]:
    """Return of whom it is not known what chance makes."""
    by_reason: dict[str, list[str]] = {}
    for name, code in result.unknown.items():
        by_reason.setdefault(code, []).append(printable(name))
    return [
        ("chance not known", f"{listed(holders)}: {reason(code)}")
        for code, holders in by_reason.items()
    ]


def _criterion(result: Clustering) -> render.Content:
    rows = [
        (
            candidate.k, candidate.silhouette, candidate.least,
            "yes" if candidate.apart else "no", "yes" if candidate.accepted else "no",
        )
        for candidate in result.candidates
    ]  # fmt: skip
    columns = [
        render.Column("groups"), render.digits("silhouette", 2),
        render.digits("least of a group", 2), render.texts("more than chance apart"),
        render.texts("holds up"),
    ]  # fmt: skip
    span = ""
    if result.levels:
        least, most = min(result.levels.values()), max(result.levels.values())
        span = short_number(least) if least == most else f"{number(least)} to {number(most)}"
    return [
        render.Paragraph(
            "Two samples of one law are apart by chance. Distances count by what they exceed that: "
            "holders are one group unless some grouping holds up."
        ),
        render.Bullets([
            "Of every two groups more than half of the pairs are further apart than chance.",
            f"Silhouette widths are {LEAST_SILHOUETTE:g} or more on average, and "
            f"{LEAST_OF_GROUP:g} or more in every group of two or more.",
            "Of such groupings the one with the largest mean silhouette is taken.",
        ]),
        render.plain_table(columns, rows, "What was tried.") if rows else None,
        render.Paragraph(f"By chance, all distances of one law stay below {span} in 95 % of cases.")
        if span
        else None,
    ]  # fmt: skip
