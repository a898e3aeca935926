"""Group holders whose data are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from silot_transport import GroupsResult

from ..data.measure import Covariance
from ..distances.direct import Direct
from ..distances.naming import name_verdict
from ..distances.result import DistanceMatrix
from ..distances.sketches.drift import compare_sketches
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch
from ..errors import InputError
from ..federation.accounts import Spending
from ..federation.parties import Holders
from ..options import taking
from ..teaching.federated.clustering import (
    Clustering,
    Grouping,
    clustering_of,
    untested,
)
from ._methods import DISTANCES, Pairwise
from .distances import build_comparison

if TYPE_CHECKING:
    from ..keywords import ClusterKeywords


@taking(Grouping, also=(*DISTANCES, Spending), without=("embedding",))
def cluster(
    holders: Holders | Sketches | DistanceMatrix,
    method: str | Pairwise = "direct",
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[ClusterKeywords],
) -> Clustering:
    r"""Find groups of holders whose data are alike, from the distances between them.

    Parameters
    ----------
    holders
        As for ``distance_matrix``; or earlier results, for which no holder is asked again:
        ``Sketches`` (as of ``silot.api.sketches``, or of release files by ``silot.combine``), or a
        ``DistanceMatrix``.
    method, labels, covariance, **options
        As for ``distance_matrix``: the distances are its own. ``seed`` is of the method too, where
        that is given by its name.
    progress
        Called with the number of pairs done and of all pairs.

    Returns
    -------
    Clustering
        ``assignment`` by holder, ``groups``, ``k``, and the ``test`` between them.

    Raises
    ------
    InputError, MismatchError
        As ``distance_matrix``; ``option-clusters``: more groups than holders, or ``auto`` with a
        method that keeps records apart and makes no releases; ``distances-absent``: a matrix that
        lacks a distance.

    Notes
    -----
    With ``k="auto"`` holders are one group unless a test distinguishes them: of their records
    (``silot.transport.group_samples``; method ``direct``), or of releases with noise
    (``group_histograms``; method ``sketch``). Holders of one distribution are split with
    probability ``level`` at most, however many they are. ``verdict`` says which pairs differ, by
    what, and which difference would have been detected.

    With a number, groups are those of spectral clustering of the distances (FedWaD, section 4.4
    and appendix D.5), whether they differ or not; ``test`` tests them where it can.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4, 60, 2))
    >>> found = cluster({"a": x[0], "b": x[1], "c": x[2] + 3.0, "d": x[3] + 3.0})
    >>> found.k, found.assignment
    (2, {'a': 0, 'b': 0, 'c': 1, 'd': 1})
    """
    # None is another word for auto.
    said = {name: value for name, value in options.items() if (name, value) != ("k", None)}
    grouping, of_method = Grouping.split(said)
    if isinstance(holders, Sketches | DistanceMatrix):
        _check_alone(method, labels, of_method)
        grouping.check_size(len(holders.names))
        if isinstance(holders, DistanceMatrix):
            return clustering_of(holders, grouping)
        return _of_sketches(holders, holders.matrix(), grouping)
    if isinstance(method, str):
        of_method = {"seed": grouping.seed, **of_method}
    comparison = build_comparison(holders, method, labels, covariance, of_method)
    grouping.check_size(len(comparison.parties.names))
    if grouping.k == "auto" and not isinstance(comparison.method, Direct | Sketch):
        raise untested(comparison.method.name)
    released = comparison.released()
    matrix = comparison.matrix(progress, released)
    if isinstance(released, Sketches):
        return _of_sketches(released, matrix, grouping)
    verdict: GroupsResult | None = None
    if released is not None:
        verdict = released.groups(grouping.level, grouping.seed)
        verdict = name_verdict(verdict, comparison.parties.columns)
    return clustering_of(matrix, grouping, verdict)


def _of_sketches(sketches: Sketches, matrix: DistanceMatrix, grouping: Grouping) -> Clustering:
    return clustering_of(matrix, grouping, compare_sketches(sketches, grouping.level))


def _check_alone(method: object, labels: object, options: Mapping[str, Any]) -> None:
    """Raise where options say how to measure distances that were measured before."""
    names = [*(["method"] if method != "direct" else []), *(["labels"] if labels else []), *options]
    if names:
        raise InputError(
            f"distances are given, and {names[0]!r} says how to measure them. Leave it out.",
            code="option-unknown",
        )
