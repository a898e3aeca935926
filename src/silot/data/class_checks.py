"""What is odd about the classes of holders: other codings, and classes one holder has alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .findings import Finding, holders_in_words

if TYPE_CHECKING:
    from .measure import Measure

_NAMED_CLASSES = 3


def classes(measures: Mapping[str, Measure]) -> list[Finding]:
    """What was noticed of the classes of the holders that have some."""
    kinds = {
        name: set(each.names[each.masses > 0].tolist())
        for name, each in measures.items()
        if each.names is not None
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
    told = " and ".join(
        f"{kind!r} ({holders_in_words(names)})" for kind, names in sorted(alike[0].items())[:3]
    )
    more = f", and {len(alike) - 1} more such pairs" if len(alike) > 1 else ""
    sentence = f"labels {told} look like one class{more}. Write labels alike everywhere."
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
    found: list[Finding] = []
    for name, own in kinds.items():
        alone = sorted(own.difference(*(other for who, other in kinds.items() if who != name)))
        if alone:
            told = ", ".join(map(repr, alone[:_NAMED_CLASSES]))
            told += f" and {len(alone) - _NAMED_CLASSES} more" if len(alone) > 3 else ""
            said = f"labels: only {name!r} has {told}"
            found.append(
                Finding("labels", (name,), "classes", said, numbers={"count": float(len(alone))})
            )
    return found
