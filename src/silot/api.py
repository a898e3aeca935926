"""The short way: measures in, results out, through a local federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ._holders import (
    checked_measures,
    column_names,
    in_words,
    label_option,
    named_holders,
    shares_of,
    unreserved,
)
from .api_matrix import HolderMap, MapMethod, run_matrix
from .api_sketch import run_sketch_distance, run_sketch_values, run_sketches
from .errors import InputError
from .federation.holder import Own
from .federation.local import LocalFederation, Progress
from .federation.protocol import COORDINATOR
from .measure import Covariance, Data
from .protocols.contributions import contributions
from .protocols.fedbary import fedbary
from .protocols.pooled import pooled
from .protocols.registry import method_named
from .results import Barycenter, Contributions, Distance, DistanceMatrix
from .secure import run_secure


def distance(
    x: Data,
    y: Data,
    *,
    method: str = "direct",
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Distance:
    """Wasserstein distance between two measures, by one of the protocols.

    Runs a local federation of two holders called ``"x"`` and ``"y"``.

    Parameters
    ----------
    x, y
        Measures, or arrays (n, d) or data frames of records with uniform weights. Columns of
        data frames are matched by name, in any order.
    method
        ``"direct"``, ``"fedwad"``, ``"trianglewad"`` or ``"sketch"``; ``silot.METHODS`` says
        what each discloses, needs and guarantees. ``"secure"`` computes on secret shares, all
        parties simulated here (see ``silot.secure``).
    labels
        Whether to compare labelled records, through their OTDD vectors; for data frames the name
        of their column. Classes are compared by their records, not by their names; ``status``
        says which one side alone has.
    covariance
        Covariance block of the OTDD vectors: ``"diagonal"``, ``"diagonal-of-root"`` or
        ``"full"``.
    progress
        Called after every exchange.
    **options
        Options of the method, such as ``support``, ``p``, ``seed`` and ``why`` (``results.Parts``).

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
    embedding = covariance if labels else "none"
    if method == "sketch" and "ledgers" in options:
        raise InputError(
            "distance names its two sides x and y, which is no name for a ledger. Use "
            "silot.sketches({name: data, ...}, ledgers=...), whose names are yours.",
            code="option-ledgers",
        )
    measures = checked_measures({"x": x, "y": y}, labels)
    if method == "sketch":
        return run_sketch_distance(
            measures, labels=labels, covariance=covariance, progress=progress, **options
        )
    if method == "secure":
        sides = ({name: measure} for name, measure in measures.items())
        result = run_secure(*sides, embedding=embedding, progress=progress, **options)
    else:
        protocol = method_named(method).protocol("x", "y", **options, embedding=embedding)
        result = LocalFederation(measures).run(protocol, progress=progress)
    return in_words(result, measures, labels)


