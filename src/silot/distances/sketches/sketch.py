"""The sketch: one differentially private release of every holder, and all that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from ...data.measure import Embedding
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.protocol import COORDINATOR, Protocol, Steps
from ...federation.question import Answerer
from ...options import anything, none_or, option, truth, word
from ..joint import Joint
from ..pairwise import Pairwise
from ..result import Distance
from ..sides import sides_of
from .asking import SketchPlan, class_names, public_box, public_classes
from .questions import is_period
from .releasing import Releasing
from .result import Sketches


class Sketching(Releasing, Joint[Sketches]):
    r"""One differentially private sketch of every holder.

    Each holder counts its records in public cells, adds up how far they lie from the cells'
    centres, clipped, and how much they scatter, and adds discrete Gaussian noise to each number.
    Adding or removing one record changes what can happen by no more than (``privacy_epsilon``,
    ``privacy_delta``) allow. What is computed from the sketches afterwards costs nothing more.

    The noise has no seed, on purpose: noise that somebody can draw again is none. Two runs with
    new ledgers differ; ``seed`` makes the public parts alone.

    ``own`` is an ``Own(measure)`` with data of the coordinator, to value holders by; no noise is
    added to it.

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
    >>> public, x = rng.normal(size=(150, 2)), rng.normal(size=(3000, 2))
    >>> fed = LocalFederation({"a": x[:1500], "b": x[1500:] + [3.0, 0.0]})
    >>> found = fed.run(Sketching(public=public, privacy_epsilon=4.0).among(["a", "b"]))
    >>> 2.0 < found.distance("a", "b").value < 4.0
    True
    """

    name = "sketch"
    disclosure = Disclosure.SKETCH

    labels: bool = option(
        "Sketch class by class, and compare OTDD vectors.",
        truth(),
        default=False,
        flag=False,
    )
    embedding: Embedding = option(
        "Label coordinates that distances compare, of the sketched classes.",
        word(*get_args(Embedding)),
        default="none",
        flag=False,
    )

    period: str | Mapping[str, str] | None = option(
        'Public name of the time that records are of, such as ``"2026-10"``; or one for each '
        "holder. Without one, a holder that was asked before gives the answer of then.",
        none_or(anything("a text, or texts by holder")),
        default=None,
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        named = [self.period] if isinstance(self.period, str) else (self.period or {}).values()
        if not all(map(is_period, named)):
            raise InputError(
                "a period is no short text. Give a name such as '2026-10', of 64 signs at most.",
                code="option-period",
            )

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Sketches]:
        mean, scale = self.public_mean, self.public_scale
        embedding = "diagonal" if self.labels and self.embedding == "none" else self.embedding
        labelled, boxed = embedding != "none", embedding == "none" and self.cells is None
        plan = SketchPlan(
            holders=tuple(holders),
            own=own,
            sample=self.sample,
            drawn=self.public is None,
            box=public_box(self.public, mean, scale) if boxed else None,
            classes=public_classes(self.public, self.classes) if labelled else (),
            prior_codes=class_names(self.public) if labelled else None,
            options=self,
            seed=self.seed,
            embedding=embedding,
            periods=self._periods(holders),
        )
        return Protocol(
            self.name,
            plan.holders,
            self.disclosure,
            plan.start,
            {
                **self.values(
                    "privacy_epsilon", "privacy_delta", "size", "cells", "mass_limit", "seed"
                ),
                "embedding": embedding,
            },
            expected_rounds=1 + plan.asks_count,
        )

    def _periods(self, holders: Sequence[str]) -> Mapping[str, str]:
        if self.period is None:
            return {}
        return dict.fromkeys(holders, self.period) if isinstance(self.period, str) else self.period


sketches = Sketching.build


class Sketch(Releasing, Pairwise):
    """Distance of two holders from a differentially private sketch of each.

    To compare more than two, use ``Sketching``: one release of each holder serves all pairs.

    Returns
    -------
    Protocol[Distance]
        ``value`` is an estimate, ``interval`` is to hold 95 % of true distances (its bias, noise
        and sampling as measured on pairs made of ``public``; ``None`` without 100 public records,
        or with labels that ``public`` has not), and there are no certified bounds: 0 and infinity.

    Raises
    ------
    InputError, ExtraError
        As ``Sketching``; ``p`` other than 2.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(150, 2)), rng.normal(size=(3000, 2))
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

    why: bool = option(
        "What distances are made of, by column and class. From the sketches, so nothing more is "
        "asked.",
        truth(),
        default=False,
    )

    def fit(self) -> None:
        if self.p != 2:
            raise InputError(f"p is {self.p!r}; sketches tell W2 only. Give p=2.", code="option-p")
        super().fit()

    def release(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Sketches]:
        return Sketching(**self.values(*Releasing.options, "embedding")).among(holders, own)

    def between(
        self, a: str, b: str | None = None, own: Answerer | None = None
    ) -> Protocol[Distance]:
        sides = sides_of(a, b, own)
        release = self.release([side for side in sides if side != COORDINATOR], own)

        def start() -> Steps[Distance]:
            released = yield from release.start()
            return released.distance(*sides, why=self.why)

        return Protocol(
            self.name,
            release.holders,
            self.disclosure,
            start,
            release.parameters,
            expected_rounds=release.expected_rounds,
        )


sketch = Sketch.build
