"""A decision for each of several sites, with the evidence for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from silot_transport import TwoSampleResult

from ...data.drafts.result import site_file_of
from ...data.files import as_file_name, write_whole
from ...data.measure import Measure
from ...data.sheets import csv_lines
from ...federation.result import RunResult
from ...records.result import Contents, RecordScores, sheet_rows
from ...render.words import listed, printable

if TYPE_CHECKING:
    from ...data.drafts.result import Draft, SiteDraft

Verb = Literal["use", "convert", "clean", "ask", "apart", "exclude"]
LEVEL = 0.05
"""How often any of several sites with the same distribution is called different."""


@dataclass(frozen=True)
class Step:
    """One thing to do: a verb, and what it is done to."""

    verb: Verb
    object: str = ""


@dataclass(frozen=True)
class Interval:
    """A number, and where it lies in 95 % of cases."""

    value: float
    low: float
    high: float

    @property
    def sizes(self) -> tuple[float, float]:
        """Within which the size of the number lies, whatever its sign."""
        low, high = sorted((abs(self.low), abs(self.high)))
        return (0.0 if self.low <= 0 <= self.high else low), high


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What to do with the data of one site, and why.

    Attributes
    ----------
    site
        Its name.
    records
        How many it has.
    steps
        What to do, in this order; the last says what the data are good for then.
    reason
        Why, in a sentence.
    test
        The two-sample test of its records and the reference, after all steps but the last.
    p_value
        Of the test, adjusted for the number of sites (Holm).
    shift
        Largest shift of one column that drives a difference, else of any, in its standard
        deviations in the reference, with an interval that holds for all columns together; ``None``
        where no column was tested.
    gain
        By how many points the accuracy on the reference's records rises, if the site's records are
        added to train on; ``None`` without labels.
    faulty
        How many records are faulty; ``None`` where they were not scored.
    flagged
        How many are flagged as faulty.
    group
        Number of the group that a site to keep apart belongs to, from 1; else 0.
    notes
        What a person should look at.
    """

    site: str
    records: int
    steps: tuple[Step, ...]
    reason: str
    test: TwoSampleResult
    p_value: float
    shift: Interval | None = None
    gain: Interval | None = None
    faulty: Interval | None = None
    flagged: int = 0
    group: int = 0
    notes: tuple[str, ...] = ()

    @property
    def verb(self) -> Verb:
        """What the data can be used for after all steps."""
        return self.steps[-1].verb

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        parts = ("shift", "gain", "faulty")
        plain = ("site", "records", "reason", "p_value", "flagged", "group")
        return {
            **{name: getattr(self, name) for name in plain},
            "steps": [vars(step) for step in self.steps],
            "test": self.test.to_dict(),
            **{name: value and vars(value) for name in parts for value in [getattr(self, name)]},
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Sources:
    """Which files were compared, and how they were read.

    ``draft`` is the schema that was proposed, where none was named by ``schema_file``.
    ``site_files`` were named, and ``site_drafts`` were proposed and read by; nobody has confirmed
    them.
    """

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    reference: str = ""
    reference_site: str = ""
    draft: Draft | None = None
    schema_file: str = ""
    site_files: Mapping[str, str] = field(default_factory=dict[str, str])
    site_drafts: Mapping[str, SiteDraft] = field(default_factory=dict[str, Any])
    label: str = ""

    def read_by(self, folder: Path, sites: Sequence[str]) -> str:
        """Return the flags by which a command reads the files of the reference and of sites."""
        schema = self.schema_file or (str(folder / "schema.yml") if self.draft else "")
        if not schema:
            return f"--label-column {shlex.quote(self.label)}" if self.label else ""
        words = ["--schema", schema]
        for name in (self.reference_site, *sites):
            is_drafted = name in self.site_drafts
            file = str(site_file_of(folder / "schema.yml", name)) if is_drafted else ""
            if file := file or self.site_files.get(name, ""):
                words += ["--site", f"{name}={file}"]
        return shlex.join(words)

    @property
    def unconfirmed(self) -> int:
        """How many entries a person has to confirm."""
        read_off = len(self.draft.schema.read_off) if self.draft else 0
        return read_off + sum(len(draft.drafted) for draft in self.site_drafts.values())


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

    view: ClassVar = "view:comparison"

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
        parts: list[str] = []
        for verbs in dict.fromkeys(tuple(step.verb for step in d.steps) for d in self.decisions):
            same = [d for d in self.decisions if tuple(step.verb for step in d.steps) == verbs]
            parts.append(_clause(same))
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."

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


def _clause(items: list[Decision]) -> str:
    """Say in a clause what to do with sites that have the same steps."""
    sites = listed([printable(item.site) for item in items], 3)
    several = len(items) > 1
    it = "them" if several else "it"
    phrases: list[str] = []
    for k, step in enumerate(items[0].steps):
        of = sites if k == 0 else it
        named = dict.fromkeys(item.steps[k].object for item in items if item.steps[k].object)
        objects = listed(list(named), 3)
        phrases.append(
            {
                "use": f"use {of}{' as they are' if several else ' as it is'}" if k == 0
                else f"use {of}",
                "convert": f"convert {objects} of {of}",
                "clean": f"clean {objects} of {of}",
                "ask": f"ask {of} for more of {objects}",
                "apart": f"keep {of} apart",
                "exclude": f"exclude {of}",
            }[step.verb]
        )  # fmt: skip
    words = ", then ".join(phrases)
    last = items[0].verb
    if last in ("apart", "exclude"):
        # Details after a colon are on the card.
        words += f", because {items[0].reason.partition(': ')[0]}" if not several else ""
    return words
