"""What starts a secure distance between sites: who takes part, under which public options."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ...errors import InputError
from ...federation.answer import Answer
from ...federation.disclosure import Account, Disclosure
from ...federation.question import Array, Names, Question, encode_question, register
from .options import ROLES, Role, SecureOptions

SIZES = ("records", "dimension")
"""What a member that will take part tells before."""


@dataclass(frozen=True, kw_only=True)
class SecureDistance(Question):
    """Take part in a secure distance; what is charged is in ``silot.sites.secure.charging``.

    Attributes
    ----------
    a, b, third
        Names of the members that are these parties; of two parties ``third`` is empty.
    session
        What no other run has.
    go
        Whether it begins now. Before that a member says whether it will take part, and tells its
        sizes.
    scale, protocol, receiver, accuracy
        As ``SecureOptions``.
    privacy_epsilon, diameter
        As well; 0 for none.
    """

    kind: ClassVar[str] = "secure-distance"
    level: ClassVar[Disclosure] = Disclosure.SCALAR
    account: ClassVar[Account] = Account.CHOSEN

    a: str
    b: str
    third: str
    session: str
    scale: float
    protocol: str
    receiver: str
    accuracy: str
    privacy_epsilon: float = 0.0
    diameter: float = 0.0
    go: bool = False

    @classmethod
    def of(cls, options: SecureOptions, members: Mapping[Role, str], session: str) -> Self:
        """The question of a run."""
        shared: dict[str, Any] = {**options.public(), **members}
        del shared["two_party"]
        given = {name: value for name, value in shared.items() if value is not None}
        return cls(**{"third": "", **given}, session=session)

    @property
    def options(self) -> SecureOptions:
        """The public options; what is none of them is an ``InputError``."""
        names = ("scale", "protocol", "receiver", "accuracy", "embedding")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        noise = {"privacy_epsilon": self.privacy_epsilon, "diameter": self.diameter}
        given |= {name: value or None for name, value in noise.items()}
        return SecureOptions(**given)

    @property
    def members(self) -> dict[Role, str]:
        """Names of the members by role."""
        return {role: str(getattr(self, role)) for role in ROLES if getattr(self, role)}

    @property
    def key(self) -> str:
        """SHA-256 of the run: what was approved is what begins."""
        return hashlib.sha256(encode_question(replace(self, go=False))).hexdigest()

    @property
    def lasts(self) -> bool:
        return self.go

    def check_fields(self) -> None:
        raise InputError(
            "this holder has no links to other parties: it is no site of a project.",
            code="secure-addresses",
        )

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self.check_fields()
        return super().compute(points, weights, labels)


register(SecureDistance)

__all__ = ["SIZES", "SecureDistance"]