def distance_matrix(
    holders: Mapping[str, Data] | Sequence[Data],
    *,
    method: str = "direct",
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> DistanceMatrix:
    """Distances between all pairs of holders.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on.
    method, labels, covariance, **options
        As ``distance``. Every pair uses the same seed, so that the order of holders changes
        nothing. With ``"sketch"`` one release of every holder serves all pairs.
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
    named = named_holders(holders)
    if len(named) < 2:
        raise InputError(
            f"{len(named)} holder(s) given; a matrix needs two or more.", code="holder-names"
        )
    method_named("direct" if method == "secure" else method)
    return run_matrix(
        checked_measures(named, labels),
        method=method,
        labels=labels,
        covariance=covariance,
        progress=progress,
        **options,
    )


def pooled_distance(
    sellers: Mapping[str, Data],
    buyer: Data,
    *,
    method: str = "trianglewad",
    shares: Mapping[str, float] | Literal["records", "weights"] = "records",
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Distance:
    """Distance between the union of several sellers' records and a buyer's.

    Parameters
    ----------
    sellers
        Data (as for ``distance``) by name.
    buyer
        The coordinator's own data.
    method
        ``"trianglewad"``, or ``"secure"`` on secret shares.
    shares
        What a seller counts for in the union: as it has ``"records"``, as its weights sum to
        (``"weights"``), or a mass by name.
    labels, covariance, progress
        As ``distance``.
    **options
        Options of ``silot.protocols.pooled``, such as ``hidden``, ``samples`` and ``t``; with
        ``"secure"`` those of ``silot.secure.SecureOptions``.

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
    checked = checked_measures({**unreserved(sellers), COORDINATOR: buyer}, labels)
    embedding = covariance if labels else "none"
    options |= shares_of(shares, {name: checked[name] for name in sellers}, method)
    if method == "secure":
        buyers = {COORDINATOR: checked.pop(COORDINATOR)}
        return run_secure(checked, buyers, embedding=embedding, progress=progress, **options)
    if method != "trianglewad":
        raise InputError(
            f"method is {method!r}; give 'trianglewad' or 'secure'.", code="option-method"
        )
    own = Own(checked.pop(COORDINATOR))
    protocol = pooled(list(sellers), own=own, embedding=embedding, **options)
    return LocalFederation(checked).run(protocol, progress=progress)


def barycenter(
    holders: Mapping[str, Data] | Sequence[Data],
    *,
    method: str = "fedbary",
    labels: bool | str = False,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Barycenter:
    r"""Measure between several holders: the minimiser of :math:`\sum_i \lambda_i W_2^2(P_i, Q)`.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on.
    method
        ``"fedbary"``, or ``"sketch"``: from one differentially private release of each holder.
    labels
        Find it class by class; its atoms then have labels. For data frames the name of the
        column that has the labels.
    progress
        Called after every exchange.
    **options
        ``weights``, ``support`` and ``rounds``; other options of ``silot.protocols.fedbary`` or
        of ``silot.sketches``.

    Returns
    -------
    Barycenter

    Raises
    ------
    InputError, MismatchError
        Data that are no measures or do not fit together, options out of range; before any
        question is sent.

    Examples
    --------
    >>> result = barycenter({"a": [[0.0], [1.0]], "b": [[4.0], [5.0]]}, support=2)
    >>> round(result.objective, 6)
    4.0
    """
    measures = checked_measures(named_holders(holders), labels)
    if method == "sketch":
        own_options = {k: options.pop(k) for k in ("weights", "support", "rounds") if k in options}
        found = run_sketches(measures, labels=labels, progress=progress, **options)
        return found.barycenter(**own_options)
    if method != "fedbary":
        raise InputError(f"method is {method!r}; give 'fedbary' or 'sketch'.", code="option-method")
    federation = LocalFederation(measures)
    return federation.run(
        fedbary(list(measures), labels=bool(labels), **options), progress=progress
    )


def value_holders(
    holders: Mapping[str, Data] | Sequence[Data],
    validation: Data | None = None,
    *,
    labels: bool | str = False,
    label_metric: str = "classes",
    map: MapMethod | None = None,
    map_options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Contributions:
    """What every holder's data are worth for a target.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on.
    validation
        Data of the law that matters. Without them the target is the barycenter of the holders.
    labels
        As for ``barycenter``.
    label_metric
        ``"classes"``: two labels are as far apart as the records of their classes.
        ``"vectors"``: OTDD vectors.
    map
        Distances between holders, and to the target, all by one method, which the result has as
        ``between``. ``"direct"``: exact, and it discloses every record. ``"sketch"``: one
        differentially private release of each holder. ``"secure"``: on secret shares. Labels
        are then compared as vectors. With ``method="sketch"`` the sketches of the run serve.
    map_options
        Options of ``silot.sketches`` or ``silot.secure.SecureOptions``, for a map made by them.
    progress
        Called after every exchange.
    **options
        Options of ``silot.protocols.contributions``, such as ``method``, ``support``,
        ``class_tolerance``, ``why`` and ``seed``. With ``method="sketch"`` those of
        ``silot.sketches``; labels are then compared as vectors.

    Returns
    -------
    Contributions

    Raises
    ------
    InputError, MismatchError
        As ``barycenter``.

    Examples
    --------
    >>> result = value_holders({"near": [[0.0], [1.0]], "far": [[8.0], [9.0]]}, [[0.5], [1.5]])
    >>> result.ranking[0].holder, round(result.shares["near"], 3)
    ('near', 0.938)
    """
    parts = dict(unreserved(named_holders(holders)))
    if validation is not None:
        parts[COORDINATOR] = validation
    checked = checked_measures(parts, labels)
    target = checked.pop(COORDINATOR, None)
    own = None if target is None else Own(target)
    mapped = HolderMap(map, dict(map_options or {}), checked, target, labels)
    mapped.check(options.get("method"), label_metric)
    if options.get("method") == "sketch":
        del options["method"]
        return run_sketch_values(
            checked, own=own, labels=labels, map=map is not None, progress=progress, **options
        )
    direct = "direct" if map == "direct" else None
    metric = label_option(labels, label_metric)
    protocol = contributions(list(checked), own=own, labels=metric, map=direct, **options)
    found = LocalFederation(checked).run(protocol, progress=progress).named(column_names(checked))
    return mapped.added(found, progress)
