"""Compute a few points that stand for the records of several holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from ..data.measure import Data, Measure
from ..distances.sketches.release_options import read_public_classes
from ..distances.sketches.sketch import Sketching
from ..distances.worth.fedbary import allot
from ..errors import InputError
from ..federation.accounts import Spending, prepare_release
from ..federation.parties import Holders, Parties
from ..federation.run import Federation, Progress, Runtime, run
from ..options import check_known, part_options, taking, word
from ..teaching.federated.coreset import Condensing, Coreset, of_released, released
from ._holders import check_side
from .sketch import run_sketches

if TYPE_CHECKING:
    from ..keywords import CoresetKeywords

_OWN = ("weights", "rounds", "tol")


@taking(Condensing, also=(Sketching, Spending), without=("embedding",))
def coreset(
    holders: Holders | Sequence[str],
    size: int = 100,
    *,
    labels: bool | str = False,
    method: str = "fedbary",
    test: Data | None = None,
    seed: int = 0,
    federation: Federation | Runtime | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[CoresetKeywords],
) -> Coreset:
    r"""Compute points that represent the records of all holders: a Wasserstein coreset.

    .. math:: \min_{q_1, \dots, q_K} \sum_i \lambda_i
        W_2^2\Big(P_i, \frac{1}{K} \sum_k \delta_{q_k}\Big)

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on. Or a
        federation (as for ``distance_matrix``), or names of some of its holders.
    size
        Points K.
    labels
        Find the points of each class apart; they have labels then, and ``classifier`` is the
        1-nearest-neighbour classifier on them. For data frames the name of the column that has the
        labels.
    method
        ``"fedbary"``: every round discloses means of records. ``"sketch"``: from one
        differentially private release of each holder, and nothing else.
    test
        Labelled records of the caller's own that the classifier is tested on. No holder sees them.
    seed
        Seed of everything random.
    federation
        Whose holders are meant, where ``holders`` are names.
    progress
        Called after every exchange.
    **options
        With ``"sketch"`` also those of ``silot.api.sketches``, such as ``public``.

    Returns
    -------
    Coreset
        With ``"fedbary"`` certified distances to every holder that sent its own. It is a
        stationary point: another ``seed`` may find a better one.

    Raises
    ------
    InputError, MismatchError
        As ``barycenter``; fewer points than classes, ``test`` without labels.

    Notes
    -----
    Rakotomamonjy, Nadjahi and Ralaivola, *Federated Wasserstein Distance*, 2024, sec. 4.2.

    Examples
    --------
    >>> found = coreset({"a": [[0.0], [1.0]], "b": [[4.0], [5.0]]}, size=2)
    >>> found.size, round(found.objective, 6)
    (2, 4.0)
    """
    word("fedbary", "sketch").of(method, "method", "option-method")
    if test is not None and not labels:
        raise InputError(
            "test= needs a classifier, and points without labels cannot classify. Give "
            "labels=True.",
            code="labels-absent",
        )
    parties, public = _parties(holders, labels, test, federation), None
    if method == "sketch":
        result, public = _of_sketches(parties, size, seed, progress, options)
    else:
        own = check_known(Condensing, options, "coreset")
        fit = Condensing(size=size, labels=bool(labels), seed=seed, **own)
        result = parties.run(fit.among(parties.names), progress)
    return result if test is None else result.tested(parties.trusted.measure, public)


def _parties(
    holders: Holders | Sequence[str],
    labels: bool | str,
    test: Data | None,
    federation: Federation | Runtime | None,
) -> Parties:
    """Return who takes part: all holders, or those of a federation by their names."""
    if federation is None:
        return Parties.of(cast("Holders", holders), labels, test)
    names = tuple(check_side(name) for name in cast("Sequence[object]", holders))
    return replace(Parties.of(federation, labels, test), names=names)


def _of_sketches(
    parties: Parties,
    size: int,
    seed: int,
    progress: Callable[[Progress], None] | None,
    options: Mapping[str, Any],
) -> tuple[Coreset, Measure | None]:
    """Compute the coreset of releases by the same rounds; return the public records too."""
    own, more = part_options(options, *_OWN)
    # Checked before anything is released.
    fit = Condensing(size=size, labels=bool(parties.labels), seed=seed, **own)
    fit.among(parties.names)
    public = _public(parties, size, more)
    sketches = run_sketches(replace(parties, own=None), seed=seed, progress=progress, **more)
    result = run(fit.among(sketches.names), released(sketches))
    return of_released(result, sketches).with_run(sketches), public


def _public(parties: Parties, size: int, options: Mapping[str, Any]) -> Measure | None:
    """Return the public records, or raise where they have more classes than points."""
    spending, more = Spending.split(options)
    own = prepare_release(parties, more, spending)
    public, classes = own.get("public"), own.get("classes")
    if parties.labels and (public is not None or classes is not None):
        allot(np.ones(len(read_public_classes(public, classes))), size)
    return public if isinstance(public, Measure) else None
