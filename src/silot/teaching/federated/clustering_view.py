"""Groups of holders: the tables of a terminal, and the page."""

from __future__ import annotations

from ...distances.view import matrix_pairs
from ...federation.view import Run, bill_rows, bill_sections, facts
from ...render import (
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Facts,
    Heading,
    Paragraph,
    Table,
    plain_table,
    textual,
)
from ...render.words import count, listed, number, percent, printable, reason, short_number
from .clustering import Clustering
from .groups import LEAST_OF_GROUP, LEAST_SILHOUETTE

_REASONS = {
    "records-few": "it has fewer than ten records",
    "nobody was asked": "nobody was asked",
}


def clustering_sections(result: Clustering) -> list[Block]:
    """Holders with their groups, what decided, and the bill."""
    rows = {
        "groups": str(result.k),
        "status": printable(result.status, 1000),
        "distances": f"W{result.matrix.p} by {result.method}",
        **bill_rows(result),
    }
    return [_members(result), facts(rows)]


def clustering_page(result: Clustering) -> list[Block]:
    """The page of groups."""
    # Slow to import: they draw.
    from ...distances.figures import holder_map
    from ...render.figure import heat_map

    matrix = result.in_order
    names = list(matrix.names)
    blocks: list[Block] = [
        Heading("Groups of holders", level=1),
        Paragraph(_lead(result), "lead"),
    ]
    if not result.converged:
        blocks.append(
            Paragraph(
                f"Not everything converged: {printable(result.matrix.status, 400)}", "warning"
            )
        )
    blocks += [
        Heading("Groups", "groups", "Groups"),
        _members(result, fold=20),
        Facts([("status", printable(result.status, 1000)), *_unknown(result)]),
        Heading("Distances", "distances", "Distances"),
        heat_map(names, matrix.values, None, order="of the groups"),
    ]
    numbers = [result.assignment[name] + 1 for name in names]
    words = [f"{group}: {name}" for group, name in zip(numbers, names, strict=True)]
    drawn = holder_map(words, numbers, matrix.values, None)
    if drawn is not None:
        blocks += [
            Heading("Map of the holders", "map", "Map"),
            Paragraph("Before each name, or in its place, stands the number of the group."),
            drawn,
        ]
    blocks += [
        Heading("How the number of groups was found", "criterion", "Criterion"),
        *_criterion(result),
        Details("All distances with their bounds", [matrix_pairs(result.matrix)]),
    ]
    return [*blocks, *bill_sections(clustering_runs(result))]


def clustering_runs(result: Clustering, name: str = "distances") -> list[tuple[str, Run]]:
    """The runs on its bill."""
    more = [] if result.chances is None else [("what chance makes", result.chances)]
    return [(name, result.matrix), *more]


def _lead(result: Clustering) -> str:
    holders = count(len(result.names), "holder")
    if result.k == 1:
        return f"{holders}, and no groups among them."
    return f"{holders} in {count(result.k, 'group')}, by the distances between their data."


def _members(result: Clustering, fold: int | None = None) -> Table:
    """Holders in the order of their groups."""
    columns = [textual("holder"), Column("group"), *([Column("stays")] if result.stability else [])]
    rows = [
        [
            Cell(printable(name)),
            Cell(str(result.assignment[name] + 1)),
            *([Cell(percent(result.stability[name]))] if result.stability else []),
        ]
        for group in result.groups
        for name in group
    ]
    caption = "Stays: share of resamples in which it is in the same group."
    return Table(
        caption if result.stability and fold else "", columns, rows, fold=fold or max(len(rows), 1)
    )


def _unknown(result: Clustering) -> list[tuple[str, str]]:
    """Of whom it is not known what chance makes."""
    by_reason: dict[str, list[str]] = {}
    for name, code in result.unknown.items():
        by_reason.setdefault(code, []).append(printable(name))
    return [
        ("chance not known", f"{listed(names)}: {_REASONS.get(code) or reason(code)}")
        for code, names in by_reason.items()
    ]


def _criterion(result: Clustering) -> list[Block]:
    blocks: list[Block] = [
        Paragraph(
            "Two samples of one law are apart by chance. Distances count by what they exceed that: "
            "holders are one group unless some grouping holds up."
        ),
        Bullets([
            "Of every two groups more than half of the pairs are further apart than chance.",
            f"Silhouette widths are {LEAST_SILHOUETTE:g} or more on average, and "
            f"{LEAST_OF_GROUP:g} or more in every group of two or more.",
            "Of such groupings the one with the largest mean silhouette is taken.",
        ]),
    ]  # fmt: skip
    if result.candidates:
        rows = [
            [
                str(each.k), f"{each.silhouette:.2f}", f"{each.least:.2f}",
                "yes" if each.apart else "no", "yes" if each.accepted else "no",
            ]
            for each in result.candidates
        ]  # fmt: skip
        titles = ("groups", "silhouette", "least of a group")
        words = ("more than chance apart", "holds up")
        columns = [*map(Column, titles), *map(textual, words)]
        blocks.append(plain_table(columns, rows, "What was tried."))
    if result.levels:
        least, most = min(result.levels.values()), max(result.levels.values())
        span = short_number(least) if least == most else f"{number(least)} to {number(most)}"
        blocks.append(
            Paragraph(f"By chance, all distances of one law stay below {span} in 95 % of cases.")
        )
    return blocks
