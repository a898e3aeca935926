"""Parties, questions and answers, and the runtimes that carry messages to them."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .answer import Answer, Failure
    from .disclosure import Disclosure
    from .keys import Key, Keyring, PublicKey
    from .local import LocalFederation
    from .party import Holder, Own
    from .policy import Policy
    from .protocol import Protocol
    from .question import Question
    from .recorded import Recorded, Records
    from .result import Cost, Run, RunResult
    from .run import Progress
    from .sealed import Sealed, read_sealed, write_sealed
    from .transcript import Entry, Transcript

__all__ = [
    "Answer",
    "Cost",
    "Disclosure",
    "Entry",
    "Failure",
    "Holder",
    "Key",
    "Keyring",
    "LocalFederation",
    "Own",
    "Policy",
    "Progress",
    "Protocol",
    "PublicKey",
    "Question",
    "Recorded",
    "Records",
    "Run",
    "RunResult",
    "Sealed",
    "Transcript",
    "read_sealed",
    "write_sealed",
]

lazily(__name__)
