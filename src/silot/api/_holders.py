"""Data as they are given: named, and checked before any question is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..data.columns import matched
from ..data.measure import Data, Measure
from ..distances.result import Distance
from ..errors import InputError, MismatchError, SilotError
from ..federation.protocol import COORDINATOR
from ..records.result import RecordScores
from ..value.target import LabelMetric

# Classes that are named one by one.
_NAMED = 5


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


def checked_measures(
    holders: Mapping[str, Data], labels: bool | str, last: Collection[str] = (COORDINATOR,)
) -> dict[str, Measure]:
    """Turn data into measures that fit together, before any question is sent.

    Parameters
    ----------
    holders
        Data by name.
    labels
        Whether all need labels, or the column that has those of data frames.
    last
        Who has no say in the order of columns.
    """
    column = labels if isinstance(labels, str) else None
    read = {name: measure_named(name, data, column) for name, data in holders.items()}
    measures = matched(read, last)
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
                f"{name!r} has no labels. Give Measure(points, labels=...), for a data frame "
                "labels='the name of their column', or leave the label option out.",
                code="labels-absent",
            )
    return measures


def column_names(measures: Mapping[str, Measure]) -> tuple[str, ...] | None:
    """Names of the features of measures that fit together, where any of them has names."""
    return next((each.columns for each in measures.values() if each.columns), None)


def in_words(result: Distance, measures: Mapping[str, Measure], labels: bool | str) -> Distance:
    """The result as its sides' owner can read it: classes compared, and columns by their names."""
    named = result.named(column_names(measures))
    return with_classes(named, *measures.values()) if labels else named


def with_classes(result: Distance, first: Measure, second: Measure) -> Distance:
    """The result, whose status names the classes that one of two labelled measures has alone.

    Label vectors compare classes by their records, whatever they are called: other words for the
    same classes do not show in the distance.
    """
    kinds = [
        set() if each.names is None else set(each.names[each.weights > 0].tolist())
        for each in (first, second)
    ]
    names = [repr(name) for name in result.holders]
    if not kinds[0] & kinds[1]:
        told = f"{' and '.join(names)} share no class: labels were compared by their records alone"
    else:
        alone = [sorted(map(str, own - other)) for own, other in (kinds, kinds[::-1])]
        told = "; ".join(
            f"only {name} has the class{'es' * (len(classes) > 1)} {', '.join(classes[:_NAMED])}"
            + (f" and {len(classes) - _NAMED} more" if len(classes) > _NAMED else "")
            for name, classes in zip(names, alone, strict=True)
            if classes
        )
    return replace(result, status=f"{result.status}; {told}") if told else result


def with_columns(result: RecordScores, trusted: Measure, *others: Measure) -> RecordScores:
    """The result, with columns by name, and validation records by their place in the data.

    Names are those that one of the measures has: all are in one order.
    """
    part = result.screening
    if part is None:
        return result
    places = np.flatnonzero(trusted.weights > 0)[part.nearest]
    measures = (trusted, *others)
    names = next((each.columns for each in measures if each.columns is not None), None)
    columns = part.columns if names is None else np.array(names)[part.columns]
    return replace(result, screening=replace(part, columns=columns, nearest=places))


def measure_named(name: str, data: Data, labels: str | None) -> Measure:
    """Data as a measure; what is wrong with them is said of that name."""
    if isinstance(data, Measure):
        return data
    try:
        # For the time of one call: what a hundred holders have is not kept twice.
        return Measure(data, labels=labels, copy=False)
    except SilotError as error:
        raise type(error)(f"{name!r}: {error.message}", code=error.code) from None


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


def label_option(labels: bool | str, metric: str) -> LabelMetric:
    if metric not in ("classes", "vectors"):
        raise InputError(
            f"label_metric is {metric!r}; give 'classes' or 'vectors'.",
            code="option-label-metric",
        )
    return metric if labels else "none"
