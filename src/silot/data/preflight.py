"""Check tables that come without a schema, before anything is computed from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import column_checks as checks
from .column_checks import Finding, HolderSample, holders_in_words
from .column_kinds import Number
from .names import limits_of, listing, look_of, unit_of
from .units import Suspicion, suspect_unit_of_few

if TYPE_CHECKING:
    from .measure import Measure

# Where more than this part of the numbers would fit in another unit, the whole column is in it.
_MOST = 0.5
_NAMED_CLASSES = 3
# Distances are about one column if it has more of the variance than this.
_DOMINATES = 0.9
# Arrays of more columns than this are pictures or embeddings: their columns are no quantities.
_ARRAY_COLUMNS = 64


def find_mixtures(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find a few impossible numbers of a quantity that would be possible in another unit."""
    compared = [sample for sample in samples if sample.is_comparable]
    findings: list[Finding] = []
    for k, column in enumerate(columns if compared else ()):
        # The holder of the middle median leads, as in the check of scales.
        order = sorted(compared, key=lambda sample: (float(sample.quantiles[3, k]), sample.name))
        low, middle, high = order[(len(order) - 1) // 2].quantiles[2:5, k].tolist()
        limits = limits_of(column, unit_of(column), (low, middle, high), in_any=True)
        if limits is None:
            continue
        number = Number(
            kind="number", unit=limits.unit, substance=limits.substance,
            range=(limits.low, limits.high),
        )  # fmt: skip
        grouped: dict[str, dict[str, Suspicion]] = {}
        for sample in compared:
            values = sample.records[:, k]
            few = suspect_unit_of_few(column, number, (low, middle, high), values, len(values))
            if few is not None and few.unit and few.count <= _MOST * len(sample.records):
                grouped.setdefault(few.unit, {})[sample.name] = few
        findings += [_mixture(column, unit, limits.unit, few) for unit, few in grouped.items()]
    return findings


def _mixture(column: str, unit: str, expected: str, few: Mapping[str, Suspicion]) -> Finding:
    count = sum(suspicion.count for suspicion in few.values())
    sentence = (
        f"{count:,} values of {column!r} of {holders_in_words(tuple(few))} cannot be in "
        f"{expected}, as the rest seems to be, and would fit in {unit}. Bring the column to one "
        "unit."
    )
    return Finding(column, tuple(few), "unit", sentence, True, {"count": float(count)})


def _check_classes(measures: Mapping[str, Measure]) -> list[Finding]:
    """Compare the classes of the holders that have labels."""
    kinds = {
        name: set(measure.names[measure.masses > 0].tolist())
        for name, measure in measures.items()
        if measure.names is not None
    }
    return [*_find_spellings(kinds), *_find_own_classes(kinds)] if len(kinds) > 1 else []


def _find_spellings(kinds: Mapping[str, set[str]]) -> list[Finding]:
    """Find classes whose names differ in signs, spaces, case or zeros in front only."""
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
    """Return the name of a class without signs, spaces, case and zeros in front."""
    try:
        float(kind)
    except ValueError:
        return re.sub(r"[\W_]+", "", look_of(kind)).lstrip("0")
    # The sign of a number counts: -1 and 1 differ.
    return kind


def _find_own_classes(kinds: Mapping[str, set[str]]) -> list[Finding]:
    """Find classes that only one holder has."""
    findings: list[Finding] = []
    for name, own in kinds.items():
        alone = sorted(own.difference(*(other for who, other in kinds.items() if who != name)))
        if alone:
            listed = listing([repr(kind) for kind in alone], _NAMED_CLASSES)
            sentence = f"labels: only {name!r} has {listed}"
            numbers = {"count": float(len(alone))}
            findings.append(Finding("labels", (name,), "classes", sentence, numbers=numbers))
    return findings


@dataclass(frozen=True)
class Preflight:
    """Findings about the tables that the caller owns and that have no schema.

    It is computed beside a run, where the data are: no party receives a request for it, and nothing
    of it is sent. A *flag* puts in doubt what follows from the numbers; a fact does not. Records
    of weight zero are ignored, and other weights make no difference.

    Attributes
    ----------
    shares
        Each column's share of the variance of all records. Squared distances are sums over
        columns, so this is how much each column counts in them.
    findings
        The findings, flags first.
    holders
        Holders whose data were checked.
    unseen
        Holders of a federation whose data were not checked, since they keep them.
    named
        Whether the columns have names; others are called by their places.

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
        """Check measures with the same columns, by the names of their holders.

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
            HolderSample.of(name, measure.points, measure.weights)
            for name, measure in measures.items()
            if measure.dimension == len(columns)
        ]
        faults, classes = _find_faults(columns, samples, named=named), _check_classes(measures)
        # Of arrays without names only flags are reported: their owner prepared them.
        if not (named or unseen or any(finding.flag for finding in [*faults, *classes])):
            return None
        facts = checks.find_constants(columns, samples) + checks.find_duplicates(columns, samples)
        findings = [*faults, *facts, *classes]
        shares = _shares(columns, samples)
        if named:
            explained = {finding.column for finding in findings if finding.flag}
            findings += _domination(shares, explained, samples)
        findings.sort(key=lambda finding: not finding.flag)
        return cls(shares, tuple(findings), tuple(measures), tuple(unseen), named)

    @classmethod
    def together(cls, every: Sequence[Preflight | None]) -> Preflight | None:
        """Join the findings of several runs, with the shares of the first one."""
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
        """Return the findings that put in doubt what follows from the numbers."""
        return tuple(finding for finding in self.findings if finding.flag)

    @property
    def facts(self) -> tuple[Finding, ...]:
        """Return the other findings."""
        return tuple(finding for finding in self.findings if not finding.flag)

    @property
    def where(self) -> str:
        """Return the columns to look at in a few words; an empty text without flags."""
        return listing([repr(name) for name in dict.fromkeys(f.column for f in self.flags)], 3)

    def noticed(self, column: str) -> list[Finding]:
        """Return the findings about a column."""
        return [finding for finding in self.findings if finding.column == column]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return {
            "shares": dict(self.shares),
            "flags": [finding.to_dict() for finding in self.flags],
            "facts": [finding.to_dict() for finding in self.facts],
            "holders": list(self.holders),
            "unseen": list(self.unseen),
        }


