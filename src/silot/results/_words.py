"""Names and counts as people read them, on any screen."""

from __future__ import annotations


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A count and its noun, which takes an s unless there is one or another plural."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def printable(name: str, longest: int = 80) -> str:
    """A name without characters that break a document or turn its text round.

    Long ones lose their middle: names of one house often differ at the end.
    """
    clean = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)
    if len(clean) <= longest:
        return clean
    tail = (longest - 1) // 3
    return f"{clean[: longest - 1 - tail]}…{clean[len(clean) - tail :]}"
