"""``silot records --method private``: what the coordinator is told, and what the holder sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..api_suspects import count_broken
from ..errors import InputError
from ..measure import Measure
from ..results import BrokenCounts, Estimate, RecordScores
from .console import OUT, bill_rows, show_rows, steps
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


def show_suspects(found: BrokenCounts) -> None:
    """What the coordinator was told."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for title in ("holder", "fault"):
        table.add_column(title)
    for title in ("broken", "95 %", "would be flagged", "of about"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, told in found.holders.items():
        for fault in ("label", "features", "all"):
            if fault in told.broken:
                each = told.broken[fault]
                table.add_row(
                    escape(name), fault, _about(each), f"{each.low:.0f} to {each.high:.0f}",
                    _about(told.flagged[fault]), f"{told.records:.0f}",
                )  # fmt: skip
    OUT.print(table, highlight=False)
    told_ = "counts with noise; scores, flags and suggestions stay with the holder"
    rows = {"told": told_, "status": found.status}
    strange = [each.strange for each in found.holders.values() if each.strange is not None]
    if strange:
        rows["other classes"] = f"about {sum(strange):.0f} records"
    show_rows({**rows, **bill_rows(found)})


def _about(number: Estimate) -> str:
    return f"{number.value:.0f}"
