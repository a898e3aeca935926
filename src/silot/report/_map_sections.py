"""Sections about the distances between holders: all by one method, the target among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..results import Contributions, Distance, DistanceMatrix
from ._figures import TARGET, Picture, heat_map
from ._map_figure import holder_map
from ._sections import Cell, Column, Table
from ._words import interval, level_in_words, number, printable, target_in_words

# What the target is called in a matrix: no holder may be called so.
_TARGET_NAME = "coordinator"
_TABLED = 12
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


@dataclass(frozen=True)
class Between:
    """Distances between holders."""

    facts: list[str]
    heat: Picture
    table: Table | None
    map: Picture | None


def between(found: Contributions) -> Between | None:
    """Heat map and map of the holders, in the order of the ranking."""
    matrix = found.between
    if matrix is None or len(found.holders) < 2:
        return None
    place = {name: k for k, name in enumerate(matrix.names)}
    ranked = [item for item in found.ranking if item.holder in place]
    order = [place[item.holder] for item in ranked]
    values = matrix.values
    holders = values[np.ix_(order, order)]
    names = [item.holder for item in ranked]
    target = None
    if _TARGET_NAME in place:
        target = values[order, place[_TARGET_NAME]]
    return Between(
        _facts(found, matrix),
        heat_map(names, holders, target),
        _table(names, matrix) if len(names) <= _TABLED else None,
        holder_map(names, [item.rank for item in ranked], holders, target),
    )


def _facts(found: Contributions, matrix: DistanceMatrix) -> list[str]:
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
    return facts


def _alike(found: Contributions, matrix: DistanceMatrix) -> bool:
    """Whether the ranking's distances to the target are those of the matrix."""
    apart = [
        abs(item.distance.value - matrix[item.holder, _TARGET_NAME].value)
        > 1e-3 * item.distance.value
        for item in found.holders
    ]
    return not any(apart)


def _table(names: Sequence[str], matrix: DistanceMatrix) -> Table:
    shown = [printable(name, 28) for name in names]
    every = [*names, _TARGET_NAME] if _TARGET_NAME in matrix.names else list(names)
    rows = [
        (
            Cell(word),
            *(Cell("0" if a == b else _told(matrix[a, b])) for b in every),
        )
        for word, a in zip(shown, names, strict=True)
    ]
    heads = [*shown, TARGET] if len(every) > len(names) else shown
    columns = (Column("holder", numeric=False), *(Column(name) for name in heads))
    what = "certified bounds"
    if any(pair.interval is not None for pair in matrix.pairs.values()):
        what = "likely intervals, which are not certified"
    return Table(f"Distances between holders with their {what}.", columns, rows)


def _told(pair: Distance) -> str:
    return f"{number(pair.value)} {interval(*(pair.interval or pair.bounds))}"
