"""The sketch: one differentially private release of every holder, and all that follows from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps
from ..federation.question import Answerer
from ..measure import Embedding
from ..privacy.accounting import mu_of
from ..privacy.cells import Public
from ..results import Distance, Sketches
from ..transport._check import flag, real, whole
from ._sides import check_covariance, check_seed, sides_of
from ._sketch_plan import SketchPlan, class_names, public_box, public_classes, public_sample


def sketches(
    holders: Sequence[str],
    *,
    own: Answerer | None = None,
    public: Public | None = None,
    public_mean: npt.ArrayLike | None = None,
    public_scale: npt.ArrayLike | None = None,
    labels: bool = False,
    classes: Sequence[object] | None = None,
    privacy_epsilon: float = 1.0,
    privacy_delta: float = 1e-5,
    size: int | None = None,
    cells: int | None = None,
    mass_limit: float | None = None,
    seed: int = 0,
    embedding: Embedding = "none",
) -> Protocol[Sketches]:
    r"""One differentially private sketch of every holder.

    Each holder counts its records in public cells, adds up how far they lie from the cells'
    centres, clipped, and how much they scatter, and adds discrete Gaussian noise to each number.
    Adding or removing one record changes what can happen by no more than (``privacy_epsilon``,
    ``privacy_delta``) allow. What is computed from the sketches afterwards costs nothing more.

    The noise has no seed, on purpose: noise that somebody can draw again is none. Two runs with
    new ledgers differ; ``seed`` makes the public parts alone.

    Parameters
    ----------
    holders
        Names.
    own
        ``Own(measure)`` with data of the coordinator, to value holders by; no noise is added.
    public
        Public records (m, d), of the law the holders' records come from, and of no holder: 400
        or more; from 100 on distances have intervals. With ``labels`` a ``Measure`` whose classes
        are public.
    public_mean, public_scale
        Without a sample: public mean and standard deviation of every feature, a vector at least
        one. Cells are then those of a normal law, or with two features the squares of a quadtree
        four standard deviations each way; errors are larger, and distances have no interval.
    labels
        Sketch class by class, and compare OTDD vectors.
    classes
        Public class names, else those of ``public``. Records of other classes count together.
    privacy_epsilon, privacy_delta
        What one record may change: the budget of this run, for every holder.
    size
        Records of the smallest holder, where that is public. Otherwise 2 % of the budget ask.
    cells
        Cells S, at most a third of the public records. Default: ``nu / 6``, from 8 to 128 and
        at most an eighth of the public records, with nu the records times the spent ``mu``.
    mass_limit
        For weighted records: the largest weight, public. A record of weight w counts as
        ``min(w, mass_limit) / mass_limit`` of one.
    seed
        Of the public cells, and of the draws distances are estimated by.
    embedding
        Label coordinates that distances compare, of the sketched classes.

    Returns
    -------
    Protocol[Sketches]
        Discloses the sketch.

    Raises
    ------
    InputError
        Options out of range, no public knowledge, or too few records for the noise (code
        ``sketch-small``, after the count).
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(3000, 2))
    >>> fed = LocalFederation({"a": x[:1500], "b": x[1500:] + [3.0, 0.0]})
    >>> found = fed.run(sketches(["a", "b"], public=public, privacy_epsilon=4.0))
    >>> 2.0 < found.distance("a", "b").value < 4.0
    True
    """
    if embedding != "none":
        check_covariance(embedding)
    elif labels:
        embedding = "diagonal"
    plan = SketchPlan(
        holders=tuple(holders),
        own=own,
        sample=public_sample(public, public_mean, public_scale, check_seed(seed)),
        drawn=public is None,
        box=None
        if embedding != "none" or cells is not None
        else public_box(public, public_mean, public_scale),
        classes=public_classes(public, classes) if embedding != "none" else (),
        prior_codes=class_names(public) if embedding != "none" else None,
        epsilon=real(privacy_epsilon, "privacy_epsilon", "option-privacy"),
        delta=real(privacy_delta, "privacy_delta", "option-privacy"),
        mu=mu_of(privacy_epsilon, privacy_delta),
        size=None if size is None else whole(size, "size", "option-size"),
        cells=None if cells is None else whole(cells, "cells", "option-cells", least=2, most=4096),
        mass_limit=0.0 if mass_limit is None else limit_of(mass_limit),
        seed=seed,
        embedding=embedding,
    )
    return Protocol(
        "sketch",
        plan.holders,
        Disclosure.SKETCH,
        plan.start,
        {
            "privacy_epsilon": plan.epsilon,
            "privacy_delta": plan.delta,
            "size": plan.size,
            "cells": plan.cells,
            "mass_limit": mass_limit,
            "seed": seed,
            "embedding": embedding,
        },
        expected_rounds=1 + plan.asks_count,
    )


def sketch(
    a: str,
    b: str | None = None,
    *,
    own: Answerer | None = None,
    public: Public | None = None,
    public_mean: npt.ArrayLike | None = None,
    public_scale: npt.ArrayLike | None = None,
    classes: Sequence[object] | None = None,
    privacy_epsilon: float = 1.0,
    privacy_delta: float = 1e-5,
    size: int | None = None,
    cells: int | None = None,
    mass_limit: float | None = None,
    p: int = 2,
    why: bool = False,
    seed: int = 0,
    embedding: Embedding = "none",
) -> Protocol[Distance]:
    """Distance of two holders from a differentially private sketch of each.

    To compare more than two, use ``sketches``: one release of each holder serves all pairs.

    Parameters
    ----------
    a, b
        Holders. With ``own`` the second side is the coordinator's own measure, without noise.
    p
        2: sketches tell no other order.
    why
        Tell what the distance between the cells' points is made of, as ``parts`` of the result:
        from the sketches, so nothing more is asked.
    own, public, public_mean, public_scale, classes, privacy_epsilon, privacy_delta, size, cells, \
