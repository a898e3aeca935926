"""Results with known content, made without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from silot import Measure
from silot.distances.result import Distance, DistanceMatrix
from silot.distances.worth.result import Contribution, Contributions
from silot.records.result import Contents, Estimate, RecordScores, Screening


def distance(value: float, width: float = 0.1, **fields: Any) -> Distance:
    given: dict[str, Any] = {
        "value": value,
        "lower": (1 - width) * value,
        "upper": (1 + width) * value,
        "method": "fedbary",
        "status": "converged: the bounds meet",
        "converged": True,
        "holders": ("holder", "coordinator"),
        "p": 2,
    }
    return Distance(**{**given, **fields})


def matrix_of(names: Sequence[str], values: Any, **fields: Any) -> DistanceMatrix:
    """A matrix with these values."""
    pairs = {
        (names[i], names[j]): distance(
            float(values[i][j]), method="direct", disclosure="record", holders=(names[i], names[j])
        )
        for i, j in combinations(range(len(names)), 2)
    }
    return DistanceMatrix(
        **{"names": tuple(names), "pairs": pairs, "method": "direct", "p": 2, **fields}
    )


def contributions(
    names: Sequence[str],
    *,
    seed: int = 0,
    between: Any = True,
    missing: Mapping[str, str] | None = None,
    **fields: Any,
) -> Contributions:
    """Holders as points of a space of a few dimensions, the target at its origin."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(len(names), 4)) * (1.0, 0.6, 0.2, 0.1) + (0.8, 0, 0, 0)
    values = np.linalg.norm(places, axis=1)
    ranks = 1 + np.argsort(np.argsort(values))
    shares = (1 / values) / (1 / values).sum()
    explained = np.maximum(0.0, 1 - values**2 / 9)
    holders = tuple(
        Contribution(
            holder=name,
            distance=distance(
                float(values[k]),
                float(rng.uniform(0.02, 0.12)),
                converged=k != 1,
                status="converged: the bounds meet"
                if k != 1
                else "stopped: after 20 rounds the bounds are still apart; raise rounds",
            ),
            share=float(shares[k]),
            explained=float(explained[k]),
            fedbary_share=float(shares[k]),
            rank=int(ranks[k]),
            records=500,
        )
        for k, name in enumerate(names)
    )
    matrix = None
    if between is not False:
        points = np.vstack([places, np.zeros(4)])
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        matrix = matrix_of([*names, "coordinator"], apart)
    if not isinstance(between, bool):
        matrix = matrix_of(list(names), between)
    given: dict[str, Any] = {
        "holders": holders,
        "target": "validation",
        "method": "fedbary",
        "spread": 3.0,
        "status": "converged",
        "converged": True,
        "seed": seed,
        "missing": missing or {},
        "between": matrix,
        "rounds": 3,
        "bytes_sent": 120_000,
        "bytes_received": 340_000,
        "seconds": 1.25,
        "disclosure": "record",
    }
    return Contributions(**{**given, **fields})


def screening(
    scores: Any, flagged: Any, *, labels: bool = True, seed: int = 0, **fields: Any
) -> Screening:
    """What was found of records, half of the flagged ones for their label."""
    rng, records = np.random.default_rng(seed), len(scores)
    kinds = np.where(flagged, "features", "")
    if labels:
        kinds = np.where(flagged & (np.arange(records) % 2 == 0), "label", kinds)
    copies = np.full(records, -1, dtype=np.int64)
    if records > 10:
        copies[-1] = 0
    value = float(flagged.sum())
    estimate = {
        "label": Estimate(value / 2, 0.0, value),
        "features": Estimate(value / 2, 0.0, value),
        "all": Estimate(value, 0.5 * value, 2 * value),
    }
    if not labels:
        del estimate["label"]
    given: dict[str, Any] = {
        "labels": rng.normal(size=records) if labels else None,
        "features": np.nan_to_num(scores),
        "kinds": kinds,
        "suggested": rng.choice(["sick", "well"], records) if labels else None,
        "has_known_label": np.ones(records, dtype=bool),
        "copy_of": copies,
        "nearest": rng.integers(0, 50, records),
        "columns": np.array([["glucose", "age"]] * records),
        "precision": np.linspace(1.0, 0.1, records),
        "residuals": rng.gamma(2.0, 4.0, (records, 2)),
        "broken": estimate,
    }
    return Screening(**{**given, **fields})


def record_scores(
    name: str,
    records: int = 500,
    *,
    seed: int = 0,
    broken: float = 0.1,
    published: bool = False,
    labels: bool = True,
    **fields: Any,
) -> tuple[RecordScores, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Scores, and which records are broken: those score higher, with some overlap."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(records, dtype=bool)
    truth[rng.permutation(records)[: round(broken * records)]] = True
    scores = rng.normal(-1.0, 0.6, records) + np.where(truth, rng.gamma(4.0, 0.8, records), 0.0)
    scores = np.asarray(fields.pop("scores", scores), dtype=float)
    flagged = scores > 0.5
    given: dict[str, Any] = {
        "name": name,
        "scores": scores,
        "flagged": flagged,
        "method": "published" if published else "screening",
        "fdr": None if published else 0.1,
        "screening": None if published else screening(scores, flagged, labels=labels, seed=seed),
        "rule": "about 10 % of the flagged records may be clean",
        "status": "screened with 50 validation records",
        "converged": True,
        "seed": seed,
        "rounds": 2,
        "bytes_sent": 40_000,
        "bytes_received": 90_000,
        "seconds": 0.4,
        "disclosure": "record",
    }
    return RecordScores(**{**given, **fields}), truth


def contents_of(scores: RecordScores, identifiers: Any = None, *, seed: int = 0) -> Contents:
    """Values for scores as above, and identifiers."""
    rng, records = np.random.default_rng(seed), len(scores.scores)

    def measure(size: int) -> Measure:
        labels = rng.choice(["sick", "well"], size)
        return Measure(rng.normal(5.0, 2.0, (size, 2)), labels=labels, columns=["glucose", "age"])

    return Contents(records=measure(records), validation=measure(50), identifiers=identifiers)


def many(holders: int = 100, records: int = 500) -> tuple[Contributions, list[RecordScores]]:
    """Many holders with many records each."""
    names = [f"hospital {k:03d}" for k in range(holders)]
    scores = [
        record_scores(name, records, seed=k, broken=0.01 * (k % 20))[0]
        for k, name in enumerate(names)
    ]
    return contributions(names), scores
