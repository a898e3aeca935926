"""Proposals for columns of numbers and of days: ranges, units, logarithms, codes for missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

from .. import names
from ..column_checks import find_identifiers, find_sentinels, is_missing_code, is_numbering_name
from ..column_kinds import Date, Number
from ..coordinates import NO_DAYS
from ..documents import EXACT, neat
from ..names import Limits, Quartiles, has_word, is_identifier_name, limits_of, unit_of
from ..notation import PLAIN
from ..units import Suspicion, suspect_unit_of_few
from .profile import ColumnProfile, sample_of
from .proposals import (
    FEW,
    MOST,
    MOST_CATEGORIES,
    Proposal,
    propose_missing,
    propose_words,
    unknown_words,
)

Array = npt.NDArray[np.float64]

# Records that quartiles are proposed of.
_ENOUGH = 40
_EPOCH = date(1970, 1, 1)
# Part of the numbers beyond public limits up to which these are taken.
_MOST_FAR = 0.01
# The same of numbers in another unit; of more the table would be refused whatever a site says.
_MOST_CUT = 0.05
_EMPTY = ("at the site of the draft no record has a value", "empty")


def propose(name: str, profile: ColumnProfile, unit: str = "") -> Proposal:
    """A description of a column, whose unit the site may say."""
    if not profile.value_count:
        return Proposal(name).leave_out("text", *_EMPTY, "no record has a value.")
    if profile.typed == "other":
        words = "it is of a type that no kind of column reads."
        return Proposal(name).leave_out("text", "of a type that is not read", "text", words)
    if is_identifier_name(name) and _distinct(profile) > 0.3:
        words = "its name says whose record it is."
        return Proposal(name).leave_out("identifier", "by its name", "identifier", words)
    if (form := _form(name, profile)) is not None:
        return _days(name, profile, form)
    words = unknown_words(profile.numbers.texts)
    unread = profile.numbers.unread - sum(profile.numbers.texts[text] for text in words)
    read = profile.numbers.read
    if not read or read < MOST * (read + unread) or _by_codes(name, profile):
        return propose_words(name, profile)
    return _number(name, profile, unit, words)


def _distinct(profile: ColumnProfile) -> float:
    """Part of the records, about, that have a value of their own."""
    if profile.many:
        return len(np.unique(profile.codes)) / max(len(profile.codes), 1)
    return len(profile.names) / max(profile.value_count, 1)


def _by_codes(name: str, profile: ColumnProfile) -> bool:
    """Return whether numbers are names of categories."""
    if profile.many:
        return False
    kinds = set(profile.names)
    # A few limits alone, such as <=50K and >50K, are names of parts and no numbers.
    if kinds == {"0", "1"} or (len(kinds) <= FEW and all(name[:1] in "<>" for name in kinds)):
        return True
    # What has zeros in front is no number.
    if has_word(name, names.ADDRESS) or profile.padded > 0.1 * profile.value_count:
        return True
    numbers = profile.numbers
    is_coded = not numbers.unread and numbers.all_integers and len(kinds) <= MOST_CATEGORIES
    return is_coded and has_word(name, names.CODED)


def _form(name: str, profile: ColumnProfile) -> str | None:
    """Return how the days of a column are written, where it is one of days."""
    words = unknown_words(profile.numbers.texts)
    values = profile.value_count - sum(profile.numbers.texts[text] for text in words)
    # Eight digits can be read as a day, and are a number where the name says nothing of days.
    digits = profile.numbers.read > 0 and not has_word(name, names.DATED)
    fits = {form: days for form, days in profile.days.items() if days.read >= MOST * values > 0}
    if digits or not fits:
        return None
    most = max(days.read for days in fits.values())
    return next(form for form, days in fits.items() if days.read == most)


def _days(name: str, profile: ColumnProfile, form: str) -> Proposal:
    proposal = Proposal(name)
    days = profile.days[form]
    words = unknown_words(profile.numbers.texts)
    proposal.enter("kind", "date", public=True)
    proposal.enter("range", _whole_years([*days.ends]))
    if form != "iso":
        proposal.enter("format", form)
    swapped = [other for other in profile.days if _swapped(form, other)]
    if any(profile.days[other].read == days.read for other in swapped):
        proposal.note("date", "day and month may be exchanged: check its format.")
    unread = profile.value_count - days.read - sum(profile.numbers.texts[text] for text in words)
    _unread(proposal, profile, unread, "dates in the format of most values")
    propose_missing(proposal, profile, words)
    return proposal


def _whole_years(days: Iterable[float]) -> list[str]:
    """Return the first day of the first year, and of the one after the last."""
    years = [(_EPOCH + timedelta(days=math.floor(day))).year for day in days]
    return [date(min(years), 1, 1).isoformat(), date(min(max(years) + 1, 9999), 1, 1).isoformat()]


def pooled_days(name: str, part: Date, columns: Sequence[ColumnProfile]) -> dict[str, list[str]]:
    """Return the range of days of all tables, but for days that stand for missing ones."""
    ends = [
        day
        for own in columns if (form := _form(name, own))
        for day in own.days[form].ends if math.floor(day) not in NO_DAYS
    ]  # fmt: skip
    low, high = (day.isoformat() for day in part.range)
    first, last = _whole_years(ends) if ends else (low, high)
    return {"range": [min(low, first), max(high, last)]}


def _swapped(form: str, other: str) -> bool:
    return form != other and "".join(sorted(form)) == "".join(sorted(other))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The numbers of a column that are values: a sample, and the smallest and largest of all."""

    sample: Array
    ends: list[float]

    @classmethod
    def of(cls, profile: ColumnProfile, codes: list[float]) -> _Kept:
        """Those that stand for no missing value."""
        is_value = np.isfinite(profile.sample) & ~np.isin(profile.sample, codes)
        ends = sorted(value for value in profile.numbers.ends if value not in codes)
        return cls(profile.sample[is_value], ends)

    @property
    def quartiles(self) -> Quartiles:
        """Of the sample."""
        values = self.sample if len(self.sample) else np.array(self.ends[:1])
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        return (low, middle, high)


