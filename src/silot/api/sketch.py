"""Sketches of data the caller owns, through a local federation with ledgers in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ..data.measure import Covariance, Data, Embedding
from ..distances.methods import check_method_options
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch, Sketching
from ..errors import InputError
from ..federation.accounts import Spending, prepare_release, run_private
from ..federation.parties import Holders, Parties
from ..federation.run import Progress
from ..options import check_known, taking

if TYPE_CHECKING:
    from ..keywords import SketchKeywords


@taking(Sketching, Spending, without=("embedding",))
def sketches(
    holders: Holders,
    validation: Data | None = None,
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SketchKeywords],
) -> Sketches:
    """One differentially private release of every holder, and all that follows from it.

    Parameters
    ----------
    holders
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on. A
        federation (as for ``distance_matrix``) has ledgers of its holders' own.
    validation
        Data of the coordinator, to value holders by; no noise is added to them.
    labels, covariance
        Whether to sketch class by class (for data frames the name of the column that has the
        labels), and the covariance block of the OTDD vectors that distances then compare. Class
        names must be public: those of ``public``, or ``classes``.
    progress
        Called after every exchange.

    Returns
    -------
    Sketches
        ``distance``, ``matrix``, ``barycenter`` and ``values`` spend nothing more, nor does
        ``silot.cluster`` of it.

    Raises
    ------
    InputError, MismatchError
        Data that are not measures or do not fit together, options out of range, too few records.
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(4500, 2))
    >>> released = sketches(
    ...     {"a": x[:1500], "b": x[1500:3000], "c": x[3000:] + 5.0}, public=public
    ... )
    >>> released.distance("a", "c").value > released.distance("a", "b").value
    True
    """
    check_known(Sketching, options, "sketches", own=Spending.options)
    parties = Parties.of(holders, labels, validation)
    return run_sketches(parties, covariance=covariance, progress=progress, **options)


def run_sketches(
    parties: Parties,
    *,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Sketches:
    """Sketch parties whose data, where they are the caller's, were checked."""
    spending, options = Spending.split(options)
    options = prepare_release(parties, options, spending)
    check_method_options(Sketch, options)
    if options.pop("p", 2) != 2:
        raise InputError("sketches give W2 only. Give p=2.", code="option-p")
    embedding: Embedding = covariance if parties.labels else "none"
    release = Sketching(embedding=embedding, **options)
    protocol = release.among(parties.names, parties.own)
    result = run_private(parties.beside(options), protocol, release, spending, progress)
    return replace(result, columns=parties.columns)
