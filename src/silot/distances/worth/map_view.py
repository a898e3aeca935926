"""What is shown of the distances between holders, the target among them, beside their worth."""

from __future__ import annotations

import numpy as np

from ...render import Content, Details, Paragraph, section
from ...render.figure import TARGET
from ...render.heat_map import heat_map
from ...render.words import level_in_words, printable, target_in_words
from ..figures import holder_map
from ..result import DistanceMatrix
from ..view import square_table
from .result import Contributions

# What the target is called in a matrix: no holder may be called so.
TARGET_NAME = "coordinator"
_TABLED = 12
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


def between_sections(result: Contributions) -> Content:
    """Return the heat map and the map of the holders, in the order of the ranking."""
    matrix = result.between
    if matrix is None or len(result.holders) < 2:
        return None
    ranked = [item for item in result.ranking if item.holder in matrix.names]
    holders = [item.holder for item in ranked]
    order = [matrix.names.index(name) for name in holders]
    values, target = matrix.values[np.ix_(order, order)], None
    every, heads = holders, holders
    if TARGET_NAME in matrix.names:
        target = matrix.values[order, matrix.names.index(TARGET_NAME)]
        every, heads = [*holders, TARGET_NAME], [*holders, TARGET]
    is_short = len(holders) <= _TABLED
    square = square_table(holders, every, heads, matrix) if is_short else None
    return [
        section(
            "Distances between holders",
            "between",
            _sentences(result, matrix),
            heat_map(holders, values, target),
            Details("All distances with their bounds", [square]) if square else None,
        ),
        section(
            "Map of the holders",
            "map",
            lambda: holder_map(holders, [item.rank for item in ranked], values, target),
            link="Map",
        ),
    ]


def _sentences(result: Contributions, matrix: DistanceMatrix) -> Content:
    kind = _KINDS.get(matrix.method, f"By method {printable(matrix.method)}")
    aim = target_in_words(result.target)
    lines: list[str] = []
    if TARGET_NAME in matrix.names:
        first = f"{kind}: distances between holders, and to {aim}, on one scale."
        if matrix.method != result.method and not _has_same_distances(result, matrix):
            lines.append(
                f"The ranking has distances to {aim} of another kind; the two differ by that."
            )
    else:
        first = f"{kind}: distances between holders. Without {aim}."
    if result.labels == "classes":
        lines.append(
            "Labels are compared as vectors here and by the records of their classes in the "
            "ranking: wrong labels show less here."
        )
    lines.append(f"Disclosed for it: {matrix.disclosure}. {level_in_words(matrix.disclosure)}")
    if not matrix.converged:
        lines.append(f"Not everything converged: {printable(matrix.status, 400)}")
    return [Paragraph(first), [Paragraph(line, "small") for line in lines]]


def _has_same_distances(result: Contributions, matrix: DistanceMatrix) -> bool:
    """Return whether the ranking's distances to the target are those of the matrix."""
    return not any(
        abs(item.distance.value - matrix[item.holder, TARGET_NAME].value)
        > 1e-3 * item.distance.value
        for item in result.holders
    )
