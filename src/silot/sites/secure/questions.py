"""The question that starts a secure distance between sites: who takes part, with what options."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

from ...errors import InputError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.question import Array, Names, Question, encode_question, register
from .options import ROLES, Accuracy, Role, SecureOptions

SIZES = ("records", "dimension")
"""What a member discloses when it says that it will take part."""


@dataclass(frozen=True, kw_only=True)
class SecureDistance(Question):
    """Take part in a secure distance; what is charged is in ``silot.sites.secure.charging``."""

    kind: ClassVar[str] = "secure-distance"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    a: str
    """Name of the member that is this party."""
    b: str
    """Name of the member that is this party."""
    third: str
    """Name of the member that is this party; empty when there are two."""
    session: str
    """A name that no other run has."""
    # From here to the diameter: as in ``SecureOptions``, with 0 for none.
    scale: float
    protocol: str
    receiver: str
    accuracy: str
    privacy_epsilon: float = 0.0
    diameter: float = 0.0
    go: bool = False
    """Whether it begins now. Before that a member says whether it will take part, and its sizes."""

    @classmethod
    def of(cls, options: SecureOptions, members: Mapping[Role, str], session: str) -> Self:
        """Return the question of a run."""
        fields: dict[str, Any] = {"third": "", **options.public(), **members}
        # The protocol says it already.
        del fields["two_party"]
        fields = {name: value for name, value in fields.items() if value is not None}
        return cls(**fields, session=session)

    @property
    def options(self) -> SecureOptions:
        """The public options; a value that is not one of them is an ``InputError``."""
        return SecureOptions(
            scale=self.scale, protocol=self.protocol, receiver=self.receiver,
            accuracy=cast("Accuracy", self.accuracy), embedding=self.embedding,
            privacy_epsilon=self.privacy_epsilon or None, diameter=self.diameter or None,
        )  # fmt: skip

    @property
    def members(self) -> dict[Role, str]:
        """Names of the members by role."""
        return {role: str(getattr(self, role)) for role in ROLES if getattr(self, role)}

    @property
    def key(self) -> str:
        """SHA-256 of the run, the same before it begins and when it does: approvals hold for it."""
        return hashlib.sha256(encode_question(replace(self, go=False))).hexdigest()

    @property
    def lasts(self) -> bool:
        return self.go

    def check_fields(self) -> None:
        raise InputError(
            "this holder has no connection to other parties, because it is not a site of "
            "a project.",
            code="secure-addresses",
        )

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        self.check_fields()
        return super().compute(points, weights, labels)


register(SecureDistance)
