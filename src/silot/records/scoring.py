"""What every computation over one holder's records is: a frozen class of options."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import ParamSpec

from ..federation.protocol import Protocol
from ..federation.question import Answerer
from ..options import Options
from .result import RecordScores

P = ParamSpec("P")


class Scoring(Options):
    """A computation over the records of one holder, compared with the coordinator's own."""

    def at(self, holder: str, own: Answerer) -> Protocol[RecordScores]:
        """Build the protocol with this holder and the coordinator's ``own`` measure."""
        raise NotImplementedError


class ScoringBuilder(typing.Protocol[P]):
    """What builds a protocol over the records of a holder from options by name."""

    def __call__(
        self, holder: str, own: Answerer, *args: P.args, **options: P.kwargs
    ) -> Protocol[RecordScores]:
        """Build the protocol: that of the class, ``at`` this holder."""
        ...


def build_scoring(kind: Callable[P, Scoring]) -> ScoringBuilder[P]:
    """Return what builds the protocol of a class from options by name."""

    def build(
        holder: str, own: Answerer, *args: P.args, **options: P.kwargs
    ) -> Protocol[RecordScores]:
        return kind(*args, **options).at(holder, own)

    return build
