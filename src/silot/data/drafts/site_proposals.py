"""Proposals for a site file: how a table writes what a schema says otherwise, with the evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InputError
from ..column_checks import is_missing_code
from ..column_kinds import Date, LeftOut, Number, Weight, YesNo
from ..conversion import MOLAR_MASS, conversion
from ..coordinates import category_places
from ..fields import plain
from ..names import canonical, split_unit, tokens, unit_of
from ..notation import PLAIN, Notation, number_of, read_numbers
from ..schema import Contract
from ..site import GUESS, Site
from ..units import is_odd, suspect_unit
from .number_proposals import missing_codes, written
from .profile import ColumnProfile, TableProfile
from .proposals import FEW, MOST, Entry, unknown_words
from .result import with_entries

# Categories of which shares may suggest which is which.
_MOST_GUESSED = 20
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
_WAYS = (
    (lambda name: canonical(name).casefold(), "apart from case and blanks"),
    (lambda name: " ".join(tokens(name)), "by its words"),
    (lambda name: " ".join(sorted(split_unit(name)[0])), "apart from its unit"),
)


@dataclass
class SiteProposals:
    """What a table, of these columns, writes otherwise than a schema and a site file say.

    ``entries`` are proposed, by column of the schema (``""`` for the whole table), and ``needs``
    are what the schema lacks for them: the unit of a column whose name tells none. A schema that
    ``is_fixed`` cannot be given one.
    """

    schema: Contract
    names: Sequence[str]
    site: Site = field(default_factory=Site)
    entries: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])
    needs: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    is_fixed: bool = False

    def __post_init__(self) -> None:
        roles = self.schema.roles.values()
        self.parts = dict(self.schema.columns) | {part.column: part for part in roles}
        stated = {name: self.site.entry(name).source or name for name in self.parts}
        self.sources = {name: source for name, source in stated.items() if source in self.names}
        # Columns that are called otherwise are matched one to one, the nearest names first.
        for key, how in _WAYS:
            here = [name for name in self.names if name not in self.sources.values()]
            absent = [name for name in self.parts if name not in self.sources]
            keys, wanted = [key(name) for name in here], [key(name) for name in absent]
            for name, text in zip(absent, wanted, strict=True):
                if text and keys.count(text) == wanted.count(text) == 1:
                    self.sources[name] = here[keys.index(text)]
                    self._enter(name, "from", self.sources[name], f"the same name, {how}")

    def _enter(self, name: str, key: str, value: Any, why: str) -> None:
        # What is stated already stays beside what is new.
        before = self.site.entry(name)
        if key == "sentinels":
            value = [*before.sentinels, *value]
        elif key == "codes":
            value = {**before.codes, **value}
        self.entries.setdefault(name, []).append(Entry(key, value, why))

    @property
    def guessed(self) -> set[str]:
        """Return the columns whose codes a person must edit."""
        return {name for name, entries in self.entries.items() if any(map(is_guess, entries))}

    @property
    def usable(self) -> Site:
        """Return the site file without guesses, to try on the table."""
        body = self.site.model_dump(by_alias=True, exclude_defaults=True)
        sure = {n: [e for e in entries if not is_guess(e)] for n, entries in self.entries.items()}
        return Site.of(with_entries(body, sure))

    def propose(self, own: TableProfile, first: TableProfile | None = None, of: str = "") -> None:
        """Propose entries by what was gathered of the table, and of the ``first`` one, ``of``."""
        for name, part in self.parts.items():
            column, other = own.columns.get(name), first.columns.get(name) if first else None
            if column is None or isinstance(part, LeftOut) or not column.value_count:
                continue
            if isinstance(part, Number):
                self._number(name, part, column, other, of)
            elif isinstance(part, Date):
                self._days(name, part, column)
            elif isinstance(part, Weight):
                self._notation(name, None, column)
            else:
                self._categories(name, part, column, other, of)

    def _number(
        self, name: str, part: Number, own: ColumnProfile, first: ColumnProfile | None, of: str
    ) -> None:
        notation = self._notation(name, part, own)
        public, ends = {number_of(text) for text in part.sentinels}, own.numbers.ends
        codes = missing_codes(name, own)
        # No number is below zero where the public range is not.
        codes += [v for v in ends if v < 0 <= part.range[0] and is_missing_code(v)]
        if first is not None:
            # What lies among the numbers of the first table is a number here too.
            kept = sorted(value for value in first.numbers.ends if value not in public)
            codes = [value for value in codes if not (kept and kept[0] <= value <= kept[-1])]
        texts = own.numbers.texts
        words = [text for text in unknown_words(texts) if text not in part.sentinels]
        new = sorted({value for value in codes if value not in public})
        if new or words:
            counts = {written(value): ends.get(value, 0) for value in new}
            counts |= {text: texts[text] for text in words}
            why = f"far from all numbers, or not a number ({_list(counts)})"
            self._enter(name, "sentinels", [*counts], why)
        values = own.sample[np.isfinite(own.sample)]
        values = values[~np.isin(values, [*codes, *(code for code in public if code is not None)])]
        entry = self.site.entry(name)
        if len(values) >= FEW and not entry.unit and entry.factor is None:
            self._unit(name, part, values, notation, first, of)

    def _notation(self, name: str, part: Number | None, own: ColumnProfile) -> Notation | None:
        """Propose the notation of the numbers, and return it."""
        if self.site.entry(name).notation or self.site.notation or not own.reading or not own.signs:
            return None
        ways, texts = own.reading.notations, [*own.signs.odd, *own.signs.pointed]
        if len(ways) > 1 and part is not None:
            # The public range decides where only one notation leads to numbers within it.
            read = {way: read_numbers(texts, way).values for way in ways}
            inside = {way: (v >= part.range[0]) & (v <= part.range[1]) for way, v in read.items()}
            ways = tuple(way for way in ways if inside[way].mean() >= MOST)
        if len(ways) != 1 or not texts:
            return None
        said = ways[0].model_dump(exclude_defaults=True) or {"decimal": "."}
        why = f"of all {own.value_count:,} numbers"
        if part is None and said.keys() <= {"decimal", "group"} and not ways[0].is_plain:
            # Weights have no notation of their own.
            for key, value in said.items():
                self._enter("", key, value, f"{why} in {name}")
        elif part and (ways[0] != (part.notation or PLAIN) or len(own.reading.notations) > 1):
            self._enter(name, "notation", said, why)
        return ways[0]

    def _unit(
        self, name: str, part: Number, values: Any, notation: Notation | None,
        first: ColumnProfile | None, of: str,
    ) -> None:  # fmt: skip
        """Propose a unit that brings the numbers where they are expected, or that a name says."""
        low, high = part.range
        outside = float(((values < low) | (values > high)).mean())
        kept = first.sample[(first.sample >= low) & (first.sample <= high)] if first else values[:0]
        if len(kept) >= FEW:
            # The quartiles of the first table are nearer than rounded ones.
            part = part.model_copy(update={"typical": _quartiles(kept)})
        middle = _quartiles(values)[1]
        said = unit_of(self.sources.get(name, name))
        said = said or unit_of(f"x ({notation.affix if notation else ''})")
        odd = suspect_unit(name, part, _quartiles(values), outside)
        source, goal = (odd.unit, part.unit or odd.target) if odd else ("", part.unit)
        beside = f", {_two(part.typical[1])} in {of}" if of and part.typical else ""
        why = f"{len(values):,} numbers looked at; median {_two(middle)} here{beside}"
        if odd and odd.factor and not said:
            self._enter(name, "factor", float(f"{odd.factor:.6g}"), why)
            return
        if said and said != part.unit:
            source, goal = said, part.unit or (goal if said == source else said)
        if not source or source == goal:
            return
        substance = part.substance or (odd.quantity if odd else "")
        try:
            factor, offset = conversion(source, goal, substance)
        except InputError:
            return
        # A name that says the unit of the schema is believed but against clear factors.
        if said and said == part.unit and not offset and 0.2 < factor < 5:
            return
        # The name may say another unit, and the numbers not.
        if source == said and not odd and is_odd(part, factor * middle + offset, 0.0):
            return
        why += f": factor {factor:.4g}{f', and {offset:.4g} added' if offset else ''}"
        if part.unit or self._gets_unit(name, goal, "" if part.substance else substance):
            why += "; its name says so" if source == said else ""
            self._enter(name, "unit", source, why)
        elif not offset:
            self._enter(name, "factor", float(f"{factor:.6g}"), why)

    def _gets_unit(self, name: str, unit: str, substance: str) -> bool:
        """Note the unit that the schema lacks, and return whether it can be given one."""
        if self.is_fixed:
            return False
        self.needs[name] = {"unit": unit}
        if substance in MOLAR_MASS:
            self.needs[name]["substance"] = substance
        return True

    def _days(self, name: str, part: Date, own: ColumnProfile) -> None:
        words = self._words(name, part, own.names | own.numbers.texts)
        counts = {form: days.read for form, days in own.days.items()}
        most = max(counts.values(), default=0)
        enough = most >= MOST * (own.value_count - sum(own.numbers.texts[text] for text in words))
        is_stated = self.site.entry(name).format or own.typed
        if is_stated or not enough or counts.get(part.format, 0) == most:
            return
        first, last = (float(np.datetime64(day).astype(int)) for day in part.range)
        best = [form for form in counts if counts[form] == most]
        ends = {form: own.days[form].ends for form in best}
        inside = [f for f in best if first <= min(ends[f]) and max(ends[f]) < last + 1]
        best = inside or best
        doubt = "" if len(best) == 1 else f"; {len(best) - 1} other ways fit as well: check it"
        self._enter(name, "format", best[0], f"{most:,} of {own.value_count:,} fields{doubt}")

    def _words(self, name: str, part: Any, texts: Mapping[str, int]) -> list[str]:
        """Propose words for not known."""
        keys = ("sentinels", "categories", "classes")
        agreed = {text for key in keys for text in getattr(part, key, ())}
        words = [text for text in unknown_words(texts) if text not in agreed]
        if words:
            counts = {text: texts[text] for text in words}
            self._enter(name, "sentinels", words, f"words for missing values ({_list(counts)})")
        return words

    def _categories(
        self, name: str, part: Any, own: ColumnProfile, first: ColumnProfile | None, of: str
    ) -> None:
        if own.many:
            return
        accepted = _accepted(part)
        names = {canonical(text): count for text, count in own.names.items()}
        words = self._words(name, part, names)
        names = {text: count for text, count in names.items() if text not in words}
        agreed = {*accepted, *getattr(part, "sentinels", ()), "\0"}
        odd = {text: count for text, count in names.items() if text not in agreed}
        categories = list(dict.fromkeys(accepted.values()))
        codes = _by_prefix(odd, categories, names)
        codes |= _by_lexicon(odd, categories) | _alike(odd, accepted)
        # One of two codes may be a word for yes or no by accident: 1 and 2.
        pool = names if isinstance(part, YesNo) else odd
        is_recoded = odd and pool.keys() == names.keys()
        pool = {text: count for text, count in pool.items() if count >= FEW}
        if codes:
            counts, count = {text: odd[text] for text in codes}, sum(odd[text] for text in codes)
            why = f"{count:,} of {own.value_count:,} fields ({_list(counts)})"
            self._enter(name, "codes", codes, why)
        elif is_recoded and 1 < len(pool) <= _MOST_GUESSED:
            self._guess(name, pool, accepted, first, of)

    def _guess(
        self, name: str, pool: Mapping[str, int], accepted: Mapping[str, str],
        first: ColumnProfile | None, of: str,
    ) -> None:  # fmt: skip
        shares = dict.fromkeys(accepted.values(), 0)
        for text in first.names if first else ():
            if text in accepted and first:
                shares[accepted[text]] += first.names[text]
        size, other = sum(pool.values()), max(sum(shares.values()), 1)
        pairs = zip(*(sorted(c, key=lambda t: -c[t]) for c in (pool, shares)), strict=False)
        codes, words = dict[str, str](), list[str]()
        for code, text in pairs:
            # Without another table there are no shares to go by.
            codes[code] = GUESS + (text if first else " or ".join(shares))
            beside = f" and {text} {100 * shares[text] / other:.0f} % in {of}" if first else ""
            words.append(f"{code}: {100 * pool[code] / size:.0f} % here{beside}")
        what = f"write what each code means by your code book, without {GUESS.strip()}"
        why = f"a guess by shares alone ({', '.join(words)}): {what}"
        self._enter(name, "codes", dict(sorted(codes.items())), why)


def is_guess(entry: Entry) -> bool:
    """Return whether an entry is a guess that a person must replace."""
    return entry.key == "codes" and any(str(v).startswith(GUESS) for v in entry.value.values())


def _list(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{text}: {count:,}" for text, count in counts.items())


def _quartiles(values: Any) -> Any:
    return tuple(np.quantile(values, (0.25, 0.5, 0.75)).tolist())


def _two(value: float) -> str:
    """Write the first two digits of a number, as schemas have of quartiles."""
    return f"{float(f'{value:.2g}'):g}"


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
        codes = {text: lexicon.get(text.casefold(), -1) for text in odd}
        mapped = {text: meant[code] for text, code in codes.items() if code in meant}
        if len(meant) > 1 and mapped:
            return mapped
    return {}


def _by_prefix(
    odd: Mapping[str, int], categories: Sequence[str], names: Collection[str]
) -> dict[str, str]:
    """Map names that begin as one category alone does, which is not there under its own name."""

    def begins(one: str, other: str) -> bool:
        return one.isalpha() and other.casefold().startswith(one.casefold())

    pairs = [(text, c) for text in odd for c in categories if begins(text, c) or begins(c, text)]
    texts, targets = [text for text, _ in pairs], [category for _, category in pairs]
    return {
        text: category for text, category in pairs if category not in names and odd[text] >= FEW
        and texts.count(text) == targets.count(category) == 1
    }  # fmt: skip
