"""What every computation over one holder's records is: a frozen class of options."""

from __future__ import annotations

from typing import Any

from ..federation.protocol import Protocol
from ..federation.question import Answerer
from ..options import Options
from .result import RecordScores


class Scoring(Options):
    """A computation over the records of one holder, compared with the coordinator's own."""

    def at(self, holder: str, own: Answerer) -> Protocol[RecordScores]:
        """The protocol with this holder, and the coordinator's ``own`` measure."""
        raise NotImplementedError

    @classmethod
    def build(cls, holder: str, *, own: Answerer, **options: Any) -> Protocol[RecordScores]:
        """The protocol of options by name: ``cls(**options).at(holder, own)``."""
        return cls(**options).at(holder, own)
