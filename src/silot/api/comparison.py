"""A decision for each of several sites, with the evidence for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..data.drafts.result import site_file_of
from ..data.drafts.site_tables import Sources
from ..data.files import as_file_name, write_whole
from ..data.measure import Measure
from ..data.sheets import csv_lines
from ..federation.result import RunResult
from ..records.decisions import Decision, summarize
from ..records.evidence import LEVEL
from ..records.result import Contents, RecordScores, sheet_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteComparison(RunResult):
    """What to do with the data of several sites.

    Attributes
    ----------
    decisions
        One for each site: those to use first.
    reference
        What sites were compared with: the validation data's name, or the largest group of sites.
    reference_records
        How many records it has.
    groups
        Sites with the same distribution, where no validation data were given.
    sources
        The files, and how they were read.
    scores
        By site the scores of its records, where they were scored.
    measures
        By site its records, ``""`` for the reference's; empty where only releases were seen.
    level
        How often any site is called different that has the reference's distribution.
    fdr
        Share of the flagged records that may be clean.
    status
        What was done, and what could not be done.
    """

    view: ClassVar = "comparison_view:comparison"

    decisions: tuple[Decision, ...]
    reference: str
    reference_records: int
    groups: tuple[tuple[str, ...], ...] = ()
    sources: Sources
    scores: Mapping[str, RecordScores] = field(default_factory=dict[str, RecordScores], repr=False)
    measures: Mapping[str, Measure] = field(default_factory=dict[str, Measure], repr=False)
    level: float = LEVEL
    fdr: float = 0.1
    status: str
    converged: bool = True
    seed: int

    @property
    def verdict(self) -> str:
        """What to do with all sites, in one sentence."""
        return summarize(self.decisions)

    def __getitem__(self, site: str) -> Decision:
        """Return the decision for a site."""
        return next(item for item in self.decisions if item.site == site)

    def command(self, items: Sequence[Decision], folder: Path) -> str:
        """Return the next command for sites with one decision, with files below ``folder``.

        Empty for none.
        """
        sources, item = self.sources, items[0]
        files = [sources.files.get(one.site, "") for one in items]
        if not all(files):
            return ""
        reference, flags = sources.reference, sources.read_by(folder, [one.site for one in items])
        both = shlex.join([name for name in (reference, *files) if name])
        if not item.records:
            return f"silot schema check {shlex.join(files)} {flags}".rstrip()
        if item.verb == "exclude" or not reference:
            return f"silot distance matrix {both} {flags}".rstrip() if reference else ""
        if item.verb in ("use", "ask") and sources.label:
            cleaned = f" --drop-flagged --validation {shlex.quote(reference)}"
            return f"silot train {both} {flags}{cleaned if item.flagged else ''}"
        if len(items) > 1:
            return f"silot distance matrix {both} {flags}".rstrip()
        return f"silot distance {both} {flags} --why"

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write what the decisions refer to: schema, site files, sheets of faulty records, JSON.

        Parameters
        ----------
        folder
            Made if it is not there.

        Returns
        -------
        dict
            Files by what they are.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written: dict[str, Path] = {}
        sources = self.sources
        if sources.draft is not None:
            written["schema"] = place / "schema.yml"
            sources.draft.save(written["schema"])
        for site, draft in sources.site_drafts.items():
            written[f"site file of {site}"] = file = site_file_of(place / "schema.yml", site)
            if sources.draft is None:
                both = shlex.join([sources.schema_file, str(file)])
                write_whole(file, draft.text(both).encode())
        for item in self.decisions:
            if item.flagged:
                site = item.site
                contents = Contents(records=self.measures[site], validation=self.measures[""])
                rows = sheet_rows({site: self.scores[site]}, {site: contents}, holders=False)
                written[f"faulty records of {site}"] = file = (
                    place / f"{as_file_name(site)}_faulty.csv"
                )
                # Records stay with whoever may read them.
                write_whole(file, "".join(csv_lines(*rows)).encode(), private=True)
        written["numbers"] = place / "compare.json"
        write_whole(written["numbers"], f"{self.to_json()}\n".encode())
        return written

    @property
    def value(self) -> dict[str, float]:
        """The largest shift of a column of each site, in standard deviations of the reference."""
        return {item.site: abs(item.shift.value) for item in self.decisions if item.shift}

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Intervals of each shift, which cover in 95 % of cases for all columns together."""
        return {d.site: d.shift.sizes for d in self.decisions if d.shift}

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "decisions": [item.to_dict() for item in self.decisions],
            "reference": self.reference,
            "reference_records": self.reference_records,
            "groups": [list(members) for members in self.groups],
            "drafted": {site: draft.drafted for site, draft in self.sources.site_drafts.items()},
            "level": self.level,
            "fdr": self.fdr,
            "status": self.status,
            "converged": self.converged,
            **self._cost_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        return f"SiteComparison({self.verdict!r})"
