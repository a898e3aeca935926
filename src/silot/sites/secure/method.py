"""The secure distance as a method: its options, and what a user needs to choose it."""

from __future__ import annotations

from collections.abc import Sequence

from ...distances.methods import Pairwise
from ...distances.result import Distance
from ...distances.sides import name_sides
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.message import Scalar
from ...federation.protocol import COORDINATOR, Protocol, Steps
from ...federation.question import Answerer
from .distance import Simulation, no_questions
from .options import SecureFields, SecureOptions


class Secure(SecureFields, Pairwise):
    """Distance by secure multi-party computation on secret shares (see ``SecureOptions``).

    Returns
    -------
    Distance
        With bounds proven inside the computation. Its parties compute with one another:
        ``silot.distance(x, y, Secure(...))`` simulates them, ``silot distance secure`` and sites
        of a project link them.
    """

    name = "secure"
    disclosure = Disclosure.STATISTICS
    asks = False
    sends = "secret shares to three computing parties, one of which receives one number"
    needs = (
        "the extra silot[secure]; a public scale; the two holders and a third party that "
        "colludes with neither, or two_party for the holders alone (slower, about 100 records)"
    )
    guarantees = (
        "bounds proven inside the computation and revealed in steps, usually within 3 % of the "
        "square; the value usually within 0.5 % of W2 (fast: 2 %); or a lower bound, named as such"
    )
    privacy = (
        "towards parties that follow the protocol: only sizes, dimension, scale and "
        "the number are revealed; privacy_epsilon adds noise to the number too"
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
        others = name_sides(a, b, own)[1:]
        return self._protocol((a,), others, own)

    def among(self, holders: Sequence[str], own: Answerer) -> Protocol[Distance]:
        """Return the protocol between a union of holders and the coordinator's ``own`` measure."""
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