def _columns(measures: Mapping[str, Measure]) -> tuple[tuple[str, ...], bool]:
    """Return names of the columns, and whether a measure has them."""
    named = next((measure.columns for measure in measures.values() if measure.columns), None)
    width = max(measure.dimension for measure in measures.values())
    return named or tuple(f"column {k}" for k in range(width)), named is not None


def _find_faults(
    columns: Sequence[str], samples: Sequence[HolderSample], *, named: bool
) -> list[Finding]:
    """Run the checks of columns that may put numbers in doubt."""
    numbering = checks.find_identifiers(columns, samples)
    if not named and len(columns) == 1:
        # Points on a line have no other column that they could number.
        numbering = []
    return [
        *numbering,
        *checks.find_sentinels(columns, samples),
        *checks.find_scales(columns, samples),
        # A column without a name is of no quantity.
        *(find_mixtures(columns, samples) if named else []),
        *(checks.find_repetitions(samples) if named and len(columns) > 1 else []),
    ]


def _shares(columns: Sequence[str], samples: Sequence[HolderSample]) -> dict[str, float]:
    """Return each column's share of the variance of all records."""
    # Scaled, since the squares of numbers near the largest float would overflow.
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
    shares: Mapping[str, float], explained: set[str], samples: Sequence[HolderSample]
) -> list[Finding]:
    """Find a column with nearly all of the variance, unless another flag explains it."""
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
    """Return a share as a percentage, with 100 % for exactly all only."""
    return f"{min(100 * share, 99.9):.1f} %" if share < 1 else "100 %"
