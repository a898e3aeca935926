"""Checks of tables without a schema: record numbers, codes for missing values, other units.

Each check takes the samples of all holders and returns findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array

from .names import listing
from .units import Conversion, conversion_between

Flags = npt.NDArray[np.bool_]

# Rows of a holder that quantiles are computed from, evenly spaced.
ROWS = 4096
# Quantiles of fewer records are not compared.
FEW = 10
_QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
_QUARTILES = slice(2, 5)

# Whole numbers may number records if at least this part of them is distinct.
_DISTINCT = 0.95
# Distinct whole numbers of this many records that fill their range this densely number them.
_DENSE, _DENSE_RECORDS = 0.8, 20
_NUMBERING = {"id", "ids", "uid", "uuid", "guid", "pid", "mrn", "ssn", "identifier", "rowid"}
_NUMBERING |= {"rownum", "pseudonym"}
# An index may also be one of body mass: these words count alone, or beside what is counted.
_NUMBERED = {"no", "nr", "num", "number", "key", "index", "idx"}
_COUNTED = {"patient", "case", "record", "row", "encounter", "visit", "admission", "subject"}
_COUNTED |= {"person", "customer", "client", "sample", "unnamed"}

# Gaps, in spreads of the other values, from which a value counts as a code for a missing one: a
# repeated code in use, or zero; a code that may be a measurement or lies among codes of classes;
# another repeated value, or a code that occurs once.
_FAR_REPEATED, _FAR_CLASSES, _FAR_VALUE = 1.0, 3.0, 10.0
_CODES = {9.0, 2147483647.0, 2147483648.0, 32767.0, 32768.0, 65535.0, 4294967295.0}
_CODE_DIGITS = {mark * n for mark in "987" for n in range(2 if mark == "9" else 3, 7)}
_CODE_VALUES = 3
_MISSING_MOST = 0.5

# Ratios of two holders that are reported as facts, and those that are flagged.
_SCALE, _SPREAD, _EVEN = 5.0, 10.0, 1.6
_SHIFT_SAID, _SPREAD_SAID = 2.0, 2.0
_ALIKE = 1e-3
# Two samples from the same distribution differ by more than this many standard errors in 1 of
# 10,000 cases (Kolmogorov and Smirnov).
_CHANCE = 2.225
_PAIRED = 128
# A part of repeated records is reported from here on, if it is this many times that of others.
_REPEATED_SAID, _REPEATED_MORE = 0.05, 10.0
_REPEATED_FEW = 5


@dataclass(frozen=True)
class Finding:
    """What a check noticed about a column of one or more holders.

    Attributes
    ----------
    column
        The column, or ``"labels"`` or ``"records"``.
    holders
        The holders whose column it is about.
    kind
        ``identifier``, ``sentinel``, ``unit``, ``scale``, ``domination``, ``coding``, ``shift``,
        ``constant``, ``duplicate``, ``repeated`` or ``classes``.
    sentence
        The finding in words, with the column and the holders.
    flag
        Whether it puts what follows from the numbers in doubt; otherwise it is a fact.
    numbers
        The figures behind it.
    """

    column: str
    holders: tuple[str, ...]
    kind: str
    sentence: str
    flag: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name, ready for JSON."""
        return {
            "column": self.column,
            "holders": list(self.holders),
            "kind": self.kind,
            "sentence": self.sentence,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True, eq=False)
class HolderSample:
    """The records of one holder, a sample of them with each column sorted, and its quantiles."""

    name: str
    records: Array = field(repr=False)
    ordered: Array = field(repr=False)
    quantiles: Array = field(repr=False)

    @classmethod
    def of(cls, name: str, points: Array, weights: Array) -> HolderSample:
        """Sample the records (n, d) of positive weight."""
        rows = records = points if weights.all() else points[weights > 0]
        if len(records) > ROWS:
            # With the extremes of all records, since few rows may hold what is far outside.
            places = np.linspace(0, len(records) - 1, ROWS).astype(int)
            rows = np.vstack([records[places], records.min(axis=0), records.max(axis=0)])
        ordered = np.sort(rows, axis=0)
        places = [round(q * (len(ordered) - 1)) for q in _QUANTILES]
        return cls(name, records, ordered, ordered[places])

    @property
    def is_comparable(self) -> bool:
        """Return whether there are enough records to compare."""
        return len(self.ordered) >= FEW