def _number(name: str, profile: ColumnProfile, unit: str, words: list[str]) -> Proposal:
    proposal = Proposal(name)
    codes = missing_codes(name, profile)
    kept = _Kept.of(profile, codes)
    if not kept.ends:
        reason = "no record has a value but codes for missing ones."
        return proposal.leave_out("text", *_EMPTY, reason)
    if why := _identifier(name, profile, kept):
        reason = f"it looks like a record number ({why})."
        return proposal.leave_out("identifier", why, "identifier", reason)
    limits = _limits(proposal, unit, kept)
    if limits is not None:
        # What cannot be, and is written for missing values elsewhere.
        codes += [
            value
            for value in kept.ends
            if not limits.low <= value <= limits.high and (value == 0 or is_missing_code(value))
        ]
        possible = _Kept.of(profile, codes)
        kept = possible if possible.ends else kept
    integers = profile.numbers.all_integers and max(abs(kept.ends[0]), abs(kept.ends[-1])) < EXACT
    proposal.enter("kind", "integer" if integers else "number", public=True)
    _notation(proposal, profile)
    span, public = _range(proposal, limits, kept)
    if not (math.isfinite(span[1] - span[0]) and span[0] < span[1]):
        reason = "its numbers are too large for a range."
        return proposal.leave_out("text", "numbers too large for a range", "name", reason)
    low = _tail(proposal, kept.sample, span[0])
    proposal.enter("range", [low, span[1]], public=public and low == span[0])
    _typical(proposal, kept)
    _looks(proposal, profile, kept, integers=integers)
    unread = profile.numbers.unread - sum(profile.numbers.texts[text] for text in words)
    _unread(proposal, profile, unread, "numbers")
    propose_missing(proposal, profile, [*words, *map(written, sorted(codes))])
    few = _few(name, Number.model_validate(proposal.entries), kept)
    if few is not None:
        proposal.note("unit", few.sentence, refused=few.strong and not unit)
    return proposal


