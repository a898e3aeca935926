"""Match the columns and schemas of several measures by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..errors import MismatchError
from .names import listing, similar

if TYPE_CHECKING:
    from .measure import Measure
    from .schema import Contract


def match_columns(
    measures: Mapping[str, Measure], last: Collection[str] = ()
) -> dict[str, Measure]:
    """Bring the columns of measures into the order of the first by name that has column names.

    Columns of measures without column names count by their place. The measures of ``last`` come
    after all others in this choice: they belong to no holder.
    """
    ranked = sorted(measures, key=lambda name: (name in last, name))
    check_schemas({name: measures[name].schema for name in ranked})
    named = {name: columns for name in ranked if (columns := measures[name].columns)}
    if len(set(named.values())) < 2:
        return dict(measures)
    lead, order = next(iter(named.items()))
    for other, columns in named.items():
        only = "".join(
            f"{listing([repr(column) for column in sorted(own)])} in {holder!r} only; "
            for holder, own in (
                (lead, set(order).difference(columns)),
                (other, set(columns).difference(order)),
            )
            if own
        )
        near = next((hint for name in order if (hint := similar(name, columns))), "")
        if only:
            only += f"{near} looks like one of them; " if near else ""
            raise MismatchError(
                f"{lead!r} and {other!r} have different columns: {only}"
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
    """Refuse data that were read by two schemas, or by one and by none."""
    lead, first = next(((n, s) for n, s in schemas.items() if s is not None), ("", None))
    if first is None:
        return
    for other, schema in schemas.items():
        if schema is None:
            raise MismatchError(
                f"{lead!r} was read by a schema and {other!r} was not, so their numbers have "
                "different meanings. Read both by one schema.",
                code="schema-mismatch",
            )
        if schema.hash != first.hash:
            columns = listing([repr(name) for name in first.differing(schema)])
            raise MismatchError(
                f"{lead!r} and {other!r} were read by different schemas, which differ in "
                f"{columns}. Agree on one schema.",
                code="schema-mismatch",
            )
