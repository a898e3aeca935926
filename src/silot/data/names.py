"""Compare names as people see them, and read units and public limits from those of columns."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..errors import FileError

Quartiles = tuple[float, float, float]

_UNITS = {
    "years": "a", "yrs": "a", "yr": "a", "months": "mo", "weeks": "wk", "days": "d", "hours": "h",
    "hrs": "h", "minutes": "min", "mins": "min", "seconds": "s", "sec": "s",
    "kg": "kg", "lb": "[lb_av]", "lbs": "[lb_av]", "cm": "cm", "mm": "mm", "inches": "[in_i]",
    "mmhg": "mm[Hg]", "kpa": "kPa", "celsius": "Cel", "degc": "Cel", "fahrenheit": "[degF]",
    "degf": "[degF]", "percent": "%", "pct": "%", "bpm": "/min", "ml": "mL", "kcal": "kcal",
    "mmol": "mmol/L", "umol": "umol/L", "mgdl": "mg/dL", "gdl": "g/dL",
}  # fmt: skip
"""Units (UCUM) by the last word of a name."""
_RATIOS = (
    "mg/dL", "g/dL", "g/L", "mg/L", "ug/L", "ng/mL", "pg/mL", "mmol/L", "umol/L", "nmol/L",
    "pmol/L", "meq/L", "kg/m2", "mmol/mol",
)  # fmt: skip
"""Units that a name may write as two words."""


@dataclass(frozen=True)
class Limits:
    """What is measured, and in a unit the widest values that are taken for possible.

    The numbers are public: wider than what laboratories and monitors report of living people.
    """

    words: tuple[frozenset[str], ...]
    unit: str
    low: float
    high: float
    substance: str = ""


def _of(*texts: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(text.split()) for text in texts)


_GLUCOSE, _CREATININE = _of("glucose", "glu"), _of("creatinine", "crea", "creat", "scr")
_CHOLESTEROL, _HAEMOGLOBIN = _of("cholesterol", "chol"), _of("haemoglobin", "hemoglobin", "hgb")

LIMITS = (
    Limits(_of("age"), "a", 0, 120),
    Limits(_of("sbp", "systolic", "sysbp"), "mm[Hg]", 40, 320),
    Limits(_of("dbp", "diastolic", "diabp"), "mm[Hg]", 10, 220),
    Limits(_of("heart rate", "heartrate", "pulse"), "/min", 10, 320),
    Limits(_of("respiratory rate", "resp rate"), "/min", 0, 100),
    Limits(_of("body temperature", "temp", "temperature"), "Cel", 20, 46),
    Limits(_of("body temperature", "temp", "temperature"), "[degF]", 68, 115),
    Limits(_of("spo2", "oxygen saturation"), "%", 0, 100),
    Limits(_of("bmi", "body mass index"), "kg/m2", 5, 120),
    Limits(_of("height"), "cm", 20, 280),
    Limits(_of("weight"), "kg", 0.2, 700),
    Limits(_GLUCOSE, "mmol/L", 0.5, 60, "glucose"),
    Limits(_GLUCOSE, "mg/dL", 10, 1100, "glucose"),
    Limits(_CREATININE, "umol/L", 5, 3500, "creatinine"),
    Limits(_CREATININE, "mg/dL", 0.05, 40, "creatinine"),
    Limits(_CHOLESTEROL, "mmol/L", 0.5, 40, "cholesterol"),
    Limits(_CHOLESTEROL, "mg/dL", 20, 1600, "cholesterol"),
    Limits(_HAEMOGLOBIN, "g/dL", 1, 28, "haemoglobin"),
    Limits(_HAEMOGLOBIN, "g/L", 10, 280, "haemoglobin"),
    Limits(_of("hba1c"), "%", 2, 25),
    Limits(_of("sodium"), "mmol/L", 80, 220),
    Limits(_of("potassium"), "mmol/L", 0.5, 15),
    Limits(_of("lactate"), "mmol/L", 0, 50, "lactate"),
    Limits(_of("urea"), "mmol/L", 0.1, 120, "urea"),
)
"""Limits by what is measured: what name and unit say goes together, or none."""
# Of these a unit that no name says may be told by the numbers: all others have too few.
_BY_NUMBERS = {"glucose", "creatinine", "cholesterol", "haemoglobin"}
_ALWAYS = {"a", "mm[Hg]", "/min", "kg/m2"}

# Words of names: of codes of categories, of places, of days, and of whose record it is.
CODED = {
    "sex", "gender", "race", "ethnicity", "ethnic", "marital", "marriage", "religion", "country",
    "region", "state", "department", "ward", "site", "hospital", "clinic", "occupation", "type",
    "category", "class", "code", "group", "kind", "unit", "icd", "diagnosis", "outcome", "target",
}  # fmt: skip
ADDRESS = {"zip", "zipcode", "postcode", "postal", "plz"}
DATED = {"date", "day", "dob", "birthdate", "datum", "admission", "discharge", "time", "dat"}
_NUMBERED = {
    "id", "ids", "uid", "uuid", "guid", "pid", "mrn", "ssn", "identifier", "pseudonym", "email",
    "phone", "fullname", "surname", "firstname", "lastname", "iban",
}  # fmt: skip


# Signs that look the same, which no form of Unicode makes one: quotes, a minus, the wave of
# Japanese encodings. Fillers and selectors of variants are not seen at all.
_ALIKE: dict[int, str] = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u00b4`\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033"), '"'),
    **dict.fromkeys((0x34F, 0x115F, 0x1160, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10)), ""),
    ord("\u2212"): "-", ord("\u301c"): "~", ord("\u2016"): "\u2225",
}  # fmt: skip
_KINDS = {"Pd": "-", "Zs": " ", "Cc": " ", "Cf": ""}
# Their compatible forms look different: 10 to the power of 3 is not 103.
_APART = ("<super>", "<sub>", "<circle>")
# Letters of Cyrillic and Greek, and the Latin ones that they look like.
_LATIN = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0430\u0435\u043e\u0440"
    "\u0441\u0443\u0445\u0456\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
    "\u03a4\u03a5\u03a7\u03bf\u043a\u0455\u0458", "ABEKMHOPCTXaeopcyxiABEZHIKMNOPTYXoksj",
)  # fmt: skip


def canonical(name: str) -> str:
    r"""Write a name so that two are equal which look alike: composition, width, dashes, blanks.

    Case and letters that only look alike stay as they are.

    Examples
    --------
    >>> canonical("covid\u201319\u200b ") == "covid-19", canonical("Mu\u0308ller") == "Müller"
    (True, True)
    """
    if name.isascii() and name.isprintable():
        return " ".join(name.replace("`", "'").split())
    text = "".join(map(_compatible, name.translate(_ALIKE)))
    signs = "".join(_KINDS.get(unicodedata.category(sign), sign) for sign in text)
    # Marks may stand next to their letters only now.
    return " ".join(unicodedata.normalize("NFC", signs.translate(_ALIKE)).split())


def _compatible(sign: str) -> str:
    is_apart = unicodedata.decomposition(sign).startswith(_APART)
    return sign if is_apart else unicodedata.normalize("NFKC", sign)


def look_of(name: str) -> str:
    """Return what a reader may take a name for: without case, in letters of one alphabet."""
    return unicodedata.normalize("NFKD", name.translate(_LATIN)).casefold()


def header_names(names: Iterable[object]) -> list[str]:
    """Return names of columns as they are compared; refuse two that look the same."""
    places: dict[str, tuple[int, str]] = {}
    for place, raw in enumerate(map(str, names), start=1):
        first, other = places.setdefault(canonical(raw), (place, raw))
        if first != place:
            why = "have one name" if raw == other else "have names that look the same"
            why = why if canonical(raw) else "have no name"
            raise FileError(
                f"columns no. {first} and {place} {why}{_differing(other, raw)}. Rename one.",
                code="file-columns",
            )
    return list(places)


def similar(name: str, names: Iterable[str]) -> str:
    """Return in quotes the one of other names that looks like a name, or nothing."""

    def key(text: str) -> str:
        return re.sub(r"[\W_]+", "", look_of(text)) or text

    other = next((text for text in names if text != name and key(text) == key(name)), "")
    is_one = other.translate(_LATIN) == name.translate(_LATIN)
    return repr(other) + _differing(other, name) * is_one if other else ""


def _differing(first: str, second: str) -> str:
    """Return the code points that one of two names has alone, in brackets."""
    sides = [
        " ".join(f"U+{ord(sign):04X}" for sign in (Counter(one) - Counter(two))) or "nothing"
        for one, two in ((first, second), (second, first))
    ]
    return f" ({' against '.join(sides)})" if first != second else ""


def listing(texts: Sequence[str], most: int = 12) -> str:
    """Return the first texts in one line, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def tokens(name: str) -> list[str]:
    """The words of a name, in lower case."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
    return re.findall(r"[^\W_]+", split)


def has_word(name: str, words: Collection[str]) -> bool:
    """Return whether one of some words is in a name."""
    return not set(words).isdisjoint(tokens(name))


def is_identifier_name(name: str) -> bool:
    """Return whether texts of that name are likely to say whose record it is."""
    words = tokens(name)
    return bool(_NUMBERED & set(words)) or words in (["name"], ["patient"], ["patient", "name"])


def unit_of(name: str) -> str:
    """The unit that a name says, or none.

    Examples
    --------
    >>> [unit_of(name) for name in ("age_years", "Glucose (mg/dL)", "crp_mg_l", "hours-per-week")]
    ['a', 'mg/dL', 'mg/L', '']
    """
    return split_unit(name)[1]


def split_unit(name: str) -> tuple[list[str], str]:
    """Return the words of a name without those of its unit, and the unit, if it says one."""
    plain = {unit.lower(): unit for unit in (*_RATIOS, *_UNITS.values())}
    inside = re.search(r"[(\[]\s*([^()]*?)\s*[)\]]\s*$", name)
    words = tokens(name)
    if inside:
        text = inside[1].lower()
        unit = plain.get(text, _UNITS.get(text, ""))
        return (tokens(name[: inside.start()]) if unit else words), unit
    if len(words) < 2 or "per" in words:
        return words, ""
    if ratio := plain.get("/".join(words[-2:])):
        return words[:-2], ratio
    unit = _UNITS.get(words[-1], "")
    return (words[:-1] if unit else words), unit


def limits_of(name: str, unit: str, quartiles: Quartiles, *, in_any: bool = False) -> Limits | None:
    """Return the only limits that a name and unit speak of and that hold the quartiles.

    Without a unit the numbers tell it, of substances that this is possible of, or ``in_any``.
    """
    words = set(tokens(name))
    fits = [
        limits
        for limits in LIMITS
        if any(needed <= words for needed in limits.words)
        and limits.low <= quartiles[0]
        and quartiles[2] <= limits.high
        and (
            limits.unit == unit
            if unit
            else in_any or limits.unit in _ALWAYS or limits.substance in _BY_NUMBERS
        )
    ]
    return fits[0] if len(fits) == 1 else None