def _notation(proposal: Proposal, profile: ColumnProfile) -> None:
    """Say how its numbers are written, where that is not as programs write them."""
    ways = () if profile.reading is None else profile.reading.notations
    if ways in ((), (PLAIN,)):
        return
    first = next(iter(ways))
    proposal.enter("notation", first.model_dump(exclude_defaults=True) or {"decimal": "."})
    if len(ways) > 1:
        words = " or ".join(str(notation) for notation in ways[1:])
        proposal.note(
            "notation", f"its numbers may be written in another way, {words}, which gives other "
            "values: check its notation.", refused=True,
        )  # fmt: skip
    else:
        proposal.note("notation", f"its numbers are written {first}: confirm it.")


def _few(name: str, number: Number, kept: _Kept) -> Suspicion | None:
    return suspect_unit_of_few(name, number, kept.quartiles, kept.sample, len(kept.sample))


def _unread(proposal: Proposal, profile: ColumnProfile, count: int, what: str) -> None:
    """Text that is neither guessed at nor quoted: the fields count as missing."""
    if count > 0:
        proposal.enter("unread", "missing")
        proposal.enter("missing", "indicator")
        proposal.note(
            "unread", f"{count:,} of {profile.rows:,} fields are not {what}, and count as missing: "
                      "check whether they mean more, such as a limit of detection."
        )  # fmt: skip


def _looks(proposal: Proposal, profile: ColumnProfile, kept: _Kept, *, integers: bool) -> None:
    if kept.ends[0] == kept.ends[-1]:
        proposal.note("constant", "all records have one value.")
    elif integers and not profile.many and len(profile.names) <= FEW:
        proposal.note(
            "codes", f"{len(profile.names)} whole numbers only. If they are codes of categories, "
            "write kind: category, or ordered, with their names."
        )  # fmt: skip


def missing_codes(name: str, profile: ColumnProfile) -> list[float]:
    """Numbers that stand for missing values: codes in use, far from all others."""
    ends, sentinel_values = profile.numbers.ends, list[float]()
    values = profile.sample[np.isfinite(profile.sample)]
    if len(values) < profile.numbers.read:
        # What is rare may be in no sample: the ends are of all records.
        values = values[~np.isin(values, list(ends))]
        most = 1 + len(values) // 4
        repeated = [np.repeat(value, min(count, most)) for value, count in ends.items()]
        values = np.concatenate([values, *repeated])
    for _ in range(3):
        kept = values[~np.isin(values, sentinel_values)]
        if not len(kept) or not float(kept.max()) - float(kept.min()) < math.inf:
            break
        new = [
            finding.numbers["value"]
            for finding in find_sentinels([name], [sample_of(kept[:, None])])
            if finding.numbers.get("value")
        ]
        if not new:
            break
        sentinel_values += new
    return sorted(set(sentinel_values))


def _identifier(name: str, profile: ColumnProfile, kept: _Kept) -> str:
    values, ends = kept.sample, kept.ends
    if not profile.numbers.all_integers:
        return ""
    distinct = len(np.unique(values)) / len(values)
    if len(values) < FEW:
        # Few records prove nothing, but a name and no value twice say enough to leave it out.
        alone = is_numbering_name(name) and len(values) > 1 and distinct == 1.0
        return "by its name, and whole numbers, none of them twice" if alone else ""
    if distinct >= MOST and profile.many and ends[-1] - ends[0] < 1.25 * profile.numbers.read:
        return "whole numbers almost without gaps, each of them once"
    for finding in find_identifiers([name], [sample_of(values[:, None])]):
        return finding.sentence.partition("(")[2].partition(")")[0]
    return ""


def _limits(proposal: Proposal, unit: str, kept: _Kept) -> Limits | None:
    """Public limits by the unit that site, name or numbers tell; the unit is entered."""
    named = unit or unit_of(proposal.name)
    limits = limits_of(proposal.name, named, kept.quartiles)
    if limits is None:
        if named:
            proposal.enter("unit", named, public=True)
        return None
    guessed = not named and bool(limits.substance)
    proposal.enter("unit", limits.unit, public=not guessed)
    if limits.substance:
        proposal.enter("substance", limits.substance, public=True)
    if guessed:
        proposal.note("unit", f"its unit follows from its numbers ({limits.unit}): confirm it.")
    return limits


