"""The party that owns a measure. Raw records are reached from this file only."""

from __future__ import annotations

import hashlib
import threading
from functools import cached_property

from ..errors import InputError
from ..measure import Data, Embedding, Measure
from ..privacy.ledger import Ledger
from .answer import Answer, Array, Failure, decode_reply, encode_reply, rounded
from .charging import Counting, Replies, charged_reply, failure_of
from .combinations import Evaluation
from .disclosure import Account
from .policy import Limits, Policy
from .protocol import COORDINATOR
from .question import Codes, Question, decode_question
from .release import Release

_KEPT_REPLIES = 16
_KEPT_BYTES = 1 << 18


class Holder:
    """A private measure that answers questions under a policy.

    Parameters
    ----------
    measure
        The holder's data. Askers see no names of columns: all holders of a run need theirs in
        one order.
    policy
        Its rules; the default ``Policy()`` refuses record-level questions.
    ledger
        The account of everything that is told: releases are charged to it and exact numbers are
        counted in it before they leave, and who was told or refused what is kept there. Without
        one, neither is told below level record, for a restart would forget it. A ledger belongs
        to one data set: give all holders of the same records the same.
    evaluation
        Records with true labels, for questions that evaluate models; no other question sees
        them. Without them those questions fail.

    Examples
    --------
    >>> from silot.federation import Spread
    >>> rows = Measure([[k % 7, k % 5] for k in range(200)])
    >>> Holder(rows, Policy(behind=5), Ledger()).answer(Spread()).arrays["mean"].tolist()
    [2.96, 2.0]
    """

    def __init__(
        self,
        measure: Data,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        evaluation: Measure | None = None,
    ) -> None:
        self._measure = Measure.of(measure)
        self._evaluation = evaluation
        self.policy = policy if policy is not None else Policy()
        self._ledger = ledger
        self._replies = Replies(_KEPT_REPLIES, _KEPT_BYTES)
        self._embedded: dict[Embedding, tuple[Array, Array]] = {}
        self._lock = threading.Lock()

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the features, for who runs it in this process; askers do not see them."""
        return self._measure.columns

    def __repr__(self) -> str:
        return f"Holder(policy level {self.policy.level!r})"

    def reply(self, message: bytes, asker: str = COORDINATOR) -> bytes:
        """Answer a question given as bytes, as bytes. Never raises.

        A question that was answered before, and is still allowed, gets the same bytes again: for
        ever where it was accounted for, since the answer is in the ledger. Only what was charged
        (``charged_mu``) differs then.

        Parameters
        ----------
        message
            The question.
        asker
            Who asks, as the runtime knows it: told, refused and counted under that name.
        """
        try:
            return self._reply(decode_question(message), asker)
        except Exception as error:  # noqa: BLE001 - see failure_of
            return encode_reply(failure_of(error))

    def answer(self, question: Question, asker: str = COORDINATOR) -> Answer | Failure:
        """Answer a question, or say why not. Never raises."""
        try:
            return decode_reply(self._reply(question, asker))
        except Exception as error:  # noqa: BLE001 - see failure_of
            return failure_of(error)

    def _reply(self, question: Question, asker: str) -> bytes:
        dimension = self._measure.dimension
        code = self.policy.refusal(question, dimension)
        if code:
            if self._ledger is not None:
                self._ledger.refuse(question.kind, code, asker)
            return encode_reply(Failure(code, "refused"))
        if isinstance(question, Release):
            return self._release(question, asker)
        if self.policy.tells_records:
            return self._replies.reply(
                question, asker, self._ledger, lambda: self._compute(question)
            )
        if question.accounted(dimension) is Account.FREE:
            return encode_reply(self._compute(question))
        coarse = question.coarser(self.policy.behind)
        counting = Counting(self._ledger, self.policy, self.limits, self.version)
        return counting.reply(coarse, asker, lambda: self._rounded(coarse))

    @cached_property
    def limits(self) -> Limits:
        """What rules need to know of the data; for the owner's eyes."""
        return Limits.of(*self._measure.arrays())

    @cached_property
    def version(self) -> str:
        """What the data are, for the ledger to see that they are still the same."""
        points, _ = self._measure.arrays()
        names = self._measure.names
        texts = [""] * len(points) if names is None else names.tolist()
        rows = (
            hashlib.sha256(point.tobytes() + mass.tobytes() + text.encode()).digest()
            for point, mass, text in zip(points, self._measure.masses, texts, strict=True)
        )
        # The same records in another order are the same data.
        return hashlib.sha256(b"".join(sorted(rows))).hexdigest()

    def _arrays(self, embedding: Embedding) -> tuple[Array, Array]:
        # Label coordinates are the same in every round: computed once.
        with self._lock:
            if embedding not in self._embedded:
                self._embedded[embedding] = self._measure.arrays(embedding)
            return self._embedded[embedding]

    def _compute(self, question: Question) -> Answer:
        if isinstance(question, Evaluation):
            if self._evaluation is None:
                raise InputError("there are no evaluation records.", code="evaluation-absent")
            return question.compute(*self._evaluation.arrays(), self._evaluation.names)
        return question.compute(*self._arrays(question.embedding), self._measure.names)

    def _rounded(self, question: Question) -> Answer:
        """The answer below level record."""
        points, weights = self._arrays(question.embedding)
        answer = question.compute(points, weights, self._measure.names)
        return rounded(answer, question.moves(points, weights, self._measure.names, answer))

    def _release(self, release: Release, asker: str) -> bytes:
        """Answer with noise, once the budget is charged; an answer of before is free."""

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

    def __init__(self, measure: Data) -> None:
        self._measure = Measure.of(measure)

    @property
    def measure(self) -> Measure:
        """The data, which are the caller's own."""
        return self._measure

    def answer(self, question: Question) -> Answer | Failure:
        """Compute the answer; errors are raised, for they are the caller's own."""
        return question.compute(*self._measure.arrays(question.embedding), self._measure.names)
