"""Match the columns and schemas of several measures by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ..errors import MismatchError

if TYPE_CHECKING:
    from .measure import Measure
    from .schema import Contract


def matched(measures: Mapping[str, Measure], last: Collection[str] = ()) -> dict[str, Measure]:
    """Measures whose columns have one order, that of the first by name whose columns are named.

    The columns of measures without names of columns count by their place. Those of ``last`` come
    after all others: they are no holder's.

    Raises
    ------
    MismatchError
        Columns that one measure has and another has not, or other orders of columns where a
        measure has no names to say which is meant.
    """
    ranked = sorted(measures, key=lambda name: (name in last, name))
    check_schemas({name: measures[name].schema for name in ranked})
    named = {name: columns for name in ranked if (columns := measures[name].columns)}
    if len(set(named.values())) < 2:
        return dict(measures)
    lead, order = next(iter(named.items()))
    for other, columns in named.items():
        ours, theirs = set(order), set(columns)
        if ours != theirs:
            raise MismatchError(
                f"{lead!r} and {other!r} have other columns: "
                f"{_only(lead, ours - theirs)}{_only(other, theirs - ours)}"
                "rename them, or choose the features that both have.",
                code="columns-mismatch",
            )
    nameless = [name for name in measures if name not in named]
    if nameless:
        raise MismatchError(
            f"{nameless[0]!r} has no names of columns, and others have theirs in different "
            "orders. Give it as a data frame, or Measure(..., columns=names).",
            code="columns-mismatch",
        )
    return {name: measure.ordered(order) for name, measure in measures.items()}


def check_schemas(schemas: Mapping[str, Contract | None]) -> None:
    """Refuse data that were read by two schemas, or by one and by none.

    Raises
    ------
    MismatchError
        ``schema-mismatch``, with the columns that differ.
    """
    read = {name: schema for name, schema in schemas.items() if schema is not None}
    if not read:
        return
    lead, first = next(iter(read.items()))
    for other, schema in schemas.items():
        if schema is None:
            raise MismatchError(
                f"{lead!r} was read by a schema and {other!r} was not: their numbers mean other "
                "things. Read both by one schema.",
                code="schema-mismatch",
            )
        if schema.hash != first.hash:
            raise MismatchError(
                f"{lead!r} and {other!r} were read by other schemas; they differ in "
                f"{_listing(map(repr, first.differing(schema)))}. Agree on one schema.",
                code="schema-mismatch",
            )


def _only(holder: str, columns: Collection[str]) -> str:
    """Which columns one holder alone has."""
    return f"{_listing(map(repr, sorted(columns)))} in {holder!r} only; " if columns else ""


def _listing(texts: Iterable[str]) -> str:
    from .tables import listing

    return listing(list(texts))
