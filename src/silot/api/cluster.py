"""Group holders whose data are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..data.measure import Covariance
from ..distances.result import DistanceMatrix
from ..distances.sketches.drift import sketch_chances
from ..distances.sketches.result import Sketches
from ..errors import InputError, SilotError
from ..federation.result import with_earlier
from ..options import taking
from ..teaching.federated.clustering import Chances, Clustering, OwnChances, clustering_of
from ..teaching.federated.groups import Grouping
from ._holders import Holders
from ._methods import Comparison, Pairwise
from .distances import build_comparison


@taking(Grouping)
def cluster(
    holders: Holders | Sketches | DistanceMatrix,
    method: str | Pairwise = "direct",
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Clustering:
    r"""Groups of holders whose data are alike, from the distances between them.

    Parameters
    ----------
    holders
        As for ``distance_matrix``; or what was measured before, of which nobody is asked again:
        ``Sketches`` (as of ``silot.sketches``, or of release files by ``silot.combine``), or a
        ``DistanceMatrix``.
    method, labels, covariance, **options
        As for ``distance_matrix``: the distances are its own. ``seed`` is of the method too, where
        that is given by its name.
    progress
        Called with the number of pairs done and of all pairs.

    Returns
    -------
    Clustering
        ``assignment`` by holder, ``groups``, ``k``, ``agreement`` and ``stability``.

    Raises
    ------
    InputError, MismatchError
        As ``distance_matrix``; ``option-clusters``: more groups than holders;
        ``distances-absent``: a matrix that lacks a distance.

    Notes
    -----
    Two samples of one law are apart by chance. Each holder tells what two samples of its own
    law, at its size, show (sketches are simulated); all pairs of one law together stay below the
    levels c with a probability of 95 %. What counts is the excess

    .. math:: E_{ij} = \big(\max(D_{ij}^p - f_{ij}^p,\ 0)\big)^{1/p}

    where the floor f is c, or the smallest distance that is not certified to be above c where
    that is larger. Holders are one group unless, for some k < N,

    - of every two groups more than half of the pairs have ``lower > c``, the certified lower
      bound (of estimates without one: the value),
    - the silhouette widths of E are .5 or more on average (0 for a holder alone), and .25 or more
      in every group of two or more.

    Among such k (to 12) the one with the largest mean silhouette is taken, the smaller of equals.
    ``agreement`` and ``stability`` are shares of matrices, drawn within the bounds (or intervals)
    and by what sampling adds, that give the same k, and the same group of a holder.

    Source: FedWaD (section 4.4, appendix D.5) for spectral clustering and its affinities; Kaufman
    and Rousseeuw (1990) for silhouettes. The criterion is ours.

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
    options = {name: value for name, value in options.items() if (name, value) != ("k", None)}
    grouping, options = Grouping.split(options)
    if isinstance(holders, Sketches | DistanceMatrix):
        _check_alone(method, labels, options)
        grouping.check_size(len(holders.names))
        if isinstance(holders, DistanceMatrix):
            return clustering_of(holders, grouping)
        return _of_sketches(holders, holders.matrix(), grouping)
    if isinstance(method, str):
        options = {"seed": grouping.seed, **options}
    comparison = build_comparison(holders, method, labels, covariance, options)
    grouping.check_size(len(comparison.parties.names))
    released = comparison.released()
    matrix = comparison.matrix(progress, released)
    if released is not None:
        return _of_sketches(released, matrix, grouping)
    chances = _chances(comparison, matrix)
    return clustering_of(matrix, grouping, chances.laws, chances)


def _of_sketches(sketches: Sketches, matrix: DistanceMatrix, grouping: Grouping) -> Clustering:
    return clustering_of(matrix, grouping, sketch_chances(sketches, sketches.names))


def _chances(comparison: Comparison, matrix: DistanceMatrix) -> Chances:
    """Request sampling noise of holders; who refuses is left out."""
    question = OwnChances(p=matrix.p, embedding=comparison.method.embedding)
    try:
        return comparison.parties.run(question.among(comparison.parties.names))
    except SilotError as error:
        error.run = with_earlier(error.run, list(matrix.pairs.values()))
        raise


def _check_alone(method: object, labels: object, options: Mapping[str, Any]) -> None:
    """Raise where options say how to measure distances that were measured before."""
    names = [*(["method"] if method != "direct" else []), *(["labels"] if labels else []), *options]
    if names:
        raise InputError(
            f"distances are given, and {names[0]!r} says how to measure them. Leave it out.",
            code="option-unknown",
        )


__all__ = ["cluster"]
