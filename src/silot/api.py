"""The short way: measures in, results out, through a local federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy.typing as npt

from .errors import InputError, MismatchError
from .federation.holder import Own
from .federation.local import LocalFederation, Progress
from .measure import Covariance, Measure
from .protocols.pooled import pooled
from .protocols.registry import method_named
from .results import Distance, DistanceMatrix

Data = Measure | npt.ArrayLike


def distance(
    x: Data,
    y: Data,
    *,
    method: str = "direct",
    labels: bool = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Distance:
    """Wasserstein distance between two measures, by one of the protocols.

    Runs a local federation of two holders called ``"x"`` and ``"y"``.

    Parameters
    ----------
    x, y
        Measures, or arrays (n, d) of records with uniform weights.
    method
        ``"direct"``, ``"fedwad"`` or ``"trianglewad"``; ``silot.METHODS`` says what each
        discloses, needs and guarantees.
    labels
        Whether to compare labelled records, through their OTDD vectors.
    covariance
        Covariance block of the OTDD vectors: ``"diagonal"``, ``"diagonal-of-root"`` or
        ``"full"``.
    progress
        Called after every exchange.
    **options
        Options of the method, such as ``support``, ``rounds``, ``p`` and ``seed``.

    Returns
    -------
    Distance

    Raises
    ------
    InputError, MismatchError
        Data that are no measures or do not fit together, unknown options; before any question
        is sent.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> round(distance(x, x + [3.0, 4.0]).value, 6)
    5.0
    """
    protocol = method_named(method).protocol(
        "x", "y", **options, embedding=covariance if labels else "none"
    )
    federation = LocalFederation(_checked({"x": x, "y": y}, labels))
    return federation.run(protocol, progress=progress)


def distance_matrix(
    holders: Mapping[str, Data] | Sequence[Data],
    *,
    method: str = "direct",
    labels: bool = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> DistanceMatrix:
    """Distances between all pairs of holders.

    Parameters
    ----------
    holders
        Measures or arrays by name; a sequence is named ``"0"``, ``"1"`` and so on.
    method, labels, covariance, **options
        As ``distance``. Every pair uses the same seed, so that the order of holders changes
        nothing.
    progress
        Called with the number of pairs done and of all pairs.

    Returns
    -------
    DistanceMatrix

    Raises
    ------
    InputError, MismatchError
        As ``distance``; fewer than two holders.

    Examples
    --------
    >>> distance_matrix({"a": [[0.0]], "b": [[1.0]], "c": [[3.0]]}).values
    array([[0., 1., 3.],
           [1., 0., 2.],
           [3., 2., 0.]])
    """
    named = (
        dict(holders)
        if isinstance(holders, Mapping)
        else {str(k): data for k, data in enumerate(holders)}
    )
    if len(named) < 2:
        raise InputError(
            f"{len(named)} holder(s) given; a matrix needs two or more.", code="holder-names"
        )
    chosen = method_named(method)
    embedding = covariance if labels else "none"
    federation = LocalFederation(_checked(named, labels))
    couples = list(combinations(named, 2))
    pairs: dict[tuple[str, str], Distance] = {}
    for a, b in couples:
        protocol = chosen.protocol(a, b, **options, embedding=embedding)
        pairs[(a, b)] = federation.run(protocol)
        if progress is not None:
            progress(len(pairs), len(couples))
    return DistanceMatrix(
        names=tuple(named), pairs=pairs, method=method, p=next(iter(pairs.values())).p
    )


def pooled_distance(
    sellers: Mapping[str, Data],
    buyer: Data,
    *,
    labels: bool = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Distance:
    """Distance between the union of several sellers' records and a buyer's.

    Parameters
    ----------
    sellers
        Measures or arrays by name.
    buyer
        The coordinator's own measure.
    labels, covariance, progress
        As ``distance``.
    **options
        Options of ``silot.protocols.pooled``, such as ``hidden``, ``samples`` and ``t``.

    Returns
    -------
    Distance

    Raises
    ------
    InputError, MismatchError
        As ``distance``.

    Examples
    --------
    >>> result = pooled_distance({"a": [[0.0]], "b": [[2.0]]}, [[5.0], [7.0]], seed=0)
    >>> result.lower <= 5.0 <= result.upper
    True
    """
    if "coordinator" in sellers:
        raise InputError("no seller may be called 'coordinator'.", code="holder-names")
    checked = _checked({**sellers, "coordinator": buyer}, labels)
    own = Own(checked.pop("coordinator"))
    protocol = pooled(list(sellers), own=own, embedding=covariance if labels else "none", **options)
    return LocalFederation(checked).run(protocol, progress=progress)


def _checked(holders: Mapping[str, Data], labels: bool) -> dict[str, Measure]:
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
