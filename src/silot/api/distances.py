"""Compute distances between holders through a local federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from ..data.measure import Covariance, Data
from ..distances.pooled import Pooled
from ..distances.result import Distance, DistanceMatrix
from ..distances.sketches.release_options import Private
from ..errors import InputError
from ..federation.accounts import Spending
from ..federation.parties import MINE, Holders, Parties, read_measure
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation, Progress, Runtime
from ..options import check_known, taking, word
from ._holders import check_side, read_shares
from ._methods import DISTANCES, Comparison, Pairwise, Secure, find_method, read_method

if TYPE_CHECKING:
    from ..keywords import DistanceKeywords, PooledKeywords


@taking(also=(*DISTANCES, Spending), without=("embedding",))
def distance(
    x: Data | str,
    y: Data | str,
    method: str | Pairwise = "direct",
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    federation: Federation | Runtime | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[DistanceKeywords],
) -> Distance:
    """Compute the Wasserstein distance between two measures, by one of the protocols.

    Runs a local federation of two holders called ``"x"`` and ``"y"``.

    Parameters
    ----------
    x, y
        Measures, or arrays (n, d) or data frames of records with uniform weights. Columns of
        data frames are matched by name, in any order. With ``federation`` names of two holders.
        With ``"private"`` ``x`` is data of your own, which the holder sees.
    method
        ``"direct"``, ``"fedwad"``, ``"trianglewad"``, ``"sketch"`` or ``"private"``;
        ``silot.api.METHODS`` says what each discloses, needs and guarantees. ``"secure"`` computes
        on secret shares, all parties simulated here (see ``silot.sites.secure``), or by sites
        themselves. Or one object with its options, such as ``FedWaD(support=50)`` of
        ``silot.distances``, which an editor checks as you write.
    labels
        Whether to compare labelled records, through their OTDD vectors; for data frames the name
        of their column. Classes are compared by their records, not by their names; ``status``
        says which one side alone has.
    covariance
        Covariance block of the OTDD vectors: ``"diagonal"``, ``"diagonal-of-root"`` or
        ``"full"``.
    federation
        Whose holders are compared, such as a ``LocalFederation``: an object with ``names`` and
        ``run``, or a runtime. Nothing is checked here that takes the data, holders see to it.
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
        Data that are not measures or do not fit together, unknown options; before any question
        is sent.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> round(distance(x, x + [3.0, 4.0]).value, 6)
    5.0
    """
    name, own_options = read_method(method, options)
    if not find_method(name).compares_holders:
        # The first side is the caller's own: all that leaves the other one is its release.
        holders: Holders = {"y": y} if federation is None else federation
        side = "y" if federation is None else check_side(y)
        own = Parties.of(holders, labels, cast("Data", x))
        return Comparison.of(name, own, covariance, own_options).between(
            side, COORDINATOR, progress
        )
    if federation is not None:
        parties, sides = Parties.of(federation, labels), (check_side(x), check_side(y))
    elif "ledgers" in options and issubclass(find_method(name), Private):
        raise InputError(
            "distance names its two sides x and y, which cannot name a ledger. Use "
            "silot.api.sketches({name: data, ...}, ledgers=...), whose names are yours.",
            code="option-ledgers",
        )
    else:
        parties, sides = Parties.of({"x": x, "y": y}, labels), ("x", "y")
    return Comparison.of(name, parties, covariance, own_options).between(*sides, progress)


@taking(also=(*DISTANCES, Spending), without=("embedding",))
def distance_matrix(
    holders: Holders,
    method: str | Pairwise = "direct",
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[DistanceKeywords],
) -> DistanceMatrix:
    """Distances between all pairs of holders.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on. Or a
        federation of holders with data of their own: an object with ``names`` and ``run``, such as
        a ``LocalFederation``, or a runtime. Then ``labels`` names no column.
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
    return build_comparison(holders, method, labels, covariance, options).matrix(progress)


def build_comparison(
    holders: Holders,
    method: str | Pairwise,
    labels: bool | str,
    covariance: Covariance,
    options: Mapping[str, Any],
) -> Comparison:
    """Build the comparison that computes distances between all pairs of holders."""
    name, options = read_method(method, options)
    parties = Parties.of(holders, labels)
    if len(parties.names) < 2:
        raise InputError(
            f"{len(parties.names)} holder(s) given; a matrix needs two or more.",
            code="holder-names",
        )
    return Comparison.of(name, parties, covariance, options)


@taking(also=(Pooled, Secure), without=("embedding",))
def pooled_distance(
    sellers: Holders,
    buyer: Data,
    *,
    method: str = "trianglewad",
    shares: Mapping[str, float] | Literal["records", "weights"] = "records",
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[PooledKeywords],
) -> Distance:
    """Distance between the union of several sellers' records and a buyer's.

    Parameters
    ----------
    sellers
        Data (as for ``distance``) by name, or a federation (as for ``distance_matrix``).
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
        Options of ``silot.distances.pooled``, such as ``hidden``, ``samples`` and ``t``; with
        ``"secure"`` those of ``silot.sites.secure.SecureOptions``.

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
    column = labels if isinstance(labels, str) else None
    parties = Parties.of(sellers, labels, read_measure(MINE, buyer, column))
    embedding = covariance if labels else "none"
    own = {**options, **read_shares(shares, parties, method)}
    word("trianglewad", "secure").of(method, "method", "option-method")
    if method == "trianglewad":
        check_known(Pooled, own, "pooled_distance")
    kind = Secure if method == "secure" else Pooled
    protocol = kind(embedding=embedding, **own).among(parties.names, parties.trusted)
    return parties.run(protocol, progress)
