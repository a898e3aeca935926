"""Claims and their verdicts, tables, and the page that a figure writes."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

import silot
from evidence.common import Context

T = TypeVar("T")
Verdict = Literal["matched", "partly", "not matched", "not testable here"]
# What stands where a paper's number would, for claims of ours; or "(a wish)" behind a number.
OURS = ("a wish", "none", "not in the paper", "not compared", "not stated", "not claimed")


@dataclass(frozen=True)
class Table:
    """A table with a caption."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(
        cls, caption: str, items: Iterable[T], columns: Mapping[str, Callable[[T], object]]
    ) -> Table:
        """A row an item: what each column's function says of it."""
        rows = [[str(say(item)) for say in columns.values()] for item in items]
        return cls(caption, list(columns), rows)

    def markdown(self) -> str:
        """Write it as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        body = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        return f"{self.caption}\n\n{body}"


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, or a wish of ours, and the number the paper has for it."""

    claim: str
    paper: str

    def judged(self, ours: str, verdict: Verdict, why: str = "") -> Judged:
        """The claim against what was measured here."""
        return Judged(self, ours, verdict, why)


@dataclass(frozen=True)
class Judged:
    """A claim, and what became of it."""

    claim: Claim
    ours: str
    verdict: Verdict
    why: str

    @property
    def row(self) -> list[str]:
        """Cells of the table of claims."""
        return [self.claim.claim, self.claim.paper, self.ours, f"**{self.verdict}**", self.why]


@dataclass
class Report:
    """What a figure came to.

    ``title``: paper and figure or table. ``about``: what it is, in a paragraph. ``setup``:
    sizes, seeds and choices the paper leaves open. ``claims, tables``: what is compared, and
    the numbers behind it.
    """

    title: str
    about: str
    setup: Sequence[str]
    claims: list[Judged] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def markdown(self, context: Context, seconds: float, code: str) -> str:
        """Write the report as Markdown, with the digests of the code that made it."""
        flag = " --full" if context.full else ""
        made = (
            f"Made by `python -m evidence {context.paper} {context.figure}{flag}` on "
            f"{date.today().isoformat()} in {seconds:.0f} s on shared CPU cores (seconds below are "
            f"rough), Python {platform.python_version()}, numpy {np.__version__}, "
            f"silot {silot.__version__}. Do not edit by hand."
        )
        parts = [
            f"# {self.title}",
            self.about,
            made,
            *([verdicts_table([claim.row for claim in self.claims])] if self.claims else []),
            "## Set-up",
            "\n".join(f"- {line}" for line in self.setup),
            "## Numbers",
            *(table.markdown() for table in self.tables),
            code,
        ]
        return "\n\n".join(parts) + "\n"


def verdicts_table(rows: Sequence[Sequence[str]]) -> str:
    """Write the section of verdicts: claim, paper, here, verdict and why."""
    columns = ["claim", "paper", "here", "verdict", "why"]
    caption = "What the paper says against what was found."
    return "## Verdicts\n\n" + Table(caption, columns, rows).markdown()


def pick(tables: Sequence[Table], *names: str) -> list[dict[str, str]]:
    """Rows of the first table that has all of these columns, by column."""
    for table in tables:
        if set(names) <= set(table.columns):
            return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    raise LookupError(f"no table has the columns {', '.join(names)}")


def verdict(holds: bool, *, partly: bool = False) -> Verdict:
    """Word for a check; ``partly`` when it does not hold but a weaker form does."""
    if holds:
        return "matched"
    return "partly" if partly else "not matched"


def every(flags: Iterable[bool]) -> Verdict:
    """Word for a check of several: ``partly`` when it holds for some."""
    held = list(flags)
    return verdict(all(held), partly=any(held))


def number(cell: str) -> float:
    """Read the number that a cell begins with; per cent as a share."""
    first = cell.split()[0]
    return float(first[:-1]) / 100 if first.endswith("%") else float(first)


def mean_sd(values: npt.ArrayLike, form: str = ".1f") -> str:
    """Mean ± standard deviation, for a table; a dash where a number is missing."""
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any():
        return shown(None)
    return f"{array.mean():{form}} ± {array.std(ddof=min(1, array.size - 1)):{form}}"


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Smallest to largest, for a claim about several numbers."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def shown(value: float | None, form: str = ".2f") -> str:
    """A number for a table; a dash where there is none."""
    return "–" if value is None or np.isnan(value) else format(value, form)


def typical(values: Sequence[float]) -> str:
    """Median, and in brackets the smallest."""
    return f"{np.median(values):.2f} ({min(values):.2f})"