def holders_in_words(names: Sequence[str]) -> str:
    """Return holders as a part of a sentence, the first three by name."""
    return listing([repr(name) for name in names], 3)


def is_numbering_name(column: str) -> bool:
    """Return whether the name of a column says that it numbers something."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", column).lower()
    tokens = re.findall(r"[a-z]+", split)
    words = set(tokens)
    return (
        bool(_NUMBERING & words)
        or (bool(_COUNTED & words) and (bool(_NUMBERED & words) or len(tokens) == 1))
        or tokens in (["index"], ["idx"])
    )


def find_identifiers(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find columns that number records, by their names, the order of the rows or missing gaps."""
    integral = np.all(
        [np.all(sample.ordered == np.rint(sample.ordered), axis=0) for sample in samples], axis=0
    )
    numbering = np.array([
        bool(of_integers) and is_numbering_name(column)
        for column, of_integers in zip(columns, integral, strict=True)
    ])  # fmt: skip
    distinct = np.any([_distinct(sample) >= _DISTINCT for sample in samples], axis=0)
    findings: list[Finding] = []
    for k in np.flatnonzero(integral & (numbering | distinct)).tolist():
        why = {sample.name: _numbering(columns[k], sample, k) for sample in samples}
        holders = tuple(name for name, reason in why.items() if reason)
        reason = next((reason for reason in why.values() if reason), "")
        if not holders:
            every = np.concatenate([sample.ordered[:, k] for sample in samples])
            holders = tuple(why) if _dense(every) else ()
            reason = "whole numbers without gaps, each of them once"
        if holders:
            sentence = (
                f"{columns[k]!r} of {holders_in_words(holders)} looks like a record number "
                f"({reason}). It is not a measurement: leave the column out."
            )
            findings.append(Finding(columns[k], holders, "identifier", sentence, True))
    return findings


def _distinct(sample: HolderSample) -> Array:
    """Return the part of the sorted values of each column that differ from the one before."""
    return (np.diff(sample.ordered, axis=0) > 0).sum(axis=0) / max(len(sample.ordered) - 1, 1)


def _numbering(column: str, sample: HolderSample, k: int) -> str:
    """Return why a column of whole numbers seems to number the records, or an empty text."""
    ordered = sample.ordered[:, k]
    if not sample.is_comparable:
        return ""
    distinct = float((np.diff(ordered) > 0).mean())
    if is_numbering_name(column) and distinct >= 0.3:
        return "by its name, and whole numbers"
    if distinct < _DISTINCT:
        return ""
    steps = np.diff(sample.records[:, k])
    if np.all(steps >= 0) or np.all(steps <= 0):
        return "whole numbers in the order of the rows"
    return "whole numbers without gaps, each of them once" if _dense(ordered) else ""


def _dense(values: Array) -> bool:
    """Return whether whole numbers are nearly all distinct and nearly fill their range."""
    distinct = np.unique(values)
    wide = float(distinct[-1] - distinct[0]) + 1
    return (
        len(values) >= _DENSE_RECORDS
        and len(distinct) >= _DISTINCT * len(values)
        and len(distinct) >= _DENSE * wide
    )


