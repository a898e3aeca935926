"""The parties: what answers questions, under a policy and against a ledger.

A holder's records are in a ``PrivateMeasure``, which this file alone opens, once the policy allowed
the question. It names no concrete question: a question says what it needs and discloses.
"""

from __future__ import annotations

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, cast

from ..data.measure import Data, Embedding, Measure
from ..data.schema import Contract
from ..errors import InputError
from ..privacy.accounting import epsilon_of
from ..privacy.ledger import BudgetError, Ledger
from ..privacy.mechanism import noise_for
from ..privacy.people import PeopleWarning
from .answer import (
    WAITING,
    Answer,
    Array,
    Failure,
    decode_reply,
    encode_reply,
    with_charge,
)
from .disclosure import Disclosure
from .policy import Policy
from .protocol import COORDINATOR
from .question import Codes, Names, Question, Subject, decode_question
from .release import Release

_LOG = logging.getLogger(__name__)


class Party(ABC):
    """Base of whoever answers questions: what is allowed, remembered and charged, in order.

    What a subclass adds is what it has: ``_compute`` for exact answers, ``_check`` and ``_exact``
    for releases, and ``_answer_counted`` where exact numbers can be counted.

    Parameters
    ----------
    policy
        Its rules.
    ledger
        The account of what is disclosed.
    replies, size
        How many replies it keeps where everything may be disclosed, and how many bytes of them.
    """

    def __init__(self, policy: Policy, ledger: Ledger | None, *, replies: int, size: int) -> None:
        self.policy = policy
        self._ledger = ledger
        self._replies = Replies(replies, size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(policy level {self.policy.level!r})"

    @property
    def in_memory(self) -> bool:
        """Whether its ledger is in memory alone."""
        return self._ledger is not None and self._ledger.path is None

    def reply(self, message: bytes, asker: str = COORDINATOR, run: str = "") -> bytes:
        """Answer a question given as bytes, as bytes. Never raises.

        A question that was answered before, and is still allowed, gets the same bytes again: for
        ever where it was accounted for, since the answer is in the ledger. Only what was charged
        (``charged_mu``) differs then.

        Parameters
        ----------
        message
            The question.
        asker
            Asker, as the runtime knows it: answered, refused and counted under that name.
        run
            Of which run, if it has a name: asked again in that run, a release that was charged to
            it says so again.
        """
        try:
            return self._reply(decode_question(message), asker, run)
        except Exception as error:  # noqa: BLE001 - see Failure.of
            return encode_reply(Failure.of(error))

    def answer(self, question: Question, asker: str = COORDINATOR) -> Answer | Failure:
        """Answer a question, or say why not. Never raises."""
        try:
            return decode_reply(self._reply(question, asker))
        except Exception as error:  # noqa: BLE001 - see Failure.of
            return Failure.of(error)

    def _reply(self, question: Question, asker: str, run: str = "") -> bytes:
        barred = self._bar(question, asker, run)
        if barred:
            return barred
        if question.level == Disclosure.PRIVATE:
            return self._release(cast("Release", question), asker, run)
        if question.level == Disclosure.PUBLIC:
            return encode_reply(self._compute(question))
        return self._answer_exactly(question, asker)

    def _bar(self, question: Question, asker: str, run: str) -> bytes:
        """Return the reply that bars an answer, for now or for good; empty if nothing does."""
        code = self._refusal(question, asker)
        if code:
            if self._ledger is not None:
                self._ledger.refuse(question.kind, code, asker)
            return _encode_refusal(code)
        code = self._undecided(question, asker, run)
        kind = "refused" if code == "question-denied" else WAITING
        return encode_reply(Failure(code, kind)) if code else b""

    def _refusal(self, question: Question, asker: str) -> str:
        """Return the code of the rule that forbids a question, if one does."""
        return self.policy.refusal(question)

    def _undecided(self, question: Question, asker: str, run: str) -> str:
        """Return the code of what a person is still to decide, or decided against."""
        ledger = self._ledger
        if ledger is not None and ledger.paused:
            return "holder-paused"
        level = self.policy.decided_as(question)
        if level not in self.policy.ask or question.level == Disclosure.PUBLIC:
            return ""
        if ledger is None:
            return "ledger-absent"
        about = {"question": question.kind, "level": level, "asker": asker, "run": run}
        return _STATES[ledger.hold(question.key, **about)]

    def _answer_exactly(self, question: Question, asker: str) -> bytes:
        """Answer what the policy trusts askers with: a ledger notes that it was."""
        key = question.key
        if self._ledger is not None:
            level = str(question.level)
            self._ledger.note(key, level=level, question=question.kind, asker=asker)
        return self._replies.reply(key, lambda: encode_reply(self._compute(question)))

    def _release(self, release: Release, asker: str, run: str) -> bytes:
        """Answer with noise, once the budget is charged; an answer of before is free."""
        budget, ledger = self.policy.budget_mu, self._ledger
        if budget is None:
            return _encode_refusal("policy-budget")
        if ledger is None:
            return _encode_refusal("ledger-absent")
        key = release.key
        stored = ledger.find(key, asker)
        if stored is not None:
            return with_charge(stored, ledger.charge_in(key, run))
        # Whatever can go wrong without the records goes wrong before the charge.
        self._check(release)
        add_noise = noise_for(release.sensitivity, release.privacy_mu)
        try:
            ledger.reserve(
                key,
                mu=release.privacy_mu,
                budget=budget,
                mechanism=release.mechanism or release.kind,
                parameters=release.public(),
                asker=asker,
                run=run,
            )
        except BudgetError as error:
            ledger.refuse(release.kind, error.code, asker)
            return encode_reply(_over_budget(error, self.policy.privacy_delta))
        try:
            fresh = encode_reply(release.answer_of(add_noise(self._exact(release))))
            kept = ledger.commit(key, fresh)
        except Exception as error:  # noqa: BLE001 - which one it is may depend on records
            _LOG.error("a release failed after its charge: %s", type(error).__name__)
            # Asked again, it spends nothing, and leaves once: the ledger keeps reserve and answer.
            return encode_reply(Failure("release-failed"))
        mine = kept == fresh
        return with_charge(kept, release.privacy_mu if mine else ledger.charge_in(key, run))

    @abstractmethod
    def _compute(self, question: Question) -> Answer:
        """Compute the answer to a question that is allowed."""

    def _check(self, release: Release) -> None:
        """Raise what can go wrong without looking at records: before the charge."""
        if release.embedding != "none":
            raise InputError(
                "label vectors depend on all records, so one record changes their release by "
                "more than its sensitivity. Send a question about records instead.",
                code="release-embedding",
            )

    @abstractmethod
    def _exact(self, release: Release) -> Codes:
        """Compute the vector of a release before noise."""


class PrivateMeasure:
    """The records of one holder, closed: they have no points, weights or labels to look at.

    ``federation/party.py`` alone opens it, once a policy allowed a question; a test looks for other
    places.

    Parameters
    ----------
    measure
        The records.
    """

    __slots__ = ("__measure", "columns", "dimension", "labelled", "schema")

    def __init__(self, measure: Measure) -> None:
        self.__measure = measure
        self.columns = measure.columns
        self.dimension = measure.dimension
        self.labelled = measure.labelled
        self.schema = measure.schema

    def __repr__(self) -> str:
        return "PrivateMeasure(closed)"

    def open_for(self, purpose: Question | Literal["account"]) -> Measure:
        """Return the records, for a question that was allowed or for the owner's own account."""
        return self.__measure


class Holder(Party):
    """Party with a private measure that answers questions under a policy.

    Parameters
    ----------
    measure
        The holder's data. Askers see no names of columns: all holders of a run need theirs in
        one order.
    policy
        Its rules; the default ``Policy()`` answers with differentially private releases alone.
    ledger
        The account of everything that is disclosed: releases are charged to it before they leave,
        and who was answered or refused what is kept there. Without one no release is made, for a
        restart would forget it. A ledger belongs to one data set: give all holders of the same
        records the same. One on the disk whose records are in another one already joins its
        account, with a warning: a budget belongs to people, and not to a file.
    evaluation
        Records with true labels, for questions that evaluate models; no other question sees
        them. Without them those questions fail.

    Examples
    --------
    >>> from silot.distances.questions import Moments
    >>> rows = Measure([[k % 7, k % 5] for k in range(200)])
    >>> Holder(rows, Policy(), Ledger()).answer(Moments()).code
    'policy-level'
    """

    def __init__(
        self,
        measure: Data,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        evaluation: Measure | None = None,
    ) -> None:
        super().__init__(
            policy if policy is not None else Policy(), ledger, replies=16, size=1 << 18
        )
        self._records = PrivateMeasure(Measure.of(measure))
        if ledger is not None:
            self._register(ledger)
        self._evaluation = None if evaluation is None else PrivateMeasure(evaluation)
        self._embedded: dict[Embedding, tuple[Array, Array]] = {}
        self._lock = threading.Lock()

    def _register(self, ledger: Ledger) -> None:
        """Have the ledger join the account that these people have, and say so to their owner."""
        records = self._records.open_for("account")
        ledgers = ledger.register(records.points, records.columns)
        if ledgers:
            warnings.warn(
                f"{ledger.path} shares records with {', '.join(ledgers)}: from now on they share "
                "one account, and a release from one is charged to all. If the people are "
                f"different: `silot privacy ledger separate {ledger.path}`.",
                PeopleWarning,
                stacklevel=3,
            )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the features, for callers in this process; askers do not see them."""
        return self._records.columns

    @property
    def schema(self) -> Contract | None:
        """The schema by which its table was read, if there is one."""
        return self._records.schema

    def _opened(self, question: Question) -> Measure:
        """Return the records for a question that was allowed; subclasses compute from them."""
        return self._records.open_for(question)

    def _data(self, question: Question) -> tuple[Array, Array, Names | None]:
        """Return points, weights and labels of what a question is about."""
        if question.on == "records":
            records, embedding = self._opened(question), question.embedding
            # Label coordinates are the same in every round: computed once.
            with self._lock:
                if embedding not in self._embedded:
                    self._embedded[embedding] = records.arrays(embedding)
                return *self._embedded[embedding], records.names
        if question.on == "evaluation" and self._evaluation is not None:
            evaluation = self._evaluation.open_for(question)
            return *evaluation.arrays(), evaluation.names
        raise _absent(question.on)

    def _compute(self, question: Question) -> Answer:
        return question.compute(*self._data(question))

    def _check(self, release: Release) -> None:
        super()._check(release)
        if release.on != "records":
            raise _absent(release.on)
        release.check(self._records.dimension, self._records.labelled)

    def _exact(self, release: Release) -> Codes:
        records = self._records.open_for(release)
        return release.exact(records.points, records.masses, records.names)

    def _open(self, question: Question) -> Measure:
        """Return the records, for a computation with other parties that the policy allowed."""
        return self._records.open_for(question)


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
        """The data of the caller."""
        return self._measure

    def answer(self, question: Question) -> Answer | Failure:
        """Compute the answer; errors are raised, for they are the caller's own."""
        if question.on == "model":
            raise _absent(question.on)
        return question.compute(*self._measure.arrays(question.embedding), self._measure.names)


_STATES = {
    "approved": "",
    "denied": "question-denied",
    "waiting": "question-waits",
    "crowded": "question-crowd",
}


def _encode_refusal(code: str) -> bytes:
    return encode_reply(Failure(code, "refused"))


def _absent(subject: Subject) -> InputError:
    if subject == "model":
        return InputError("this party has records and no model.", code="teacher-absent")
    return InputError("there are no evaluation records.", code="evaluation-absent")


def _over_budget(error: BudgetError, delta: float) -> Failure:
    """Build the refusal with what was spent, requested and remains, as mu and as epsilon."""
    numbers = {"delta": delta}
    for what, mu in (("spent", error.spent), ("asked", error.requested), ("left", error.remaining)):
        numbers[f"{what}_mu"] = mu
        numbers[f"{what}_epsilon"] = epsilon_of(mu, delta)
    return Failure(error.code, "refused", numbers=numbers)


class Replies:
    """The last replies of a party that discloses everything.

    Parameters
    ----------
    most
        How many are kept.
    size
        Bytes of those that are kept together: a hundred parties of one process share its memory.
    """

    def __init__(self, most: int, size: int) -> None:
        self._most = most
        self._size = size
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def reply(self, key: str, compute: Callable[[], bytes]) -> bytes:
        """Return the earlier reply, or compute a new one."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        reply = compute()
        with self._lock:
            self._kept[key] = reply
            held = sum(map(len, self._kept.values()))
            while len(self._kept) > self._most or held > self._size:
                held -= len(self._kept.popitem(last=False)[1])
        return reply


__all__ = ["Holder", "Own", "Party"]
