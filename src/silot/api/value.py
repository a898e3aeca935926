"""The short way to what holders and records are worth, and to the measure between holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..data.measure import Data
from ..errors import InputError
from ..federation.local import LocalFederation, Progress
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..options import check_known
from ..value.contributions import contributions
from ..value.fedbary import fedbary
from ..value.result import Barycenter, Contributions
from ._holders import (
    checked_measures,
    column_names,
    label_option,
    named_holders,
    unreserved,
)
from ._matrix import HolderMap, MapMethod
from .sketch import run_sketch_values, run_sketches


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
        ``weights``, ``support`` and ``rounds``; other options of ``silot.value.fedbary`` or
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
    check_known(fedbary, options, "barycenter")
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
        Options of ``silot.value.contributions``, such as ``method``, ``support``,
        ``class_tolerance``, ``why``, ``shapley`` and ``seed``. With ``method="sketch"`` those of
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
    check_known(contributions, options, "value_holders")
    protocol = contributions(list(checked), own=own, labels=metric, map=direct, **options)
    found = LocalFederation(checked).run(protocol, progress=progress).named(column_names(checked))
    return mapped.added(found, progress)