def find_sentinels(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find values that stand for missing ones: repeated, or a code in use, and far from others."""
    grouped: dict[tuple[int, float], dict[str, tuple[int, float]]] = {}
    for sample in samples:
        if sample.is_comparable:
            for k, value, count, far in _far_values(sample):
                grouped.setdefault((k, value), {})[sample.name] = count, far
    return [_sentinel(columns[k], value, at) for (k, value), at in grouped.items()]


def _sentinel(column: str, value: float, at: Mapping[str, tuple[int, float]]) -> Finding:
    """Report a value that is far from all others, by its count and distance at each holder."""
    names = tuple(at)
    count, far = sum(count for count, _ in at.values()), min(far for _, far in at.values())
    numbers = {"count": float(count), "gap": far}
    what = "one value"
    if is_missing_code(value) or value == 0:
        # A code may be shown, as it is nobody's measurement.
        what, numbers["value"] = f"the value {value:g}", value
    times = "once" if count == 1 else f"{count:,} times"
    sentence = (
        f"{column!r} of {holders_in_words(names)} has {what} {times}, {_three(far)} spreads away "
        "from all other values: is it a code for missing values? Drop or fill those records."
    )
    return Finding(column, names, "sentinel", sentence, True, numbers)


def _far_values(sample: HolderSample) -> Iterable[tuple[int, float, int, float]]:
    """Yield columns whose extreme value is like a code, the value, its count and gap in spreads."""
    # Negated, the largest values come first: both ends are treated alike.
    ordered = np.hstack([sample.ordered, -sample.ordered[::-1]])
    rows, ends = ordered.shape
    gaps = np.diff(ordered[: max(int(_MISSING_MOST * rows), 1) + 1], axis=0)
    if not len(gaps):
        return
    place, every = np.argmax(gaps, axis=0), np.arange(ends)
    gap = gaps[place, every]
    spread = _spread_above(ordered, place + 1)
    # A value below zero is far enough where all others are above: it is no measurement.
    below = (ordered[place, every] < 0) & (ordered[place + 1, every] > 0) & (2 * every < ends)
    for end in np.flatnonzero((gap > 0) & (below | (gap >= _FAR_REPEATED * spread))).tolist():
        sign, k = (1.0, end) if 2 * end < ends else (-1.0, end - ends // 2)
        outer, inner = ordered[: place[end] + 1, end], ordered[place[end] + 1 :, end]
        values = sorted(set((sign * outer).tolist()))
        if len(values) > _CODE_VALUES:
            continue
        # Values that occur once, and are no code, are measurements. A sample repeats extremes.
        is_single = len(values) == len(outer) and len(ordered) == len(sample.records)
        if is_single and not any(map(is_missing_code, values)):
            continue
        unit, many = _unit_of(sign * inner, float(spread[end]))
        far = float(gap[end]) / unit if unit > 0 else 0.0
        if far < _FAR_REPEATED and not (many and below[end]):
            continue
        for value in values:
            # Among all records, since a sample may hold its extremes twice.
            records = sample.records[sample.records[:, k] == value]
            # A repeated record is not a value that is written for many records.
            written = len(records) if 1 in records.shape else len(np.unique(records, axis=0))
            coded = many and written > 1 and below[end] and is_missing_code(value)
            if coded or far >= _far_enough(value, repeated=written > 1, many=many):
                yield k, value, len(records), far


def _spread_above(ordered: Array, first: npt.NDArray[np.intp]) -> Array:
    """Return the spread of each column from a row on; heavy tails count more than quartiles."""
    last = len(ordered) - 1
    parts = np.array([0.05, 0.25, 0.75, 0.95])[:, None]
    rows = np.minimum(np.rint(first + parts * (last - first)).astype(int), last)
    lowest, low, high, highest = ordered[rows, np.arange(ordered.shape[1])]
    return np.maximum(high - low, (highest - lowest) / 3)


def _unit_of(inner: Array, spread: float) -> tuple[float, bool]:
    """Return the unit of gaps, and whether the values are too many to be codes of classes."""
    kinds = np.unique(inner)
    many = len(kinds) > FEW
    return (spread if many else max(spread, float(np.ptp(kinds)))), many


def _far_enough(value: float, *, repeated: bool, many: bool) -> float:
    """Return from how many spreads away a value counts as a code for a missing one."""
    if not repeated:
        return _FAR_VALUE if is_missing_code(value) else np.inf
    if is_missing_code(value):
        return _FAR_REPEATED if many and not 0 < value < 100 else _FAR_CLASSES
    return _FAR_REPEATED if value == 0 and many else _FAR_VALUE


def is_missing_code(value: float) -> bool:
    """Return whether people and programs write a number for a missing one: -999, 9999, -1."""
    size = abs(value)
    if size in _CODES or value == -1.0 or size >= 1e29:
        return True
    return f"{size:.6g}".replace(".", "") in _CODE_DIGITS


def find_scales(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find columns whose size or place differs between holders, as in another unit."""
    compared = [sample for sample in samples if sample.is_comparable]
    if len(compared) < 2:
        return []
    stack = np.stack([sample.quantiles for sample in compared])
    spreads = stack[:, 4] - stack[:, 2]
    # The holder of the middle median leads, so ratios compare two holders however many differ.
    lead = np.argsort(stack[:, 3], axis=0, kind="stable")[(len(compared) - 1) // 2]
    reference = np.take_along_axis(stack, lead[None, None], axis=0)[0]
    width = reference[4] - reference[2]
    with np.errstate(all="ignore"):
        ratio = spreads / width
        moved = np.abs(stack[:, 3] - reference[3]) / width
    odd = (ratio >= _SPREAD_SAID) | (ratio <= 1 / _SPREAD_SAID) | (moved >= _SHIFT_SAID)
    grouped: dict[tuple[int, int, str, Conversion | None], list[int]] = {}
    for h, k in np.argwhere(odd & (width > 0) & (spreads > 0)).tolist():
        if h != lead[k]:
            kind, unit = _scaled(columns[k], stack[h, :, k], reference[:, k])
            if kind != "shift" and _same_distribution(
                compared[h].ordered[:, k], compared[lead[k]].ordered[:, k]
            ):
                kind, unit = "shift", None
            grouped.setdefault((k, int(lead[k]), kind, unit), []).append(h)
    return [
        _scale_finding(
            columns[k], [compared[h].name for h in who], compared[to].name, kind, unit,
            {
                "median_ratio": (
                    float(stack[who[0], 3, k] / reference[3, k]) if reference[3, k] else 0.0
                ),
                "spread_ratio": float(ratio[who[0], k]),
                "shift": float(moved[who[0], k]),
            },
        )
        for (k, to, kind, unit), who in grouped.items()
    ]  # fmt: skip


def _scaled(column: str, first: Array, second: Array) -> tuple[str, Conversion | None]:
    """Return the kind of difference between the quantiles of two holders, and the conversion."""
    unit = conversion_between(column, first[_QUARTILES].tolist(), second[_QUARTILES].tolist())
    size = _one_factor(first[1:6], second[1:6])
    # Another unit multiplies all by one number; another distribution may come near in quartiles.
    if unit is not None and (size is not None or unit.concerns(column)):
        return "unit", unit
    wide = float((first[4] - first[2]) / (second[4] - second[2]))
    if size is not None and max(size, 1 / size) >= _SCALE:
        return "scale", None
    return ("scale" if max(wide, 1 / wide) >= _SPREAD else "shift"), None


def _one_factor(first: Array, second: Array) -> float | None:
    """Return the factor between two sets of quantiles, if it is one for all of them."""
    if not np.all(first * second > 0):
        return None
    ratios = np.abs(first / second)
    is_even = ratios.max() <= _EVEN * ratios.min()
    return float(np.exp(np.log(ratios).mean())) if is_even else None


def _same_distribution(first: Array, second: Array) -> bool:
    """Return whether two sorted samples may be from the same distribution (Kolmogorov-Smirnov)."""
    every = np.concatenate([first, second])
    below = [np.searchsorted(x, every, side="right") / len(x) for x in (first, second)]
    apart = float(np.abs(below[0] - below[1]).max())
    return apart < _CHANCE * float(np.sqrt(1 / len(first) + 1 / len(second)))


def _scale_finding(
    column: str,
    names: Sequence[str],
    reference: str,
    kind: str,
    unit: Conversion | None,
    numbers: Mapping[str, float],
) -> Finding:
    of = f"{column!r} of {holders_in_words(names)}"
    ratio, wide, shift = numbers["median_ratio"], numbers["spread_ratio"], numbers["shift"]
    times = f"{_three(wide)} times the spread of {reference!r}"
    both = f"{of} has {_three(ratio)} times the median and {times}"
    if unit is not None:
        sentence = f"{both}, as between {unit.in_words}. Bring the column to one unit."
        numbers = {**numbers, "factor": unit.factor}
    elif kind == "scale":
        # The ratio of medians of centred numbers means nothing.
        even = ratio > 0 and 1 / _EVEN <= ratio / wide <= _EVEN
        what = both if even else f"{of} has {times}"
        sentence = f"{what}: another unit, or another distribution. Look at the column."
    else:
        sentence = f"{of}: {times}, and a median that is {_three(shift)} of its spreads away"
    return Finding(column, tuple(names), kind, sentence, kind != "shift", numbers)


def _three(value: float) -> str:
    """Write a number with three digits, large ones in full: 1,020."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1e3 <= abs(rounded) < 1e9 else f"{rounded:.3g}"


def find_constants(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find columns that have one value only at a holder."""
    still = np.stack([sample.ordered[0] == sample.ordered[-1] for sample in samples])
    findings: list[Finding] = []
    for k in np.flatnonzero(still.any(axis=0)).tolist():
        names = tuple(samples[h].name for h in np.flatnonzero(still[:, k]).tolist())
        if len(names) < len(samples) and not all(len(sample.ordered) > 1 for sample in samples):
            continue
        where = "everywhere" if len(names) == len(samples) else f"of {holders_in_words(names)}"
        sentence = f"{columns[k]!r} {where} has one value only"
        findings.append(Finding(columns[k], names, "constant", sentence))
    return findings


def find_repetitions(samples: Sequence[HolderSample]) -> list[Finding]:
    """Find records that occur several times at a holder, and not at others."""
    share = {sample.name: _repeated(sample) for sample in samples if sample.is_comparable}
    least = min(share.values(), default=0.0)
    findings: list[Finding] = []
    for name, part in share.items():
        if part >= _REPEATED_SAID and part > _REPEATED_MORE * least:
            sentence = f"{100 * part:.0f} % of the records of {name!r} occur several times"
            compared = len(share) > 1
            if compared:
                sentence += f"; at another holder {100 * least:.2g} %. Drop the copies."
            numbers = {"share": part, "least": least}
            findings.append(Finding("records", (name,), "repeated", sentence, compared, numbers))
    return findings


def _repeated(sample: HolderSample) -> float:
    """Return the part of the distinct records that occur several times.

    It is 0 where records may coincide by themselves, since no column has many values.
    """
    varied = np.diff(sample.ordered, axis=0) > 0
    # Equal records have equal random combinations; different ones share one by accident only.
    sums = np.zeros(len(sample.records))
    for k, factor in enumerate(np.random.default_rng(0).normal(size=sample.records.shape[1])):
        sums += factor * sample.records[:, k]
    times = np.unique(sums, return_counts=True)[1]
    if 2 * (varied.sum(axis=0).max() + 1) < min(len(times), len(sample.ordered)):
        return 0.0
    return float((times > 1).mean()) if (times > 1).sum() >= _REPEATED_FEW else 0.0


def find_duplicates(columns: Sequence[str], samples: Sequence[HolderSample]) -> list[Finding]:
    """Find columns that repeat another one, and so count twice in every distance."""
    most = max(samples, key=lambda sample: len(sample.ordered))
    if not 2 <= len(columns) <= _PAIRED or len(most.records) < 2 * FEW:
        return []
    count = len(most.records)
    rows = most.records[np.linspace(0, count - 1, min(ROWS, count)).astype(int)]
    with np.errstate(all="ignore"):
        centred = rows - rows.mean(axis=0)
        unit = centred / np.sqrt((centred**2).sum(axis=0))
        likeness = np.abs(np.nan_to_num(unit.T @ unit))
    names = (most.name,)
    return [
        Finding(
            columns[j], names, "duplicate",
            f"{columns[j]!r} of {most.name!r} says almost the same as {columns[i]!r}",
            numbers={"correlation": float(likeness[i, j])},
        )
        for j in range(len(columns))
        for i in [int(np.argmax(likeness[:j, j])) if j else 0]
        if j and likeness[i, j] > 1 - _ALIKE
    ]  # fmt: skip