def _range(
    proposal: Proposal, limits: Limits | None, kept: _Kept
) -> tuple[tuple[float, float], bool]:
    """The range, and whether it is that of public limits; else it is rounded outwards."""
    if limits is None:
        return rounded_outwards(kept.ends[0], kept.ends[-1]), False
    far = (kept.sample < limits.low) | (kept.sample > limits.high)
    span = (limits.low, limits.high)
    number = Number.model_validate({**proposal.entries, "range": span})
    few = _few(proposal.name, number, kept)
    most = _MOST_CUT if few is not None and few.strong else _MOST_FAR
    if len(far) and np.mean(far) > most:
        return rounded_outwards(kept.ends[0], kept.ends[-1]), False
    if kept.ends[0] < limits.low or kept.ends[-1] > limits.high:
        words = "some values are beyond the assumed possible range, and are cut to it."
        proposal.note("tail", words)
    return span, True


def rounded_outwards(low: float, high: float) -> tuple[float, float]:
    """Round numbers about two others.

    Examples
    --------
    >>> rounded_outwards(3.2, 187.0), rounded_outwards(61.3, 67.9), rounded_outwards(5, 5)
    ((0, 200), (61, 68), (0, 10))
    """
    with np.errstate(all="ignore"):
        if low == high:
            size = 10.0 ** math.ceil(math.log10(abs(low) * 1.000001)) if low else 1.0
            low, high = min(0.0, -size if low < 0 else 0.0), size if high >= 0 else 0.0
            return neat(low), neat(high)
        step = _round_step((high - low) / 10) if math.isfinite(high - low) else math.inf
        if not 1e-290 < step < math.inf:
            return -math.inf, math.inf
        start, end = math.floor(low / step) * step, math.ceil(high / step) * step
    digits = max(-math.floor(math.log10(step)), 0)
    start, end = round(start, digits), round(end, digits)
    while start > low:
        start -= step
    while end < high:
        end += step
    if low >= 0 and start < 0.25 * end:
        start = 0.0
    return (neat(start), neat(end)) if start < end else (low, high)


def written(code: float) -> float | str:
    """A number as an entry; one that is too large for an exact name, as text."""
    return neat(code) if abs(code) < EXACT else repr(code)


def _round_step(size: float) -> float:
    if not size > 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(size))
    return next((k * power for k in (1, 2, 5, 10) if k * power >= size), 10 * power)


def _tail(proposal: Proposal, kept: Array, start: float) -> float:
    """A logarithm for a heavy tail of positive numbers; where the range begins then."""
    if len(kept) < _ENOUGH:
        return start
    low, q05, middle, q95, high = np.quantile(kept, (0, 0.05, 0.5, 0.95, 1)).tolist()
    if not (q95 - middle > 4 * (middle - q05) and high > 15 * middle > 0):
        return start
    if not (low > 0 and high / low < 1e12):
        proposal.note(
            "tail", "a few values are many times the others, and not all are above 0, so no "
            "logarithm is proposed. Think of transform: rank, with public quantiles."
        )  # fmt: skip
        return start
    proposal.enter("transform", "log")
    proposal.note(
        "tail", "a few values are many times the others: a logarithm is proposed, because "
                "otherwise they alone would decide distances."
    )  # fmt: skip
    return start if start > 0 else round_below(low)


def round_below(value: float) -> float:
    """Return a round number above 0 and not above a value."""
    power = 10.0 ** math.floor(math.log10(value))
    return neat(next((k * power for k in (5, 2, 1) if k * power <= value), value))


def _typical(proposal: Proposal, kept: _Kept) -> None:
    rounded = [float(f"{value:.2g}") for value in kept.quartiles]
    if len(kept.sample) >= _ENOUGH and rounded[0] < rounded[1] < rounded[2]:
        proposal.enter("typical", [neat(value) for value in rounded])


def weight_limit(profile: ColumnProfile) -> float | None:
    """A round number that no weight is above; ``None`` for a column of no weights."""
    ends = profile.numbers.ends
    wrong = profile.numbers.unread or profile.missing or not ends or min(ends) < 0
    if wrong or max(ends) <= 0 or not math.isfinite(max(ends)):
        return None
    return float(rounded_outwards(0.0, max(ends))[1])
