"""What is odd about the columns of tables: record numbers, codes for missing values, other units.

Every check looks at all holders at once, and tells what it sees as findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array

from .findings import FEW, ROWS, Finding, Looks, holders_in_words
from .units import Conversion, conversion_between

Flags = npt.NDArray[np.bool_]

_QUARTILES = slice(2, 5)

# Whole numbers of which so large a part are distinct may number records.
_DISTINCT = 0.95
# Whole numbers of some hundred records that are all distinct and fill their range this densely.
_DENSE, _DENSE_RECORDS = 0.8, 20
_NUMBERING = {"id", "ids", "uid", "uuid", "guid", "pid", "mrn", "ssn", "identifier", "rowid"}
_NUMBERING |= {"rownum", "pseudonym"}
# An index may be one of the body's mass: these count alone, or beside what is counted.
_NUMBERED = {"no", "nr", "num", "number", "key", "index", "idx"}
_COUNTED = {"patient", "case", "record", "row", "encounter", "visit", "admission", "subject"}
_COUNTED |= {"person", "customer", "client", "sample", "unnamed"}

# A gap in spreads of the rest: of a code in use that is repeated, and of zero; of one that may be a
# measurement or is among codes of classes; of others, and of a code that is there once.
_FAR_REPEATED, _FAR_CLASSES, _FAR_VALUE = 1.0, 3.0, 10.0
_CODES = {9.0, 2147483647.0, 2147483648.0, 32767.0, 32768.0, 65535.0, 4294967295.0}
_CODE_VALUES = 3
_MISSING_MOST = 0.5

# Ratios of two holders that are said, and those that are flagged.
_SCALE, _SPREAD, _EVEN = 5.0, 10.0, 1.6
_SHIFT_SAID, _SPREAD_SAID = 2.0, 2.0
_ALIKE = 1e-3
# Distance of two empirical laws, in their standard errors: one law exceeds it in 1 of 10,000 cases.
_CHANCE = 2.225
_PAIRED = 128
# Part of the records that are there before: from where it is said, and more than elsewhere by this.
_REPEATED_SAID, _REPEATED_MORE = 0.05, 10.0
_REPEATED_FEW = 5


def _tokens(column: str) -> list[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", column).lower()
    return re.findall(r"[a-z]+", split)


def numbers_by_name(column: str) -> bool:
    """Whether the name of a column says that it numbers something."""
    tokens = _tokens(column)
    counted = any(token in _COUNTED for token in tokens)
    numbered = any(token in _NUMBERED for token in tokens)
    return (
        any(token in _NUMBERING for token in tokens)
        or (counted and (numbered or len(tokens) == 1))
        or tokens in (["index"], ["idx"])
    )


def identifiers(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Columns that number records: whole numbers, distinct, by name, by rows, or without gaps."""
    integral = np.all(
        [np.all(sample.ordered == np.rint(sample.ordered), axis=0) for sample in samples], axis=0
    )
    numbering = np.array([numbers_by_name(column) for column in columns])
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
                f"({reason}). It is no measurement: leave the column out."
            )
            findings.append(Finding(columns[k], holders, "identifier", sentence, True))
    return findings


def _distinct(sample: Looks) -> Array:
    """Which part of each column differs from the row before it, in order."""
    return (np.diff(sample.ordered, axis=0) > 0).sum(axis=0) / max(len(sample.ordered) - 1, 1)


def _numbering(column: str, sample: Looks, k: int) -> str:
    """Why a column of whole numbers seems to number the records of a holder, if it does."""
    ordered = sample.ordered[:, k]
    if not sample.enough:
        return ""
    distinct = float((np.diff(ordered) > 0).mean())
    if numbers_by_name(column) and distinct >= 0.3:
        return "by its name, and whole numbers"
    if distinct < _DISTINCT:
        return ""
    steps = np.diff(sample.records[:, k])
    if np.all(steps >= 0) or np.all(steps <= 0):
        return "whole numbers in the order of the rows"
    return "whole numbers without gaps, each of them once" if _dense(ordered) else ""


def _dense(values: Array) -> bool:
    """Whether whole numbers are all distinct and nearly fill their range."""
    distinct = np.unique(values)
    wide = float(distinct[-1] - distinct[0]) + 1
    return (
        len(values) >= _DENSE_RECORDS
        and len(distinct) >= _DISTINCT * len(values)
        and len(distinct) >= _DENSE * wide
    )


