"""``silot records --method private``: what the coordinator is told, and what the holder sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..api.suspects import count_broken
from ..data.measure import Measure
from ..errors import InputError
from ..records.counts import BrokenCounts
from .console import steps

if TYPE_CHECKING:
    from ..api.connect import Connection


def count_suspects(
    holders: Mapping[str, Measure] | Connection, validation: Measure, **options: Any
) -> BrokenCounts:
    """Count the broken records of one holder, with noise."""
    if "public" not in options:
        raise InputError(
            "method 'private' needs public records that models are fitted on: give --public.",
            code="public-absent",
        )
    if not isinstance(holders, Mapping) and "ledgers" not in options:
        # A run that goes on asks what it asked: with the noise that was drawn for this run.
        budget = {"budget_epsilon": options.get("privacy_epsilon", 1.0)}
        options = {"ledgers": holders.folder, **budget, **options}
    with steps("suspects") as progress:
        return count_broken(holders, validation, progress=progress, **options)
