"""Proposals for one column: a description, which of its entries tell about records, and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..fields import Alike, plain
from ..fit import Note
from ..names import tokens
from .profile import UNKNOWN, ColumnProfile

Array = npt.NDArray[np.float64]

# A category or a word of fewer records is not written down: it tells of single records.
FEW = 10
# Categories that are listed.
MOST_CATEGORIES = 50
# Part of the values that must be of a kind for the column to be of it.
MOST = 0.95
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
_SCALES = (
    ("very low", "low", "medium", "high", "very high"),
    ("low", "medium", "high"),
    ("low", "moderate", "high"),
    ("low", "middle", "high"),
    ("low", "intermediate", "high"),
    ("none", "mild", "moderate", "severe"),
    ("mild", "moderate", "severe"),
    ("none", "low", "medium", "high"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("fair", "good", "very good", "premium", "ideal"),
    ("small", "medium", "large"),
)
_STEPPED = {"stage", "grade", "nyha", "asa", "level", "cci"}


@dataclass(frozen=True)
class Entry:
    """One entry of a site file, and ``why`` it is proposed, in counts and in public words."""

    key: str
    value: Any
    why: str


@dataclass
class Proposal:
    """What is proposed for one column: entries, those that were read off records, and notes."""

    name: str
    entries: dict[str, Any] = field(default_factory=dict[str, Any])
    read_off: list[str] = field(default_factory=list[str])
    notes: list[Note] = field(default_factory=list[Note])

    def enter(self, entry: str, value: Any, *, public: bool = False) -> None:
        """Propose an entry; one that is not ``public`` depended on records."""
        self.entries[entry] = value
        if not public:
            self.read_off.append(f"{self.name}.{entry}")

    def note(self, kind: str, sentence: str, *, refused: bool = False) -> None:
        """Say something about the column."""
        self.notes.append(Note(self.name, kind, f"Column {self.name!r}: {sentence}", refused))

    def leave_out(self, kind: str, about: str, note: str = "", why: str = "") -> Proposal:
        """The column is not a feature; a note says why."""
        if note:
            self.note(note, f"{why} It is left out.")
        self.entries = {"kind": kind, "about": about}
        self.read_off = []
        return self


def unknown_words(counts: Mapping[str, int]) -> list[str]:
    """Which of some texts say that nothing is known."""
    # Beside +, a line is a result.
    signs = {"-"} if "+" in counts else set[str]()
    return sorted(text for text in counts if text.casefold() in UNKNOWN - signs)


def propose_missing(proposal: Proposal, profile: ColumnProfile, words: Sequence[Any]) -> None:
    """Return how records without a value are treated."""
    if words:
        proposal.enter("sentinels", list(words))
        proposal.note(
            "sentinel",
            "some of its values mark missing values: check its sentinels.",
        )
    if (words or profile.missing) and "missing" not in proposal.entries:
        proposal.enter("missing", "indicator")


def propose_words(name: str, profile: ColumnProfile) -> Proposal:
    """Yes or no, an order, categories, or a text that is left out."""
    proposal = Proposal(name)
    words = unknown_words(profile.names)
    if len(words) == len(profile.names):
        words = []
    names = {text: count for text, count in profile.names.items() if text not in words}
    if profile.many or "\0" in names:
        return _text(proposal, profile, names)
    kinds = {text.casefold() for text in names}
    if _yes_no(kinds):
        proposal.enter("kind", "yes/no", public=True)
    elif scale := _scale(name, names):
        proposal.enter("kind", "ordered", public=True)
        proposal.enter("categories", scale)
        proposal.note("order", "its categories are assumed to be ordered: check the order.")
    elif not _categories(proposal, names):
        return _text(proposal, profile, names)
    propose_missing(proposal, profile, words)
    return proposal


def _yes_no(kinds: set[str]) -> bool:
    """Return whether both are there, as the schema reads them."""
    return len(kinds) == 2 and any(
        kinds == {yes, no} for yes, no in (("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"))
    )


def _text(proposal: Proposal, profile: ColumnProfile, names: Mapping[str, int]) -> Proposal:
    distinct = len(set(profile.codes.tolist())) if profile.many else len(names)
    of = len(profile.codes) if profile.many else sum(names.values())
    if of >= FEW and distinct >= MOST * of and not any(" " in text.strip() for text in names):
        words = "almost every record has a different text."
        return proposal.leave_out("identifier", "a text for each record", "identifier", words)
    if profile.shaped >= 0.9 * profile.value_count > 0:
        proposal.note(
            "date", "its fields look like dates that are written in different ways. It is left "
                    "out: write them in one way."
        )  # fmt: skip
        return proposal.leave_out("text", "dates written in several ways")
    many = "many" if profile.many else f"{distinct:,}"
    proposal.note(
        "text", f"{many} different texts, and few of them in {FEW} records or more. It is "
        "left out. If some matter, list them as categories, with other: true."
    )  # fmt: skip
    return proposal.leave_out("text", "text of many kinds")


def listed_names(names: Mapping[str, int]) -> tuple[list[str], bool]:
    """Names of enough records in an order that tells nothing, and whether there are others."""
    often = sorted(names, key=lambda text: -names[text])
    listed = [text for text in often if names[text] >= FEW and text != "other"]
    listed = listed[:MOST_CATEGORIES]
    return sorted(listed, key=_by_number), len(listed) < len(names)


def _by_number(text: str) -> tuple[float, str]:
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    return (value if value == value else math.inf, text)


def _categories(proposal: Proposal, names: Mapping[str, int]) -> bool:
    """Propose categories; whether they are those of most records."""
    listed, other = listed_names(names)
    if not listed or sum(names[text] for text in listed) < 0.5 * sum(names.values()):
        return False
    proposal.enter("kind", "category", public=True)
    proposal.enter("categories", listed)
    if other:
        proposal.enter("other", True)
        proposal.note(
            "rare", f"of its {len(names):,} categories {len(names) - len(listed):,} are not "
            f"listed (of fewer than {FEW} records, or beyond the first {MOST_CATEGORIES}): they "
            "are other."
        )  # fmt: skip
    note_alike(proposal, names, listed)
    if len(names) == 1:
        proposal.note("constant", "all records are of one category.")
    return True


def note_alike(proposal: Proposal, names: Mapping[str, int], listed: Sequence[str]) -> None:
    """Say where categories differ in how they are written alone."""
    double = len(listed) - len({plain(text) for text in listed})
    alike = Alike(listed)
    rare = [text for text in names if text not in listed and text != "other" and alike(text)]
    if rare:
        proposal.note(
            "alike", f"{len(rare)} of its rare names differ from a category in case, blanks or "
            "signs alone: correct them, or name them in the codes of a site file.", refused=True,
        )  # fmt: skip
    if double:
        proposal.note(
            "alike", f"{double} of its categories differ from another in case, blanks or signs "
            "alone: write them alike."
        )  # fmt: skip


def _scale(name: str, names: Mapping[str, int]) -> list[str]:
    """Categories in order, where it is clear: public words, of which the records have some."""
    if len(names) < 2:
        return []
    for steps in (_of_scales, _roman, _stepped, _bands):
        if steps_in_order := steps(name, names):
            return steps_in_order
    return []


def _of_scales(_: str, names: Mapping[str, int]) -> list[str]:
    kinds = {text.casefold(): text for text in names}
    fits = [scale for scale in _SCALES if set(kinds) <= set(scale)]
    if not fits or len(kinds) < len(names):
        return []
    sample = next(iter(names))
    style = str.upper if sample.isupper() else str.capitalize if sample[0].isupper() else str.lower
    return [kinds.get(word, style(word)) for word in min(fits, key=len)]


def _roman(_: str, names: Mapping[str, int]) -> list[str]:
    if not set(names) <= set(_ROMAN) or "II" not in names:
        return []
    return list(_ROMAN[: max(map(_ROMAN.index, names)) + 1])


def _stepped(name: str, names: Mapping[str, int]) -> list[str]:
    """``stage 1`` to ``stage 4``, or ``Stage I`` and on: a word for steps, and a number."""
    parted = {re.fullmatch(r"(.*?[ _-]?)(\d|[IVX]+)", text) for text in names}
    if None in parted:
        return []
    stems = {match[1] for match in parted if match}
    stem = next(iter(stems))
    if len(stems) > 1 or not (_STEPPED & {*tokens(stem), *tokens(name)} or stem == "T"):
        return []
    steps = {match[2] for match in parted if match}
    if all(step.isdigit() for step in steps):
        numbers = sorted(map(int, steps))
        return [f"{stem}{k}" for k in range(numbers[0], numbers[-1] + 1)] if stem else []
    numerals = _roman("", dict.fromkeys(steps, 1))
    return [f"{stem}{step}" for step in numerals]


def _bands(_: str, names: Mapping[str, int]) -> list[str]:
    """``20-29``, ``[20-30)``: bands of one width, all between the first and the last."""
    parted = [re.fullmatch(r"([\[(]?)(\d+)(-)(\d+)([\])]?)", text) for text in names]
    if None in parted or len(names) < 3:
        return []
    bands = [match.groups() for match in parted if match]
    pairs = sorted((int(low), int(high)) for _, low, _, high, _ in bands)
    first, last, wide = pairs[0], pairs[-1], pairs[0][1] - pairs[0][0]
    steps = {b[0] - a[0] for a, b in pairwise(pairs)}
    step = min(steps)
    if step < max(wide, 1) or any(high - low != wide for low, high in pairs):
        return []
    if any(other % step for other in steps):
        return []
    opened, _, _, _, closed = bands[0]
    every = [f"{opened}{low}-{low + wide}{closed}" for low in range(first[0], last[0] + 1, step)]
    return every if set(names) <= set(every) and len(every) <= MOST_CATEGORIES else []
