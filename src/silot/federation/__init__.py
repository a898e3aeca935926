"""Parties, what they are asked and answer, and the runtimes that carry it to them."""

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .answer import Answer, Failure
    from .disclosure import Disclosure
    from .local import LocalFederation
    from .party import Holder, Own
    from .policy import Policy
    from .protocol import Protocol
    from .question import Question
    from .result import Bill, Billed, Run
    from .run import Progress
    from .transcript import Entry, Transcript

__all__ = [
    "Answer",
    "Bill",
    "Billed",
    "Disclosure",
    "Entry",
    "Failure",
    "Holder",
    "LocalFederation",
    "Own",
    "Policy",
    "Progress",
    "Protocol",
    "Question",
    "Run",
    "Transcript",
]

lazily(__name__)
