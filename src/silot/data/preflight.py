"""What tables look like that come without a schema, before anything is made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .column_checks import constants, duplicates, identifiers, repetitions, scales, sentinels
from .column_kinds import Number
from .findings import Finding, Looks, holders_in_words
from .names import possible_limits
from .unit_check import Suspicion, suspected_few

if TYPE_CHECKING:
    from .measure import Measure


# Of so large a part of the numbers the column is in another unit, or in two.
_MOST = 0.5


def mixtures(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Few numbers that cannot be, by what the name says is measured, and are in another unit."""
    compared = [sample for sample in samples if sample.enough]
    findings: list[Finding] = []
    for k, column in enumerate(columns if compared else ()):
        # The middle one of all, as other units are told.
        order = sorted(compared, key=lambda sample: (float(sample.quantiles[3, k]), sample.name))
        low, middle, high = order[(len(order) - 1) // 2].quantiles[2:5, k].tolist()
        limits = possible_limits(column, (low, middle, high))
        if limits is None:
            continue
        number = Number(
            kind="number", unit=limits.unit, substance=limits.substance,
            range=(limits.low, limits.high),
        )  # fmt: skip
        grouped: dict[str, dict[str, Suspicion]] = {}
        for sample in compared:
            values = sample.records[:, k]
            far = values[(values < limits.low) | (values > limits.high)]
            few = suspected_few(column, number, (low, middle, high), far, len(values))
            if few is not None and few.unit and few.count <= _MOST * len(sample.records):
                grouped.setdefault(few.unit, {})[sample.name] = few
        findings += [_finding(column, unit, limits.unit, few) for unit, few in grouped.items()]
    return findings


def _finding(column: str, unit: str, expected: str, few: Mapping[str, Suspicion]) -> Finding:
    count = sum(suspicion.count for suspicion in few.values())
    sentence = (
        f"{count:,} values of {column!r} of {holders_in_words(tuple(few))} cannot be in "
        f"{expected}, as the rest seems to be, and would fit in {unit}. Bring the column to one unit."
    )
    return Finding(column, tuple(few), "unit", sentence, True, {"count": float(count)})


_NAMED_CLASSES = 3


def classes(measures: Mapping[str, Measure]) -> list[Finding]:
    """What was noticed of the classes of the holders that have some."""
    kinds = {
        name: set(measure.names[measure.masses > 0].tolist())
        for name, measure in measures.items()
        if measure.names is not None
    }
    return [*_codings(kinds), *_alone(kinds)] if len(kinds) > 1 else []


def _codings(kinds: Mapping[str, set[str]]) -> list[Finding]:
    """Classes that are called alike but for signs, spaces, case or zeros in front."""
    holders: dict[str, dict[str, list[str]]] = {}
    for name, own in kinds.items():
        for kind in own:
            holders.setdefault(_plain(kind), {}).setdefault(kind, []).append(name)
    alike = [ways for plain, ways in sorted(holders.items()) if plain and len(ways) > 1]
    if not alike:
        return []
    who = tuple(dict.fromkeys(name for ways in alike for names in ways.values() for name in names))
    spellings = " and ".join(
        f"{kind!r} ({holders_in_words(names)})" for kind, names in sorted(alike[0].items())[:3]
    )
    more = f", and {len(alike) - 1} more such pairs" if len(alike) > 1 else ""
    sentence = f"labels {spellings} look like one class{more}. Write labels alike everywhere."
    return [Finding("labels", who, "coding", sentence, True, {"classes": float(len(alike))})]


def _plain(kind: str) -> str:
    """What is left of a class without signs, spaces, case and zeros in front."""
    try:
        float(kind)
    except ValueError:
        return re.sub(r"[\W_]+", "", kind.casefold()).lstrip("0")
    # Numbers are what they are: -1 and 1 differ.
    return kind


def _alone(kinds: Mapping[str, set[str]]) -> list[Finding]:
    """Classes that one holder has alone."""
    findings: list[Finding] = []
    for name, own in kinds.items():
        alone = sorted(own.difference(*(other for who, other in kinds.items() if who != name)))
        if alone:
            listed = ", ".join(map(repr, alone[:_NAMED_CLASSES]))
            listed += f" and {len(alone) - _NAMED_CLASSES} more" if len(alone) > 3 else ""
            sentence = f"labels: only {name!r} has {listed}"
            numbers = {"count": float(len(alone))}
            findings.append(Finding("labels", (name,), "classes", sentence, numbers=numbers))
    return findings


# One column with more of the variance than this is what distances are about.
_DOMINATES = 0.9
# Arrays of more columns than this are pictures or embeddings: their columns are no quantities.
_ARRAY_COLUMNS = 64


@dataclass(frozen=True)
class Preflight:
    """What was seen of the data that the caller owns, without a schema.

    It is computed beside a run, where the data are: no party is asked for it or told of it. A
    *flag* puts in doubt what follows from the numbers; a fact is only said. Records of weight
    zero are left out, other weights make no difference here.

    Attributes
    ----------
    shares
        Part of the variance of all records together, by column. Squared distances are sums over
        columns: this is what each column counts for in them.
    findings
        What was noticed, flags first.
    holders
        Whose data were looked at.
    unseen
        Holders of a federation with data of their own: nobody looked at these.
    named
        Whether columns have names of their own; others are called by their places.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(5.0, 1.0, (50, 1)), rng.normal(90.0, 18.0, (50, 1))
    >>> wards = {name: Measure(z, columns=["glucose"]) for name, z in (("a", x), ("b", y))}
    >>> flag = Preflight.of(wards).flags[0]
    >>> flag.kind, flag.column, flag.holders
    ('unit', 'glucose', ('b',))
    """

    shares: Mapping[str, float]
    findings: tuple[Finding, ...]
    holders: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    named: bool = field(default=True, repr=False)

    @classmethod
    def of(cls, measures: Mapping[str, Measure], unseen: Sequence[str] = ()) -> Preflight | None:
        """Look at measures that fit together, by the name of who has them.

        Returns
        -------
        Preflight or None
            ``None`` where a schema says what the columns are, and for arrays of many columns.
        """
        if any(getattr(measure, "schema", None) is not None for measure in measures.values()):
            return None
        if not measures:
            return cls({}, (), (), tuple(unseen), False) if unseen else None
        columns, named = _columns(measures)
        if not named and len(columns) > _ARRAY_COLUMNS:
            return None
        samples = [
            Looks.of(name, measure.points, measure.weights)
            for name, measure in measures.items()
            if measure.dimension == len(columns)
        ]
        shares = _shares(columns, samples)
        findings = [*_findings(columns, samples, named=named), *classes(measures)]
        if named:
            explained = {finding.column for finding in findings if finding.flag}
            findings += _domination(shares, explained, samples)
        findings.sort(key=lambda finding: not finding.flag)
        preflight = cls(shares, tuple(findings), tuple(measures), tuple(unseen), named)
        # Arrays are what their owner made of them: only what is odd is said of them.
        return preflight if named or preflight.flags or unseen else None

    @classmethod
    def together(cls, every: Sequence[Preflight | None]) -> Preflight | None:
        """What was seen of several runs, of which each looked at data of its own.

        Shares are those of the first of them.
        """
        preflights = [preflight for preflight in every if preflight is not None]
        if len(preflights) < 2:
            return preflights[0] if preflights else None
        findings = {one.sentence: one for part in preflights for one in part.findings}.values()
        return replace(
            preflights[0],
            findings=tuple(sorted(findings, key=lambda finding: not finding.flag)),
            holders=tuple(dict.fromkeys(name for part in preflights for name in part.holders)),
            unseen=tuple(dict.fromkeys(name for part in preflights for name in part.unseen)),
        )

    @property
    def flags(self) -> tuple[Finding, ...]:
        """What puts in doubt what follows from the numbers."""
        return tuple(finding for finding in self.findings if finding.flag)

    @property
    def facts(self) -> tuple[Finding, ...]:
        """What was noticed beside."""
        return tuple(finding for finding in self.findings if not finding.flag)

    @property
    def where(self) -> str:
        """Which columns to look at, in a few words; none without flags."""
        columns = list(dict.fromkeys(finding.column for finding in self.flags))
        listed = ", ".join(repr(name) for name in columns[:3])
        return listed + (f" and {len(columns) - 3} more" if len(columns) > 3 else "")

    def noticed(self, column: str) -> list[Finding]:
        """What was noticed of a column."""
        return [finding for finding in self.findings if finding.column == column]

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "shares": dict(self.shares),
            "flags": [finding.to_dict() for finding in self.flags],
            "facts": [finding.to_dict() for finding in self.facts],
            "holders": list(self.holders),
            "unseen": list(self.unseen),
        }


