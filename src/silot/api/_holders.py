"""Check what a call was given, and name columns of what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..data.measure import Measure
from ..distances.result import Distance
from ..errors import InputError
from ..federation.parties import Parties, column_names
from ..federation.protocol import COORDINATOR
from ..options import word
from ..records.result import RecordScores

# Classes that are named one by one.
_NAMED = 5


def name_columns(result: Distance, parties: Parties, sides: Sequence[str]) -> Distance:
    """Return the result with columns by their names, and the classes that were compared."""
    owned = {} if parties.own is None else {COORDINATOR: parties.own.measure}
    measures = {**parties.measures, **owned}
    compared = [measures[name] for name in sides if name in measures]
    if len(compared) < 2:
        # Columns of a party that read by no schema are not guessed from the caller's own.
        return result.named(parties.agreed)
    named = result.named(column_names(dict(zip(sides, compared, strict=True))))
    return with_classes(named, *compared) if parties.labels else named


def with_classes(result: Distance, first: Measure, second: Measure) -> Distance:
    """The result, whose status names the classes that one of two labelled measures has alone.

    Label vectors compare classes by their records, whatever they are called: other words for the
    same classes do not show in the distance.
    """
    kinds = [
        set() if measure.names is None else set(measure.names[measure.weights > 0].tolist())
        for measure in (first, second)
    ]
    names = [repr(name) for name in result.holders]
    if not kinds[0] & kinds[1]:
        note = f"{' and '.join(names)} share no class: labels were compared by their records only"
    else:
        alone = [sorted(map(str, own - other)) for own, other in (kinds, kinds[::-1])]
        note = "; ".join(
            f"only {name} has the class{'es' * (len(classes) > 1)} {', '.join(classes[:_NAMED])}"
            + (f" and {len(classes) - _NAMED} more" if len(classes) > _NAMED else "")
            for name, classes in zip(names, alone, strict=True)
            if classes
        )
    return replace(result, status=f"{result.status}; {note}") if note else result


def with_columns(result: RecordScores, trusted: Measure, *others: Measure) -> RecordScores:
    """The result, with columns by name, and validation records by their place in the data.

    Names are those that one of the measures has: all are in one order.
    """
    part = result.screening
    if part is None:
        return result
    places = np.flatnonzero(trusted.weights > 0)[part.nearest]
    measures = (trusted, *others)
    names = next((measure.columns for measure in measures if measure.columns is not None), None)
    columns = part.columns if names is None else np.array(names)[part.columns]
    return replace(result, screening=replace(part, columns=columns, nearest=places))


def check_side(side: object) -> str:
    """Return the name of a holder of a federation, or raise where it is none."""
    if not isinstance(side, str):
        raise InputError(
            f"a {type(side).__name__} is not a name of a holder. With federation= give two names.",
            code="holder-names",
        )
    return side


def read_shares(
    shares: Mapping[str, float] | str, sellers: Parties, method: str
) -> dict[str, Mapping[str, float]]:
    """Return the option of a pooled distance that says what sellers count for."""
    if isinstance(shares, str):
        word("records", "weights").of(shares, "shares", "option-shares")
    if shares == "records":
        return {}
    if method == "secure":
        raise InputError(
            "method 'secure' weights every seller by its number of records. Leave shares out.",
            code="option-shares",
        )
    if isinstance(shares, str):
        sellers.check_owned("shares='weights'", "option-shares")
        masses = {name: float(measure.masses.sum()) for name, measure in sellers.measures.items()}
        return {"shares": masses}
    return {"shares": shares}
