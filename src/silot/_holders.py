"""Data as they are given: named, and checked before any question is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from .errors import InputError, MismatchError
from .federation.protocol import COORDINATOR
from .measure import Measure

Data = Measure | npt.ArrayLike


def named_holders(holders: Mapping[str, Data] | Sequence[Data]) -> dict[str, Data]:
    if isinstance(holders, Mapping):
        named = dict(holders)
    else:
        named = {str(k): data for k, data in enumerate(holders)}
    if not named:
        raise InputError("no holder is given; one or more are needed.", code="holder-names")
    return named


def unreserved(named: Mapping[str, Data]) -> Mapping[str, Data]:
    if COORDINATOR in named:
        raise InputError(f"no holder may be called {COORDINATOR!r}.", code="holder-names")
    return named


def checked_measures(holders: Mapping[str, Data], labels: bool) -> dict[str, Measure]:
    """Turn data into measures that fit together, before any question is sent."""
    measures = {name: Measure.of(data) for name, data in holders.items()}
    first_name, first = next(iter(measures.items()))
    for name, measure in measures.items():
        if measure.dimension != first.dimension:
            raise MismatchError(
                f"{first_name!r} has {first.dimension} features and {name!r} has "
                f"{measure.dimension}. Give both the same features in the same order.",
                code="dimension-mismatch",
            )
        if labels and not measure.labelled:
            raise InputError(
                f"{name!r} has no labels. Give Measure(points, labels=...), or leave the label "
                "option out.",
                code="labels-absent",
            )
    return measures


def shares_of(
    shares: Mapping[str, float] | str, sellers: Mapping[str, Measure], method: str
) -> dict[str, Mapping[str, float]]:
    """The option of a pooled distance that says what sellers count for."""
    if isinstance(shares, str) and shares not in ("records", "weights"):
        raise InputError(
            f"shares is {shares!r}; give 'records', 'weights', or a mass for each seller.",
            code="option-shares",
        )
    if shares == "records":
        return {}
    if method == "secure":
        raise InputError(
            "method 'secure' counts every seller by its records. Leave shares out.",
            code="option-shares",
        )
    if isinstance(shares, str):
        return {"shares": {name: float(each.masses.sum()) for name, each in sellers.items()}}
    return {"shares": shares}
