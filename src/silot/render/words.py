"""Numbers, names and codes as people read them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

MISSING_NUMBER = "–"
_MINUS = "\N{MINUS SIGN}"


_LEVELS = {
    "public": "Nothing about records.",
    "private": "Differentially private releases: noise was added before they left the holder.",
    "statistics": "Exact statistics. Whoever reads them can test who is in the data, and from "
    "enough of them can reconstruct records; a minimum count does not change that.",
    "record": "Everybody who reads the messages can reconstruct every record. In the same "
    "way the holders can reconstruct validation data from the coordinator's "
    "messages. Treat the transcript of such a run like the data themselves.",
}


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count and its noun, which takes an s unless there is one or another plural."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def printable(name: str, longest: int = 80) -> str:
    """Return a name without characters that break a document or turn its text round.

    Long ones lose their middle: names of one house often differ at the end.
    """
    clean = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)
    if len(clean) <= longest:
        return clean
    tail = (longest - 1) // 3
    return f"{clean[: longest - 1 - tail]}…{clean[len(clean) - tail :]}"


def format_bytes(count: int) -> str:
    """Return a count of bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def number(value: float) -> str:
    """Return a number with four digits."""
    if math.isnan(value):
        return MISSING_NUMBER
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    if value == 0:
        return "0"
    return f"{value:#.4g}".rstrip(".").replace("-", _MINUS)


def short_number(value: float) -> str:
    """Return a number with four digits in plain letters; an infinite bound is none."""
    return "none" if math.isinf(value) else f"{value:#.4g}"


def signed(value: float) -> str:
    """Return a number with one digit and its sign; what is rounded to nothing is positive."""
    return f"{round(value, 1) + 0.0:+.1f}"


def short_bounds(lower: float, upper: float) -> str:
    """Return bounds in plain letters."""
    return f"[{short_number(lower)}, {short_number(upper)}]"


def known_bounds(ends: tuple[float, float]) -> str:
    """Return bounds in plain letters; nothing where none is known."""
    return "" if ends[0] <= 0.0 and not math.isfinite(ends[1]) else short_bounds(*ends)


def first_word(status: str) -> str:
    """Return the first word of a status: what kind of result it is."""
    return status.split(":")[0].split(" ")[0]


def decimals(value: float, digits: int = 2) -> str:
    """Return a number with this many digits behind the point, to compare down a column."""
    if not math.isfinite(value) or abs(value) >= 1e6:
        return number(value)
    text = f"{value:.{digits}f}"
    # No minus before a row of zeros.
    return text.replace("-", _MINUS if float(text) else "")


def interval(lower: float, upper: float) -> str:
    """Return bounds."""
    return f"[{number(lower)}, {number(upper)}]"


def percent(share: float) -> str:
    """Return a share of one as a percentage."""
    return f"{100 * share:.1f} %" if math.isfinite(share) else MISSING_NUMBER


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names as part of a sentence."""
    names = [_isolated(name) for name in names]
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {count(len(names) - most + 1, 'other')}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def named(names: Iterable[str], most: int = 6) -> str:
    """Return names that others chose as part of a sentence."""
    return listed([printable(name) for name in names], most)


def _isolated(name: str) -> str:
    """Return a name that does not turn the words around it if it reads from right to left."""
    turned = any(unicodedata.bidirectional(sign) in ("R", "AL", "AN") for sign in name)
    return f"\u2068{name}\u2069" if turned else name


def target_in_words(target: str) -> str:
    """Return what the holders were compared to."""
    targets = {"validation": "the validation data", "barycenter": "the barycenter of the holders"}
    return targets.get(target, printable(target))


def short_status(status: str) -> str:
    """Return what kind of result it is: a status up to its colon."""
    return printable(status.split(":")[0], 40)


def level_in_words(level: str) -> str:
    """Return what a disclosure level means."""
    return _LEVELS.get(
        level, "The result says nothing about disclosure, because it does not come from a run."
    )
