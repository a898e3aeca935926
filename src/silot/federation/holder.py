"""The party that owns a measure. Raw records are reached from this file only."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import threading
from collections import OrderedDict

import numpy.typing as npt

from ..errors import InputError
from ..measure import Embedding, Measure
from ..privacy.ledger import Ledger
from .answer import Answer, Array, Failure, decode_reply, encode_reply
from .charging import charged_reply, failure_of
from .combinations import Evaluation
from .divergences import AboutMany
from .hypotheses import AboutLabelled
from .labelled import ClassSizes
from .policy import Memory, Policy
from .protocol import COORDINATOR
from .question import Codes, Interpolate, Question, decode_question
from .release import Release

_CACHED_REPLIES = 16


class Holder:
    """A private measure that answers questions under a policy.

    Parameters
    ----------
    measure
        The holder's data.
    policy
        Its rules; the default ``Policy()`` refuses record-level questions.
    ledger
        The account that differentially private releases are charged to. Without one there are
        none. A ledger belongs to one data set: give all holders of the same records the same.
    evaluation
        Records with true labels, for questions that evaluate models; no other question sees
        them. Without them those questions fail.

    Examples
    --------
    >>> from silot.federation import Describe
    >>> Holder(Measure([[0.0, 1.0]] * 5)).answer(Describe()).scalars["dimension"]
    2
    """

    def __init__(
        self,
        measure: Measure | npt.ArrayLike,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        evaluation: Measure | None = None,
    ) -> None:
        self._measure = Measure.of(measure)
        self._evaluation = evaluation
        weights = self._measure.weights
        self._records = int((weights > 0).sum())
        self._share = float(weights.max()) if self._measure.weighted else 0.0
        self.policy = policy if policy is not None else Policy()
        self._ledger = ledger
        self._memory = Memory()
        self._replies: OrderedDict[bytes, bytes] = OrderedDict()
        self._embedded: dict[Embedding, tuple[Array, Array]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Holder(policy level {self.policy.level!r})"

    def reply(self, message: bytes, asker: str = COORDINATOR) -> bytes:
        """Answer a question given as bytes, as bytes. Never raises.

        A question that was allowed before, and still is, gets the same bytes again without
        computing anything; a release for ever, for its answer is in the ledger. Only what was
        charged (``charged_mu``) differs then.

        Parameters
        ----------
        message
            The question.
        asker
            Who asks, as the runtime knows it; for the ledger.
        """
        try:
            question = decode_question(message)
            if isinstance(question, Release):
                return self._release(question, asker)
            key = hashlib.sha256(message + self.policy.model_dump_json().encode()).digest()
            with self._lock:
                known = self._replies.get(key)
                if known is not None:
                    self._replies.move_to_end(key)
            if known is not None:
                # What was told before tells nothing new: rules about memory do not stop it.
                refused = self._refusal(question, Memory())
                return known if refused is None else encode_reply(refused)
            answer = self.answer(question)
            encoded = encode_reply(answer)
        except Exception as error:  # noqa: BLE001 - see failure_of
            return encode_reply(failure_of(error))
        if isinstance(answer, Answer):
            with self._lock:
                self._replies[key] = encoded
                while len(self._replies) > _CACHED_REPLIES:
                    self._replies.popitem(last=False)
        return encoded

    def _refusal(self, question: Question, memory: Memory) -> Failure | None:
        # How many records there are is for the noise of a release to hide, not for a rule to tell.
        records = sys.maxsize if isinstance(question, Release) else self._records
        if isinstance(question, Evaluation) and self._evaluation is not None:
            records = int((self._evaluation.weights > 0).sum())
        code = self.policy.refusal(question, records, memory, self._share)
        return None if code is None else Failure(code, "refused")

    def _arrays(self, embedding: Embedding) -> tuple[Array, Array]:
        # Label coordinates are the same in every round: computed once.
        with self._lock:
            if embedding not in self._embedded:
                self._embedded[embedding] = self._measure.arrays(embedding)
            return self._embedded[embedding]

    def answer(self, question: Question) -> Answer | Failure:
        """Answer a question, or say why not. Never raises."""
        try:
            if isinstance(question, Release):
                return decode_reply(self._release(question, COORDINATOR))
            refused = self._refusal(question, self._memory)
            if refused is not None:
                return refused
            answer = self._compute(question)
            with self._lock:
                # Once more, and noted at once: many may have been asked at the same time.
                refused = self._refusal(question, self._memory)
                if refused is not None:
                    return refused
                self._memory.note(question)
        except Exception as error:  # noqa: BLE001 - see failure_of
            return failure_of(error)
        return answer

    def _compute(self, question: Question) -> Answer:
        if isinstance(question, Interpolate) and self.policy.bare(question):
            question = dataclasses.replace(question, scalars=False)
        if isinstance(question, ClassSizes | AboutMany | AboutLabelled):
            least = max(question.least, self.policy.minimum_records)
            question = dataclasses.replace(question, least=least)
        if isinstance(question, Evaluation):
            if self._evaluation is None:
                raise InputError("there are no evaluation records.", code="evaluation-absent")
            return question.compute(*self._evaluation.arrays(), self._evaluation.names)
        return question.compute(*self._arrays(question.embedding), self._measure.names)

    def _release(self, release: Release, asker: str) -> bytes:
        """Answer with noise, once the budget is charged; an answer of before is free."""
        refused = self._refusal(release, Memory())
        if refused is not None:
            return encode_reply(refused)

        def exact() -> Codes:
            points, _ = self._measure.arrays()
            return release.exact(points, self._measure.masses, self._measure.names)

        def check() -> None:
            _check_embedding(release)
            release.check(self._measure.dimension, self._measure.labelled)

        return charged_reply(
            release, self._ledger, self.policy, check=check, exact=exact, asker=asker
        )


def _check_embedding(release: Release) -> None:
    if release.embedding != "none":
        raise InputError(
            "label vectors depend on all records: one record moves a release of them by more than "
            "its sensitivity. Ask about records.",
            code="release-embedding",
        )


class Own:
    """The coordinator's own measure: it answers the coordinator without any message.

    Parameters
    ----------
    measure
        Data of whoever runs the protocol.
    """

    def __init__(self, measure: Measure | npt.ArrayLike) -> None:
        self._measure = Measure.of(measure)

    def answer(self, question: Question) -> Answer | Failure:
        """Compute the answer; errors are raised, for they are the caller's own."""
        return question.compute(*self._measure.arrays(question.embedding), self._measure.names)