def _columns(measures: Mapping[str, Measure]) -> tuple[tuple[str, ...], bool]:
    """Names of the columns, and whether they have some of their own."""
    named = next((measure.columns for measure in measures.values() if measure.columns), None)
    width = max(measure.dimension for measure in measures.values())
    return named or tuple(f"column {k}" for k in range(width)), named is not None


def _findings(columns: Sequence[str], samples: Sequence[Looks], *, named: bool) -> list[Finding]:
    """What was noticed of columns, one by one and between holders."""
    numbering = identifiers(columns, samples)
    if not named and len(columns) == 1:
        # Places on a line: nothing else is there that they could number.
        numbering = []
    return [
        *numbering,
        *sentinels(columns, samples),
        *scales(columns, samples),
        *mixtures(columns, samples),
        *(repetitions(samples) if named and len(columns) > 1 else []),
        *constants(columns, samples),
        *duplicates(columns, samples),
    ]


def _shares(columns: Sequence[str], samples: Sequence[Looks]) -> dict[str, float]:
    """Part of each column of the variance of all records together."""
    # Of numbers near the largest there are the squares are too large to sum.
    size = max(float(np.abs(sample.ordered).max()) for sample in samples) or 1.0
    count = sum(len(sample.records) for sample in samples)
    means = [sample.records.mean(axis=0) / size for sample in samples]
    parts = [len(sample.records) / count for sample in samples]
    centre = sum(part * mean for part, mean in zip(parts, means, strict=True))
    total = np.zeros(len(columns))
    for sample, part, mean in zip(samples, parts, means, strict=True):
        total += part * ((sample.records / size).var(axis=0) + (mean - centre) ** 2)
    share = total / total.sum() if total.sum() > 0 else total
    return dict(zip(columns, share.tolist(), strict=True))


def _domination(
    shares: Mapping[str, float], explained: set[str], samples: Sequence[Looks]
) -> list[Finding]:
    """The column that distances are about, where there is one and nothing else explains it."""
    column = max(shares, key=lambda name: shares[name])
    if len(shares) < 2 or shares[column] <= _DOMINATES or column in explained:
        return []
    sentence = (
        f"{column!r} has {percent_of(shares[column])} of the variance: distances are about this "
        "column alone. Scale the columns, or give a schema."
    )
    names = tuple(sample.name for sample in samples)
    return [Finding(column, names, "domination", sentence, True, {"share": shares[column]})]


def percent_of(share: float) -> str:
    """A share as a percentage; only all of it is 100 %."""
    return f"{min(100 * share, 99.9):.1f} %" if share < 1 else "100 %"