def sentinels(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Values that stand for a missing one: repeated or a code in use, and far from all others."""
    grouped: dict[tuple[int, float], dict[str, tuple[int, float]]] = {}
    for sample in samples:
        if sample.enough:
            for k, value, count, far in _far_values(sample):
                grouped.setdefault((k, value), {})[sample.name] = count, far
    return [_sentinel(columns[k], value, at) for (k, value), at in grouped.items()]


def _sentinel(column: str, value: float, at: Mapping[str, tuple[int, float]]) -> Finding:
    """A value that is far from all others, with its count and distance by holder."""
    names = tuple(at)
    count, far = sum(count for count, _ in at.values()), min(far for _, far in at.values())
    numbers = {"count": float(count), "gap": far}
    what = "one value"
    if is_missing_code(value) or value == 0:
        # A code is nobody's measurement.
        what, numbers["value"] = f"the value {value:g}", value
    times = "once" if count == 1 else f"{count:,} times"
    sentence = (
        f"{column!r} of {holders_in_words(names)} has {what} {times}, {far:.3g} spreads away from "
        "all others: a code for missing values? Drop or fill those records."
    )
    return Finding(column, names, "sentinel", sentence, True, numbers)


def _far_values(sample: Looks) -> Iterable[tuple[int, float, int, float]]:
    """Columns with a value at an end that is like a code; its count, and gap in spreads."""
    for sign in (1.0, -1.0):
        # Both ends alike: of the negated values the largest come first.
        ordered = sample.ordered if sign > 0 else -sample.ordered[::-1]
        rows = len(ordered)
        gaps = np.diff(ordered[: max(int(_MISSING_MOST * rows), 1) + 1], axis=0)
        if not len(gaps):
            continue
        place = np.argmax(gaps, axis=0)
        gap = np.take_along_axis(gaps, place[None], axis=0)[0]
        spread = _spread_above(ordered, place + 1)
        # Below zero is far enough where nothing else is: no measurement is there.
        ends = np.take_along_axis(ordered, np.stack([place, place + 1]), axis=0)
        below = (ends[0] < 0) & (ends[1] > 0) & (sign > 0)
        for k in np.flatnonzero((gap > 0) & (below | (gap >= _FAR_REPEATED * spread))).tolist():
            outer, inner = ordered[: place[k] + 1, k], ordered[place[k] + 1 :, k]
            values = np.unique(sign * outer)
            if len(values) > _CODE_VALUES:
                continue
            unit, many = _unit_of(sign * inner, float(spread[k]))
            far = float(gap[k]) / unit if unit > 0 else 0.0
            for value in values.tolist():
                # Of all rows: the ends of a sample may be in it twice.
                rows = sample.records[sample.records[:, k] == value]
                # A record that is there twice is no value that is written for many.
                written = len(rows) if rows.shape[1] == 1 else len(np.unique(rows, axis=0))
                coded = many and written > 1 and below[k] and is_missing_code(value)
                if coded or far >= _far_enough(value, repeated=written > 1, many=many):
                    yield k, value, len(rows), far


def _spread_above(ordered: Array, first: npt.NDArray[np.intp]) -> Array:
    """Spread of each column from a row on: of heavy tails more than the quartiles tell."""
    last = len(ordered) - 1

    def at(q: float) -> Array:
        rows = np.minimum(np.rint(first + q * (last - first)).astype(int), last)
        return np.take_along_axis(ordered, rows[None], axis=0)[0]

    return np.maximum(at(0.75) - at(0.25), (at(0.95) - at(0.05)) / 3)


def _unit_of(inner: Array, spread: float) -> tuple[float, bool]:
    """What gaps are measured by, and whether there are more values than codes of classes."""
    kinds = np.unique(inner)
    many = len(kinds) > FEW
    return (spread if many else max(spread, float(np.ptp(kinds)))), many


def _far_enough(value: float, *, repeated: bool, many: bool) -> float:
    """From how many spreads away a value is like a code for a missing one."""
    if not repeated:
        return _FAR_VALUE if is_missing_code(value) else np.inf
    if is_missing_code(value):
        return _FAR_REPEATED if many and not 0 < value < 100 else _FAR_CLASSES
    return _FAR_REPEATED if value == 0 and many else _FAR_VALUE


def is_missing_code(value: float) -> bool:
    """Whether a number is one that people and programs write for a missing one: -999, 9999, -1."""
    size = abs(value)
    if size in _CODES or value == -1.0 or size >= 1e29:
        return True
    digits = f"{size:.6g}".replace(".", "")
    return digits in {mark * n for mark in "987" for n in range(2 if mark == "9" else 3, 7)}


def scales(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Columns that are of another size at some holders, as in another unit; and where they lie."""
    compared = [sample for sample in samples if sample.enough]
    if len(compared) < 2:
        return []
    stack = np.stack([sample.quantiles for sample in compared])
    spreads = stack[:, 4] - stack[:, 2]
    # The middle one of all: however many have another unit, ratios are those of two holders.
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
            if kind != "shift" and _by_chance(
                compared[h].ordered[:, k], compared[lead[k]].ordered[:, k]
            ):
                kind, unit = "shift", None
            grouped.setdefault((k, int(lead[k]), kind, unit), []).append(h)
    return [
        _scale_finding(
            columns[k], [compared[h].name for h in who], compared[to].name, kind, unit,
            {
                "median_ratio": _ratio(stack[who[0], 3, k], reference[3, k]),
                "spread_ratio": float(ratio[who[0], k]),
                "shift": float(moved[who[0], k]),
            },
        )
        for (k, to, kind, unit), who in grouped.items()
    ]  # fmt: skip


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b else 0.0


def _scaled(column: str, first: Array, second: Array) -> tuple[str, Conversion | None]:
    """What kind of difference there is between the quantiles of two holders."""
    unit = conversion_between(column, first[_QUARTILES].tolist(), second[_QUARTILES].tolist())
    size = _one_factor(first[1:6], second[1:6])
    # Another unit multiplies all by one number; another law may come near in its quartiles.
    if unit is not None and (size is not None or unit.concerns(column)):
        return "unit", unit
    wide = float((first[4] - first[2]) / (second[4] - second[2]))
    if size is not None and max(size, 1 / size) >= _SCALE:
        return "scale", None
    return ("scale" if max(wide, 1 / wide) >= _SPREAD else "shift"), None


def _one_factor(first: Array, second: Array) -> float | None:
    """By what all of some quantiles differ, if it is one number."""
    if not np.all(first * second > 0):
        return None
    ratios = np.abs(first / second)
    even = ratios.max() <= _EVEN * ratios.min()
    return float(np.exp(np.log(ratios).mean())) if even else None


def _by_chance(first: Array, second: Array) -> bool:
    """Whether two ordered samples may be of one law, by Kolmogorov and Smirnov."""
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
    both = f"{of} has {ratio:.3g} times the median and {wide:.3g} times the spread of {reference!r}"
    if unit is not None:
        said = f"{both}, as between {unit.in_words}. Bring the column to one unit."
        numbers = {**numbers, "factor": unit.factor}
    elif kind == "scale":
        # Of centred numbers medians have no ratio that means anything.
        even = ratio > 0 and 1 / _EVEN <= ratio / wide <= _EVEN
        what = both if even else f"{of} has {wide:.3g} times the spread of {reference!r}"
        said = f"{what}: another unit, or another law. Look at the column."
    else:
        said = (
            f"{of}: {wide:.3g} times the spread of {reference!r}, and a median that is {shift:.3g} "
            "of its spreads away"
        )
    return Finding(column, tuple(names), kind, said, kind != "shift", numbers)


def constants(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Columns that say nothing at some holders."""
    still = np.stack([sample.ordered[0] == sample.ordered[-1] for sample in samples])
    findings: list[Finding] = []
    for k in np.flatnonzero(still.any(axis=0)).tolist():
        names = tuple(samples[h].name for h in np.flatnonzero(still[:, k]))
        if len(names) < len(samples) and not all(len(sample.ordered) > 1 for sample in samples):
            continue
        where = "everywhere" if len(names) == len(samples) else f"of {holders_in_words(names)}"
        said = f"{columns[k]!r} {where} has one value only"
        findings.append(Finding(columns[k], names, "constant", said))
    return findings


def repetitions(samples: Sequence[Looks]) -> list[Finding]:
    """Records that are there several times at some holders, and not at others."""
    share = {sample.name: _repeated(sample) for sample in samples if sample.enough}
    least = min(share.values(), default=0.0)
    findings: list[Finding] = []
    for name, part in share.items():
        if part >= _REPEATED_SAID and part > _REPEATED_MORE * least:
            sentence = f"{100 * part:.0f} % of the records of {name!r} are there several times"
            compared = len(share) > 1
            if compared:
                sentence += f"; at another holder {100 * least:.2g} %. Drop the copies."
            numbers = {"share": part, "least": least}
            findings.append(Finding("records", (name,), "repeated", sentence, compared, numbers))
    return findings


def _repeated(sample: Looks) -> float:
    """Which part of the different records is there several times.

    None of those that may be alike by themselves, where no column has many values.
    """
    varied = np.diff(sample.ordered, axis=0) > 0
    # The same sum for the same record, whatever the others are; two others share it by accident.
    sums = np.zeros(len(sample.records))
    for k, factor in enumerate(np.random.default_rng(0).normal(size=sample.records.shape[1])):
        sums += factor * sample.records[:, k]
    times = np.unique(sums, return_counts=True)[1]
    if 2 * (varied.sum(axis=0).max() + 1) < min(len(times), len(sample.ordered)):
        return 0.0
    return float((times > 1).mean()) if (times > 1).sum() >= _REPEATED_FEW else 0.0


def duplicates(columns: Sequence[str], samples: Sequence[Looks]) -> list[Finding]:
    """Columns that say what another one says: they count twice in every distance."""
    most = max(samples, key=lambda sample: len(sample.ordered))
    if not 2 <= len(columns) <= _PAIRED or len(most.records) < 2 * FEW:
        return []
    rows = most.records[
        np.linspace(0, len(most.records) - 1, min(ROWS, len(most.records))).astype(int)
    ]
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