mass_limit, seed, embedding
        As ``sketches``.

    Returns
    -------
    Protocol[Distance]
        ``value`` is an estimate, ``interval`` is to hold 95 % of true distances (its bias, noise
        and sampling as measured on pairs made of ``public``; ``None`` without 100 public records,
        or with labels that ``public`` has not), and there are no certified bounds: 0 and infinity.

    Raises
    ------
    InputError, ExtraError
        As ``sketches``; ``p`` other than 2.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(3000, 2))
    >>> fed = LocalFederation({"a": x[:1500], "b": x[1500:] + [3.0, 0.0]})
    >>> found = fed.run(sketch("a", "b", public=public, privacy_epsilon=4.0))
    >>> found.disclosure, 2.0 < found.value < 4.0
    ('sketch', True)
    """
    sides, explained = sides_of(a, b, own), flag(why, "why", "option-why")
    if p != 2:
        raise InputError(f"p is {p!r}; sketches tell W2 only. Give p=2.", code="option-p")
    inner = sketches(
        [side for side in sides if side != COORDINATOR],
        own=own,
        public=public,
        public_mean=public_mean,
        public_scale=public_scale,
        classes=classes,
        privacy_epsilon=privacy_epsilon,
        privacy_delta=privacy_delta,
        size=size,
        cells=cells,
        mass_limit=mass_limit,
        seed=seed,
        embedding=embedding,
    )

    def start() -> Steps[Distance]:
        found = yield from inner.start()
        return found.distance(*sides, why=explained)

    return Protocol(
        "sketch",
        inner.holders,
        inner.disclosure,
        start,
        inner.parameters,
        expected_rounds=inner.expected_rounds,
    )


def limit_of(mass_limit: float) -> float:
    """The largest weight of a record, checked."""
    if real(mass_limit, "mass_limit", "option-mass-limit") <= 0:
        raise InputError(
            f"mass_limit is {mass_limit!r}; the largest weight is needed.",
            code="option-mass-limit",
        )
    return float(mass_limit)
