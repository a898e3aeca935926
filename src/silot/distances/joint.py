"""What every computation over holders is: a frozen class of options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..federation.question import Answerer
from ..options import Options

R = TypeVar("R")


class Joint(Options, Generic[R]):
    """A computation over holders, with or without a measure of the coordinator's own."""

    disclosure: ClassVar[Disclosure] = Disclosure.RECORD

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[R]:
        """The protocol between these holders, and the coordinator's ``own`` measure."""
        raise NotImplementedError

    @classmethod
    def build(
        cls, holders: Sequence[str], *, own: Answerer | None = None, **options: Any
    ) -> Protocol[R]:
        """The protocol of options by name: ``cls(**options).among(holders, own)``."""
        return cls(**options).among(holders, own)


def quorum_of(quorum: int | None, names: Sequence[str], who: str = "holder") -> int:
    """Fewest that must answer; all by default."""
    if not names:
        raise InputError(f"no {who} is named; one or more are needed.", code="holder-names")
    if quorum is not None and quorum > len(names):
        raise InputError(f"quorum is {quorum!r} for {len(names)} {who}s.", code="option-quorum")
    return len(names) if quorum is None else quorum


def measure_of_own(own: Answerer | None, what: str) -> Answerer:
    """The coordinator's own measure, where a computation needs one."""
    if own is None:
        raise InputError(f"{what} compares with own=..., which is missing.", code="holder-names")
    return own
