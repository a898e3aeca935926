"""Distances between holders, all by one method, the target among them: beside their worth."""

from __future__ import annotations

import numpy as np

from ...render import Block, Details, Heading, Paragraph
from ...render.words import level_in_words, printable, target_in_words
from ..result import DistanceMatrix
from ..view import square_table
from .result import Contributions

# What the target is called in a matrix: no holder may be called so.
_TARGET_NAME = "coordinator"
_TABLED = 12
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


def between_sections(found: Contributions) -> list[Block]:
    """Heat map and map of the holders, in the order of the ranking."""
    # Slow to import: they draw.
    from ...render.figure import TARGET, heat_map
    from ..figures import holder_map

    matrix = found.between
    if matrix is None or len(found.holders) < 2:
        return []
    ranked = [item for item in found.ranking if item.holder in matrix.names]
    names = [item.holder for item in ranked]
    order = [matrix.names.index(name) for name in names]
    holders, target = matrix.values[np.ix_(order, order)], None
    every, heads = names, names
    if _TARGET_NAME in matrix.names:
        target = matrix.values[order, matrix.names.index(_TARGET_NAME)]
        every, heads = [*names, _TARGET_NAME], [*names, TARGET]
    blocks: list[Block] = [
        Heading("Distances between holders", "between", "Distances between holders"),
        *_facts(found, matrix),
        heat_map(names, holders, target),
    ]
    if len(names) <= _TABLED:
        square = square_table(names, every, heads, matrix)
        blocks.append(Details("All distances with their bounds", [square]))
    drawn = holder_map(names, [item.rank for item in ranked], holders, target)
    if drawn is not None:
        blocks += [Heading("Map of the holders", "map", "Map"), drawn]
    return blocks


def _facts(found: Contributions, matrix: DistanceMatrix) -> list[Paragraph]:
    kind = _KINDS.get(matrix.method, f"By method {printable(matrix.method)}")
    aim = target_in_words(found.target)
    if _TARGET_NAME in matrix.names:
        facts = [f"{kind}: distances between holders, and to {aim}, on one scale."]
        if matrix.method != found.method and not _alike(found, matrix):
            facts.append(
                f"The ranking has distances to {aim} of another kind; the two differ by that."
            )
    else:
        facts = [f"{kind}: distances between holders. Without {aim}."]
    if found.labels == "classes":
        facts.append(
            "Labels are compared as vectors here and by the records of their classes in the "
            "ranking: wrong labels show less here."
        )
    facts.append(f"Disclosed for it: {matrix.disclosure}. {level_in_words(matrix.disclosure)}")
    if not matrix.converged:
        facts.append(f"Not everything converged: {printable(matrix.status, 400)}")
    return [Paragraph(facts[0]), *(Paragraph(fact, "small") for fact in facts[1:])]


def _alike(found: Contributions, matrix: DistanceMatrix) -> bool:
    """Whether the ranking's distances to the target are those of the matrix."""
    apart = [
        abs(item.distance.value - matrix[item.holder, _TARGET_NAME].value)
        > 1e-3 * item.distance.value
        for item in found.holders
    ]
    return not any(apart)
