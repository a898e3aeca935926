"""The sketch: one differentially private release of every holder, and all that follows from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from ..data.measure import Embedding
from ..distances.pairwise import Pairwise
from ..distances.result import Distance
from ..distances.sides import check_covariance, check_seed, sides_of
from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps
from ..federation.question import Answerer
from ..options import anything, count, none_or, number, option, truth
from ..privacy.accounting import mu_of
from ..privacy.cells import Public
from ..transport._check import real, whole
from .asking import SketchPlan, class_names, public_box, public_classes, public_sample
from .result import Sketches


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


class Sketch(Pairwise):
    """Distance of two holders from a differentially private sketch of each.

    To compare more than two, use ``sketches``: one release of each holder serves all pairs.

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
    >>> found = fed.run(Sketch(public=public, privacy_epsilon=4.0).between("a", "b"))
    >>> found.disclosure, 2.0 < found.value < 4.0
    ('sketch', True)
    """

    name = "sketch"
    disclosure = Disclosure.SKETCH
    sends = "noisy counts of records in public cells, their clipped mean offset and scatter"
    needs = (
        "public records or a public mean and scale; 200 records at least at privacy_epsilon 1, "
        "2000 for good; one or two rounds; the extra named privacy"
    )
    guarantees = "an estimate, with public= and an interval of its error; no certified bound"
    privacy = (
        "(privacy_epsilon, privacy_delta)-differential privacy of each record, charged to the "
        "holder's ledger"
    )

    public: Public | None = option(
        "Public records, as for ``sketches``.",
        anything("records (m, d), or None"),
        default=None,
    )
    public_mean: npt.ArrayLike | None = option(
        "Public mean of every feature.",
        anything("numbers, or None"),
        default=None,
    )
    public_scale: npt.ArrayLike | None = option(
        "Public standard deviation of every feature.",
        anything("numbers, or None"),
        default=None,
    )
    classes: Sequence[object] | None = option(
        "Public class names, else those of ``public``.",
        anything("names, or None"),
        default=None,
    )
    privacy_epsilon: float = option(
        "Privacy budget of each holder.",
        number(),
        default=1.0,
        code="option-privacy",
    )
    privacy_delta: float = option(
        "Chance that the privacy budget is exceeded.",
        number(),
        default=1e-5,
        code="option-privacy",
    )
    size: int | None = option(
        "Records of the smallest holder, where that is public. Otherwise 2 % of the budget ask.",
        none_or(count()),
        default=None,
    )
    cells: int | None = option(
        "Cells that records are counted in. At most a third of the public records.",
        none_or(count(2, 4096)),
        default=None,
    )
    mass_limit: float | None = option(
        "Of weighted records: the largest weight, public.",
        none_or(number(above=0)),
        default=None,
    )
    why: bool = option(
        "What distances are made of, by column and class. From the sketches, so nothing more is "
        "asked.",
        truth(),
        default=False,
    )

    def fit(self) -> None:
        if self.p != 2:
            raise InputError(f"p is {self.p!r}; sketches tell W2 only. Give p=2.", code="option-p")

    def between(
        self, a: str, b: str | None = None, own: Answerer | None = None
    ) -> Protocol[Distance]:
        sides = sides_of(a, b, own)
        options = {name: value for name, value in self.values().items() if name not in ("p", "why")}
        inner = sketches([side for side in sides if side != COORDINATOR], own=own, **options)

        def start() -> Steps[Distance]:
            released = yield from inner.start()
            return released.distance(*sides, why=self.why)

        return Protocol(
            self.name,
            inner.holders,
            inner.disclosure,
            start,
            inner.parameters,
            expected_rounds=inner.expected_rounds,
        )


sketch = Sketch.build


def limit_of(mass_limit: float) -> float:
    """The largest weight of a record, checked."""
    if real(mass_limit, "mass_limit", "option-mass-limit") <= 0:
        raise InputError(
            f"mass_limit is {mass_limit!r}; the largest weight is needed.",
            code="option-mass-limit",
        )
    return float(mass_limit)
