"""``silot records --method private``: what the coordinator is told, and what the holder sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api.suspects import count_broken
from ..data.measure import Measure
from ..errors import InputError
from ..records.counts import BrokenCounts
from .console import steps


def count_suspects(
    loaded: Mapping[str, Measure], name: str, validation: str, **options: Any
) -> BrokenCounts:
    """Count the broken records of one holder, with noise."""
    if "public" not in options:
        raise InputError(
            "method 'private' needs public records that models are fitted on: give --public.",
            code="public-absent",
        )
    with steps("suspects") as progress:
        return count_broken({name: loaded[name]}, loaded[validation], progress=progress, **options)
