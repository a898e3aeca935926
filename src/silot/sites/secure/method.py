"""The secure distance as a method: its options, and what a user should know before choosing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from ...distances.pairwise import Pairwise
from ...distances.result import Distance
from ...distances.sides import sides_of
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.message import Scalar
from ...federation.protocol import COORDINATOR, Protocol, Steps
from ...federation.question import Answerer
from ...options import anything, none_or, number, option, truth, word
from .distance import Simulation, no_questions
from .options import Accuracy, SecureOptions


class Secure(Pairwise):
    """Distance by secure multi-party computation on secret shares (see ``SecureOptions``).

    Returns
    -------
    Distance
        With bounds proven inside the computation. Its parties compute with one another:
        ``silot.distance(x, y, Secure(...))`` simulates them, ``silot secure`` links them, and so
        do sites of a project that are asked for it.
    """

    name = "secure"
    disclosure = Disclosure.SCALAR
    asks = False
    sends = "secret shares to three computing parties, of which one learns one number"
    needs = (
        "the extra silot[secure]; a public scale; the two holders and a third party that "
        "colludes with neither, or two_party for the holders alone (slower, about 100 records)"
    )
    guarantees = (
        "bounds proven inside the computation and told in steps, usually within 3 % of the "
        "square; the value usually within 0.5 % of W2 (fast: 2 %); or a lower bound that says so"
    )
    privacy = (
        "towards parties that follow the protocol: sizes, dimension, scale and the number are "
        "all that is told; privacy_epsilon adds noise to the number too"
    )

    scale: float = option(
        "Public length that fits the data.",
        number(),
        default=1.0,
    )
    two_party: bool = option(
        "Compute without any third party. Slower, for about 100 records.",
        truth(),
        default=False,
    )
    protocol: str = option(
        "Kind of sharing; ``two_party`` chooses it.",
        anything("'aby3' or 'cheetah'"),
        default="",
        flag=False,
    )
    receiver: str = option(
        "Who is told the number. The coordinator by default.",
        anything("'a', 'b' or 'third'"),
        default="",
        flag=False,
    )
    privacy_epsilon: float | None = option(
        "Budget of the noise that is added to the number.",
        none_or(number()),
        default=None,
    )
    diameter: float | None = option(
        "With privacy_epsilon: public diameter of the ball that records are clipped to.",
        none_or(number()),
        default=None,
    )
    accuracy: Accuracy = option(
        "How close the value comes: fast is usually within 2 %, normal 0.5 %.",
        word(*get_args(Accuracy)),
        default="normal",
    )

    def fit(self) -> None:
        if self.p != 2:
            raise InputError(
                "method 'secure' computes W2: leave p out, or give 2.", code="option-p"
            )
        _ = self.public

    @property
    def public(self) -> SecureOptions:
        """The options that all parties must give alike."""
        shared = {k: v for k, v in self.values().items() if k not in ("p", "seed")}
        return SecureOptions(**shared)

    def parameters(self) -> dict[str, Scalar]:
        return dict(self.public.public())

    def between(
        self, a: str, b: str | None = None, own: Answerer | None = None
    ) -> Protocol[Distance]:
        others = sides_of(a, b, own)[1:]
        return self._protocol((a,), others, own)

    def among(self, holders: Sequence[str], own: Answerer) -> Protocol[Distance]:
        """The protocol between the union of holders and the coordinator's ``own`` measure."""
        return self._protocol(tuple(holders), (COORDINATOR,), own)

    def _protocol(
        self, first: tuple[str, ...], second: tuple[str, ...], own: Answerer | None
    ) -> Protocol[Distance]:
        return Protocol(
            self.name,
            tuple(name for name in (*first, *second) if name != COORDINATOR),
            self.disclosure,
            self._no_questions,
            self.parameters(),
            engine=Simulation(first, second, self.public, own),
        )

    def _no_questions(self) -> Steps[Distance]:
        raise no_questions()
