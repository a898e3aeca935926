"""Schemas by which sites read their tables: those of one run must be the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data.reading import Schema
from ..errors import MismatchError


class Schemas:
    """Schemas that are known so far; a party without one, whose data are arrays, fits all.

    Attributes
    ----------
    own
        Of who asks, if any.
    """

    def __init__(self, own: Schema | None = None) -> None:
        self.own = own
        self._known: dict[str, tuple[str, str]] = {}
        self._own = ("", "") if own is None else (own.hash, own.name)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def vouched(self) -> frozenset[str]:
        """Parties that read their tables by one."""
        return frozenset(name for name, (digest, _) in self._known.items() if digest)

    def add(self, name: str, told: bytes) -> None:
        """Note what a site told, in bytes of ``told_by``, and compare.

        Raises
        ------
        MismatchError
            ``schema-mismatch``, with the names of both.
        """
        digest, _, title = told.decode("utf-8", "replace").partition(" ")
        read = {"--schema": self._own, **self._known}
        for other, (hash_, called) in read.items():
            if digest and hash_ and digest != hash_:
                raise MismatchError(
                    f"{other!r} has the schema {called!r} ({hash_[:8]}), and {name!r} has "
                    f"{title!r} ({digest[:8]}): their numbers mean other things, so nobody was "
                    "asked. Agree on one schema, or leave one out.",
                    code="schema-mismatch",
                )
        self._known[name] = digest, title


def told_by(facts: Mapping[str, Any]) -> bytes:
    """What a site says of its schema, to be kept."""
    digest, title = (str(facts.get(key, ""))[:200] for key in ("schema", "schema_name"))
    return f"{digest} {title}".encode()


__all__ = ["Schemas", "told_by"]
