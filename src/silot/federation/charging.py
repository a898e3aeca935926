"""What every party does alike: failures without text, and answers that are accounted for first."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import SilotError
from ..privacy.ledger import BudgetError, Ledger, plain_name
from ..privacy.mechanism import noise_for
from .answer import BITS, Answer, Failure, encode_reply, with_charge
from .policy import Limits, Policy
from .question import Codes, Question, encode_question
from .release import Release


def failure_of(error: Exception) -> Failure:
    """Turn an exception into what may leave a party.

    This is the party's boundary: whatever went wrong, the text of the exception may quote
    records and stays here. Only our code and the type leave.
    """
    code = error.code if isinstance(error, SilotError) else "holder-raised"
    return Failure(code, "failed", type(error).__name__)


def charged_reply(
    release: Release,
    ledger: Ledger | None,
    policy: Policy,
    *,
    check: Callable[[], None],
    exact: Callable[[], Codes],
    asker: str,
) -> bytes:
    """Answer with noise, once the budget is charged; an answer of before is free.

    Parameters
    ----------
    release
        A question the policy allows.
    ledger, policy
        The account, and the budget.
    check
        Raises what can go wrong without looking at records: before the charge.
    exact
        The vector before noise.
    asker
        Who asks, for the ledger.
    """
    budget = policy.budget_mu
    if budget is None:
        return encode_reply(Failure("policy-budget", "refused"))
    if ledger is None:
        return encode_reply(Failure("ledger-absent", "refused"))
    key = key_of(release)
    stored = ledger.find(key)
    if stored is not None:
        return with_charge(stored, 0.0)
    check()
    sensitivity = release.sensitivity
    # Whatever can go wrong without the records goes wrong before the charge.
    add_noise = noise_for(sensitivity, release.privacy_mu)
    try:
        ledger.reserve(
            key,
            mu=release.privacy_mu,
            budget=budget,
            mechanism=release.mechanism or release.kind,
            parameters=_parameters(release, sensitivity),
            asker=asker,
        )
    except BudgetError as error:
        ledger.refuse(release.kind, error.code, asker)
        return encode_reply(_over_budget(error, policy.privacy_delta))
    fresh = encode_reply(release.answer_of(add_noise(exact())))
    kept = ledger.commit(key, fresh)
    return with_charge(kept, release.privacy_mu if kept == fresh else 0.0)


@dataclasses.dataclass(frozen=True)
class Counting:
    """What exact answers below level record are counted against.

    Attributes
    ----------
    ledger, policy
        The account, and the rules.
    limits
        Of the holder's data.
    version
        Of the holder's data.
    """

    ledger: Ledger | None
    policy: Policy
    limits: Limits
    version: str

    def reply(self, question: Question, asker: str, compute: Callable[[], Answer]) -> bytes:
        """Answer a question that the policy's ``refusal`` allows, once its numbers are counted.

        ``compute`` returns a rounded answer.

        Whatever becomes of the computation is stored and told again: that it failed may tell
        about the records too.
        """
        if self.ledger is None:
            return encode_reply(Failure("ledger-absent", "refused"))
        asker = plain_name(asker)
        # Whatever is wrong whoever the records are is said before anything is counted.
        question.check_fields()
        key = key_of(question)
        account = question.accounted(self.limits.dimension)
        numbers = question.numbers(self.limits.records, self.limits.dimension)
        counted = self.ledger.count(
            key,
            account=account,
            question=question.kind,
            numbers=numbers,
            bits=numbers * BITS,
            data=self.version,
            limits=self.limits.most,
            asker=asker,
            rule=lambda told: self.policy.over(question, self.limits, told, self.version, asker),
        )
        if counted.code:
            return encode_reply(Failure(counted.code, "refused"))
        if counted.reply is not None:
            return counted.reply
        try:
            reply = encode_reply(compute())
        except Exception as error:  # noqa: BLE001 - see failure_of
            reply = encode_reply(failure_of(error))
        return self.ledger.tell(key, reply)


class Replies:
    """The last replies of a party that tells everything, each noted in its ledger if it has one.

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

    def reply(
        self, question: Question, asker: str, ledger: Ledger | None, compute: Callable[[], Answer]
    ) -> bytes:
        """The reply given before, or a new one."""
        key = key_of(question)
        if ledger is not None:
            ledger.count(key, account="record", question=question.kind, numbers=0, asker=asker)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        reply = encode_reply(compute())
        with self._lock:
            self._kept[key] = reply
            held = sum(map(len, self._kept.values()))
            while len(self._kept) > self._most or held > self._size:
                held -= len(self._kept.popitem(last=False)[1])
        return reply


def key_of(question: Question) -> str:
    """SHA-256 of a question."""
    return hashlib.sha256(encode_question(question)).hexdigest()


def _parameters(release: Release, sensitivity: float) -> dict[str, Any]:
    """What is public about a release, arrays by their shape and digest."""
    parameters: dict[str, Any] = {"sensitivity": sensitivity}
    for item in dataclasses.fields(release):
        value = cast("object", getattr(release, item.name))
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(cast("npt.NDArray[Any]", value))
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            value = {"shape": list(array.shape), "sha256": digest}
        parameters[item.name] = value
    return parameters


def _over_budget(error: BudgetError, delta: float) -> Failure:
    """The refusal with what was spent, asked and left, as mu and as epsilon."""
    from ..privacy.accounting import epsilon_of

    numbers = {"delta": delta}
    for what, mu in (("spent", error.spent), ("asked", error.asked), ("left", error.left)):
        numbers[f"{what}_mu"] = mu
        numbers[f"{what}_epsilon"] = epsilon_of(mu, delta)
    return Failure(error.code, "refused", numbers=numbers)
