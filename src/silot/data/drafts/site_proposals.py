"""Proposals for a site file: how a table writes what a schema says otherwise, with the evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ..column_checks import is_missing_code
from ..column_kinds import Date, LeftOut, Number, Weight, YesNo
from ..conversion import MOLAR_MASS, conversion
from ..coordinates import category_places
from ..fields import plain
from ..names import Quartiles, canonical, split_unit, tokens, unit_of
from ..notation import PLAIN, Notation, number_of, read_numbers
from ..schema import Contract
from ..site import GUESS, Site, SiteColumn
from ..units import is_odd, suspect_unit
from .number_proposals import missing_codes, written
from .profile import ColumnProfile, TableProfile
from .proposals import FEW, MOST, Entry, unknown_words

Array = npt.NDArray[np.float64]

# Categories of which shares may suggest which is which.
_MOST_GUESSED = 6
# What words of codes mean, in the languages of some registries: a line for each set of meanings.
_LEXICON = tuple(
    {word: meaning for meaning, words in enumerate(line) for word in words.split()}
    for line in (
        ("m male man mann männlich maennlich masculin homme h masculino hombre maschile uomo",
         "f female w woman frau weiblich féminin feminin femme femenino mujer femminile donna",
         "d x diverse divers other"),
        ("yes y ja j oui o si sí s true t 1", "no n nein non false f 0"),
        ("positive pos positiv positif positivo +", "negative neg negativ négatif negativo -"),
        ("alive living lebend vivant vivo", "dead died deceased tot gestorben verstorben mort"),
        ("left l links gauche", "right r rechts droite", "both b beide"),
    )
)  # fmt: skip


@dataclass
class SiteProposals:
    """What a table writes otherwise than a schema says.

    Attributes
    ----------
    schema
        What all tables are read by.
    names
        Columns of the table.
    site
        What a site file says already: of that nothing is proposed.
    entries
        What is proposed, by column of the schema; ``""`` stands for the whole table.
    needs
        By column, entries that the schema lacks: the unit of a column whose name tells none.
    """

    schema: Contract
    names: Sequence[str]
    site: Site = field(default_factory=Site)
    entries: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])
    needs: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def __post_init__(self) -> None:
        roles = (self.schema.label, self.schema.weight)
        self.parts = dict(self.schema.columns) | {part.column: part for part in roles if part}
        stated = {name: self._stated(name).source for name in self.parts}
        self.sources = {n: s or n for n, s in stated.items() if (s or n) in self.names}
        self._match()

    def _stated(self, name: str) -> SiteColumn:
        return self.site.columns.get(name, SiteColumn())

    def _match(self) -> None:
        """Match columns that are called otherwise, one to one: the nearer way to compare first."""
        ways = (
            (lambda name: canonical(name).casefold(), "but for case and blanks"),
            (lambda name: " ".join(tokens(name)), "by its words"),
            (lambda name: " ".join(sorted(split_unit(name)[0])), "but for its unit"),
        )
        for key, how in ways:
            here = [name for name in self.names if name not in self.sources.values()]
            keys = [key(name) for name in here]
            absent = [name for name in self.parts if name not in self.sources]
            wanted = [key(name) for name in absent]
            for name, text in zip(absent, wanted, strict=True):
                if text and keys.count(text) == wanted.count(text) == 1:
                    self.sources[name] = here[keys.index(text)]
                    self._enter(name, "from", self.sources[name], f"the same name, {how}")

    @property
    def guessed(self) -> set[str]:
        """Return the columns whose codes a person must edit."""
        return {name for name, entries in self.entries.items() if any(map(is_guess, entries))}

    @property
    def usable(self) -> Site:
        """Return the site file without guesses, to try on the table."""
        columns = {name: entry.model_dump(by_alias=True, exclude_defaults=True)
                   for name, entry in self.site.columns.items()}  # fmt: skip
        whole = self.site.model_dump(exclude_defaults=True, include={"decimal", "group"})
        for name, entries in self.entries.items():
            part = columns.setdefault(name, {}) if name else whole
            part.update((entry.key, entry.value) for entry in entries if not is_guess(entry))
        return Site.of({**whole, "columns": columns})

    def _enter(self, name: str, key: str, value: Any, why: str) -> None:
        self.entries.setdefault(name, []).append(Entry(key, value, why))

    def propose(
        self, own: TableProfile, first: TableProfile | None = None, title: str = ""
    ) -> None:
        """Propose entries by what was gathered of the table, and of that of the schema."""
        for name, part in self.parts.items():
            profile = own.columns.get(name)
            if profile is None or isinstance(part, LeftOut) or not profile.value_count:
                continue
            other = first.columns.get(name) if first else None
            if isinstance(part, Number):
                self._number(name, part, profile, other, title)
            elif isinstance(part, Date):
                self._days(name, part, profile)
            elif isinstance(part, Weight):
                self._notation(name, None, profile)
            else:
                self._categories(name, part, profile, other, title)
        self._join_marks(own)

    # Numbers.

    def _number(
        self, name: str, column: Number, own: ColumnProfile, first: ColumnProfile | None, title: str
    ) -> None:
        notation = self._notation(name, column, own)
        codes = missing_codes(name, own)
        public = {number_of(text) for text in column.sentinels}
        codes += [
            value for value in own.numbers.ends
            if value not in codes and is_missing_code(value)
            and value < 0 <= column.range[0]
        ]  # fmt: skip
        if first is not None and (ends := sorted(first.numbers.ends)):
            # What lies among the numbers of the first table is a number here too.
            kept = [value for value in ends if value not in public]
            codes = [v for v in codes if not (kept and kept[0] <= v <= kept[-1])]
        words = [text for text in unknown_words(own.numbers.texts) if text not in column.sentinels]
        new = sorted(value for value in codes if value not in public)
        if new or words:
            counts = [*(own.numbers.ends.get(v, 0) for v in new),
                      *(own.numbers.texts[text] for text in words)]  # fmt: skip
            values = [*map(written, new), *words]
            why = ", ".join(f"{v}: {c:,}" for v, c in zip(values, counts, strict=True))
            self._enter(name, "sentinels", values, f"far from all numbers, or no number ({why})")
        values = own.sample[np.isfinite(own.sample)]
        values = values[~np.isin(values, [*codes, *(code for code in public if code is not None)])]
        if len(values) >= FEW and not self._stated(name).unit:
            self._unit(name, column, values, notation, first, title)

    def _notation(self, name: str, column: Number | None, own: ColumnProfile) -> Notation | None:
        """Propose the notation of the numbers, and return that by which they are read."""
        reading, agreed = own.reading, (column and column.notation) or PLAIN
        if self._stated(name).notation or self.site.notation or reading is None or not own.signs:
            return None
        ways = reading.notations
        texts = [*own.signs.odd, *own.signs.pointed]
        if len(ways) > 1 and column is not None:
            # The public range decides where only one notation leads to numbers within it.
            read = [read_numbers(texts, way).values for way in ways]
            low, high = column.range
            ways = tuple(
                way for way, values in zip(ways, read, strict=True)
                if np.nanmean((values >= low) & (values <= high)) >= MOST
            )  # fmt: skip
        if len(ways) != 1 or not texts:
            return None
        if ways[0] != agreed or len(reading.notations) > 1:
            value = ways[0].model_dump(exclude_defaults=True) or {"decimal": "."}
            self._enter(name, "notation", value, f"of all {own.value_count:,} numbers")
        return ways[0]

    def _join_marks(self, own: TableProfile) -> None:
        """Say marks once that several columns have, and that no other number contradicts."""
        marks = [(name, entry) for name, entries in self.entries.items()
                 for entry in entries if entry.key == "notation"]  # fmt: skip
        first = marks[0][1].value if marks else {}
        weight = self.schema.weight and self.schema.weight.column
        pointed = [
            name for name, part in self.parts.items()
            if isinstance(part, Number) and name not in dict(marks) and name in own.columns
            and (signs := own.columns[name].signs) and (signs.pointed or signs.odd)
        ]  # fmt: skip
        alone = len(marks) < 2 and weight not in dict(marks)
        alike = all(entry.value == first for _, entry in marks)
        if alone or pointed or not alike or not set(first) <= {"decimal", "group"}:
            return
        for name, entry in marks:
            self.entries[name].remove(entry)
        for key, value in first.items():
            self._enter("", key, value, f"in all {len(marks)} columns whose numbers have marks")

    def _unit(
        self, name: str, column: Number, values: Array, notation: Notation | None,
        first: ColumnProfile | None, title: str,
    ) -> None:  # fmt: skip
        expected = self._expected(column, first)
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        outside = _share_outside(column, values)
        affix = notation.affix if notation else ""
        said = unit_of(self.sources.get(name, name)) or unit_of(f"{name} ({affix})")
        suspicion = suspect_unit(name, expected, (low, middle, high), outside)
        source = suspicion.unit if suspicion else ""
        goal = column.unit or (suspicion.target if suspicion else "")
        if said and said != column.unit:
            source = said
            # A name that says a unit where the schema has none: the numbers are as they are.
            goal = column.unit or (goal if suspicion and suspicion.unit == said else said)
        # A name that says the unit of the schema is believed but against clear factors.
        doubted = said == column.unit != "" and not (suspicion and suspicion.strong)
        if not source or source == goal or doubted:
            return
        substance = column.substance or (suspicion.quantity if suspicion else "")
        try:
            factor, offset = conversion(source, goal, substance)
        except InputError:
            return
        if (
            said
            and is_odd(expected, factor * middle + offset, 0.0)
            and not is_odd(expected, middle, outside)
        ):
            # The name says another unit, and the numbers do not.
            return
        if not column.unit:
            self.needs[name] = {"unit": goal}
            if not column.substance and substance in MOLAR_MASS:
                self.needs[name]["substance"] = substance
        there = f", {_two(expected.typical[1])} in {title}" if title and expected.typical else ""
        added = f", and {offset:.4g} added" if offset else ""
        why = (
            f"{len(values):,} numbers looked at; median {_two(middle)} here{there}: factor "
            f"{factor:.4g}{added}"
        )
        self._enter(name, "unit", source, why + ("; its name says so" if source == said else ""))

    def _expected(self, column: Number, first: ColumnProfile | None) -> Number:
        """Expect the quartiles of the first table, which are nearer than rounded ones."""
        if first is None:
            return column
        kept = first.sample[np.isfinite(first.sample)]
        kept = kept[(kept >= column.range[0]) & (kept <= column.range[1])]
        if len(kept) < FEW:
            return column
        low, middle, high = np.quantile(kept, (0.25, 0.5, 0.75)).tolist()
        quartiles: Quartiles = (low, middle, high)
        return column.model_copy(update={"typical": quartiles})

    # Days.

    def _days(self, name: str, column: Date, own: ColumnProfile) -> None:
        self._sentinel_words(name, column, own.names | own.numbers.texts)
        entry = self._stated(name)
        counts = {form: days.read for form, days in own.days.items()}
        most = max(counts.values(), default=0)
        agreed = entry.format or column.format
        words = sum(own.numbers.texts[text] for text in unknown_words(own.numbers.texts))
        enough = most >= MOST * (own.value_count - words)
        if entry.format or own.typed or not enough or counts.get(agreed, 0) == most:
            return
        best = [form for form, count in counts.items() if count == most]
        first, last = (np.datetime64(day).astype(int) for day in column.range)
        inside = [f for f in best if first <= own.days[f].first and own.days[f].last <= last + 1]
        best = inside or best
        doubt = "" if len(best) == 1 else f"; {len(best) - 1} other ways fit as well, look at it"
        self._enter(name, "format", best[0], f"{most:,} of {own.value_count:,} fields{doubt}")

    def _sentinel_words(self, name: str, part: Any, texts: Mapping[str, int]) -> list[str]:
        agreed = {*getattr(part, "sentinels", ()), *getattr(part, "categories", ())}
        agreed |= {*getattr(part, "classes", ())}
        words = [text for text in unknown_words(texts) if text not in agreed]
        if words:
            why = ", ".join(f"{text}: {texts[text]:,}" for text in words)
            self._enter(name, "sentinels", words, f"words for not known ({why})")
        return words

    # Categories.

    def _categories(
        self, name: str, part: Any, own: ColumnProfile, first: ColumnProfile | None, title: str
    ) -> None:
        if own.many:
            return
        accepted = _accepted(part)
        names = {canonical(text): count for text, count in own.names.items()}
        words = self._sentinel_words(name, part, names)
        agreed = {*accepted, *getattr(part, "sentinels", ()), *words, "\0"}
        odd = {text: count for text, count in names.items() if text not in agreed}
        categories = list(dict.fromkeys(accepted.values()))
        codes = _by_prefix(odd, categories, names)
        codes |= _by_lexicon(odd, categories) | _alike(odd, accepted)
        if codes:
            why = ", ".join(f"{text}: {odd[text]:,}" for text in codes)
            count = sum(odd[text] for text in codes)
            self._enter(name, "codes", codes, f"{count:,} of {own.value_count:,} fields ({why})")
        # One of two codes may be a word for yes or no by accident: 1 and 2.
        pool = names if isinstance(part, YesNo) else odd
        pool = {text: count for text, count in pool.items() if text not in words}
        is_recoded = odd and pool.keys() == names.keys() - {*words}
        is_short = 1 < len(pool) <= min(len(categories), _MOST_GUESSED)
        if not codes and is_recoded and is_short and min(pool.values()) >= FEW:
            self._guess(name, pool, accepted, first, title)

    def _guess(
        self, name: str, pool: Mapping[str, int], accepted: Mapping[str, str],
        first: ColumnProfile | None, title: str,
    ) -> None:  # fmt: skip
        shares = dict.fromkeys(accepted.values(), 0)
        for text, count in (first.names if first else {}).items():
            if text in accepted:
                shares[accepted[text]] += count
        both = (sorted(counts, key=lambda text: -counts[text]) for counts in (pool, shares))
        pairs = list(zip(*both, strict=False))
        here, there = sum(pool.values()), max(sum(shares.values()), 1)
        why = ", ".join(
            f"{code}: {100 * pool[code] / here:.0f} % here"
            + (f" and {text} {100 * shares[text] / there:.0f} % in {title}" if first else "")
            for code, text in pairs
        )
        # Without another table there are no shares to go by.
        any_of = " or ".join(shares)
        codes = {code: f"{GUESS}{text if first else any_of}" for code, text in sorted(pairs)}
        what = f"write what each code means by your code book, without {GUESS.strip()}"
        self._enter(name, "codes", codes, f"a guess by shares alone ({why}): {what}")


def is_guess(entry: Entry) -> bool:
    """Return whether a person must edit an entry."""
    return entry.key == "codes" and any(v.startswith(GUESS) for v in entry.value.values())


def _two(value: float) -> str:
    """Write the first two digits of a number, as schemas have of quartiles."""
    return f"{float(f'{value:.2g}'):g}"


def _share_outside(column: Number, values: Array) -> float:
    low, high = column.range
    return float(((values < low) | (values > high)).mean())


def _accepted(part: Any) -> dict[str, str]:
    """Return the category of each word that a schema reads, by the name that codes give it."""
    if not isinstance(part, YesNo):
        return {text: text for text in getattr(part, "categories", None) or part.classes}
    words = ((part.no or ("no",))[0], (part.yes or ("yes",))[0])
    return {text: words[place] for text, place in category_places(part).items()}


def _alike(odd: Iterable[str], accepted: Mapping[str, str]) -> dict[str, str]:
    """Map names that differ from one category in case, blanks or signs alone."""
    meant: dict[str | float, set[str]] = {}
    for text, category in accepted.items():
        meant.setdefault(plain(text), set()).add(category)
    return {text: next(iter(to)) for text in odd if len(to := meant.get(plain(text), set())) == 1}


def _by_lexicon(odd: Iterable[str], categories: Sequence[str]) -> dict[str, str]:
    """Map names by public words, where two categories are such words of one kind."""
    for lexicon in _LEXICON:
        meant = {lexicon[c.casefold()]: c for c in categories if c.casefold() in lexicon}
        codes = {text: lexicon.get(text.casefold()) for text in odd}
        mapped = {text: meant[code] for text, code in codes.items() if code in meant}
        if len(meant) > 1 and mapped:
            return mapped
    return {}


def _by_prefix(
    odd: Mapping[str, int], categories: Sequence[str], names: Collection[str]
) -> dict[str, str]:
    """Map names that begin as one category alone does, which is not there under its own name."""

    def begins(one: str, other: str) -> bool:
        a, b = one.casefold(), other.casefold()
        return one.isalpha() and other[:1].isalpha() and (a.startswith(b) or b.startswith(a))

    pairs = [(text, c) for text in odd for c in categories if begins(text, c) or begins(c, text)]
    texts, targets = [text for text, _ in pairs], [category for _, category in pairs]
    return {
        text: category for text, category in pairs
        if texts.count(text) == targets.count(category) == 1
        and category not in names and odd[text] >= FEW
    }  # fmt: skip
