"""``silot records --method private``: what the coordinator is told, and what the holder sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.suspects import count_broken
from ..data.measure import Measure
from ..errors import InputError
from ..records.counts import BrokenCounts
from ..records.result import RecordScores
from .console import steps
from .options import given


def count_suspects(
    loaded: Mapping[str, Measure],
    name: str,
    validation: str,
    *,
    labels: bool,
    fdr: float | None,
    seed: int,
    options: dict[str, Any],
    unused: Mapping[str, object],
) -> BrokenCounts:
    """Count the broken records of one holder, with noise."""
    for option, value in unused.items():
        if value is not None:
            raise InputError(
                f"method 'private' has no option {option!r}. Leave it out.", code="option-unknown"
            )
    if "public" not in options:
        raise InputError(
            "method 'private' needs public records that models are fitted on: give --public.",
            code="public-absent",
        )
    with steps("suspects") as progress:
        return count_broken(
            {name: loaded[name]},
            loaded[validation],
            labels=labels,
            seed=seed,
            progress=progress,
            **options,
            **given(fdr=fdr),
        )


def holders_own(found: BrokenCounts, name: str, measure: Measure) -> RecordScores:
    """Scores of every record, for the holder: computed where its records are, and not sent."""
    return found.screen(measure, name=name)
