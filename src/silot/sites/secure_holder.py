"""A site's holder that takes part in secure distances, with members its own policy names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec

from ..data.measure import Measure
from ..distances.questions import Describe
from ..errors import InputError, RefusedError
from ..federation.answer import CHARGED, Answer, Failure, encode_reply
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Question
from ..privacy.ledger import Ledger
from .endpoint import Endpoint
from .secure._engine import missing_spu
from .secure._program import Program
from .secure.charging import Request, charge, find_refusal
from .secure.options import Role, SecureOptions
from .secure.party import compute_as_party
from .secure.peers import Links
from .secure.questions import SIZES, SecureDistance

# The parties that have records.
_DATA_ROLES: tuple[Role, ...] = ("a", "b")


class SecureHolder(Holder):
    """A holder that computes with others too, one run at a time.

    A run is charged once parties agree, under the name of who asked. A question that is repeated,
    while the run lasts or after, gets the same bytes; after a crash those in the ledger, and where
    there are none, the run was charged and is not begun again.

    Parameters
    ----------
    measure, policy, ledger, evaluation
        As of a ``Holder``.
    endpoint
        The holder as the others reach it.
    """

    def __init__(
        self, measure: Measure, policy: Policy, ledger: Ledger, evaluation: Measure | None,
        endpoint: Endpoint,
    ) -> None:  # fmt: skip
        super().__init__(measure, policy, ledger, evaluation)
        self._endpoint, self._account = endpoint, ledger
        # The last run that began, by its question's key, and its reply once there is one.
        self._last: tuple[str, Future[bytes]] = "", Future()
        self._last[1].set_result(b"")
        self._starting = threading.Lock()

    def _reply(self, question: Question, asker: str, run: str = "") -> bytes:
        if not isinstance(question, SecureDistance):
            return super()._reply(question, asker, run)
        barred = self._bar(question, asker, run)
        if barred:
            return barred
        try:
            role, links, options = self._check_members(question, asker)
            if not question.go:
                return self._announce(question, options, asker)
        except RefusedError as error:
            return self._refuse(error.code, asker)
        return self._reply_once(
            question.key, asker, lambda: self._compute_run(role, links, options, question, asker)
        )

    def _refusal(self, question: Question, asker: str) -> str:
        """Return the code of the rule that forbids a question; a run's level has rules of its own.

        ``find_refusal`` says whether its noise, or an exact number, is allowed.
        """
        if not isinstance(question, SecureDistance):
            return super()._refusal(question, asker)
        kinds = self.policy.questions
        return "" if kinds is None or question.kind in kinds else "policy-question"

    def _check_members(
        self, question: SecureDistance, asker: str
    ) -> tuple[Role, Links, SecureOptions]:
        """Return its own role, the links and the options of a run that its rules allow."""
        options, members, name = question.options, question.members, self._endpoint.name
        roles: list[Role] = [role for role in _DATA_ROLES if members.get(role) == name]
        are_distinct = len(set(members.values())) == len(members) == options.parties
        # Whoever asks must be the third party: another could be somebody the site does not trust.
        if not roles or not are_distinct or members.get("third", asker) != asker:
            raise RefusedError("the policy does not allow these parties.", code="secure-members")
        try:
            links = self._endpoint.links(members, question.session)
        except InputError as error:
            raise RefusedError(error.message, code=error.code) from None
        if find_spec("spu") is None:
            raise missing_spu()
        return roles[0], links, options

    def _announce(self, question: SecureDistance, options: SecureOptions, asker: str) -> bytes:
        """Reply that it would take part, and its sizes."""
        key, reply = self._last
        ledger, epsilon = self._account, options.privacy_epsilon
        if key == question.key or ledger.before(question.key) is not None:
            return self._refuse("secure-again", asker)
        if not reply.done():
            return encode_reply(Failure("secure-busy"))
        code = find_refusal(self.policy, ledger, epsilon, self, asker)
        if code:
            return self._refuse(code, asker)
        sizes = self._compute(Describe(embedding=question.embedding)).scalars
        return encode_reply(Answer(scalars={name: sizes[name] for name in SIZES}))

    def _reply_once(self, key: str, asker: str, work: Callable[[], bytes]) -> bytes:
        """Return the reply of a run: of the one that began before, or of one that begins now."""
        with self._starting:
            last, reply = self._last
            is_new = last != key
            if is_new:
                if not reply.done():
                    return encode_reply(Failure("secure-busy"))
                stored = self._account.before(key)
                if stored is not None:
                    return stored or self._refuse("secure-again", asker)
                reply = Future[bytes]()
                self._last = key, reply
        if is_new:
            outcome = encode_reply(Failure("holder-raised"))
            try:
                outcome = work()
            except RefusedError as error:
                outcome = self._refuse(error.code, asker)
            except Exception as error:  # noqa: BLE001 - see Failure.of
                outcome = encode_reply(Failure.of(error))
            finally:
                reply.set_result(outcome)
        return reply.result()

    def _compute_run(
        self, role: Role, links: Links, options: SecureOptions, question: SecureDistance, asker: str
    ) -> bytes:
        """Take part, and reply what is public of it; a receiver passes the number on."""
        charged = 0.0

        def pay(session: str, program: Program) -> None:
            nonlocal charged
            if len(program.sizes) != len(_DATA_ROLES):
                raise RefusedError("the asker sent records too.", code="secure-members")
            request = Request(
                session=session, peers=dict(links.addresses), sizes=program.sizes,
                dimension=program.dimension, options={**options.public(), **question.members},
                asker=asker, epsilon=options.privacy_epsilon, question=question.key,
            )  # fmt: skip
            charged = charge(self.policy, self._account, request, self)

        outcome = compute_as_party(role, links, options, self._opened(question), pay)
        reply = encode_reply(Answer(scalars={CHARGED: charged, **outcome.facts}))
        if self.policy.allows_records:
            return reply
        ledger, is_noisy = self._account, options.privacy_epsilon is not None
        return (ledger.commit if is_noisy else ledger.store_answer)(question.key, reply)

    def _refuse(self, code: str, asker: str) -> bytes:
        self._account.refuse(SecureDistance.kind, code, asker)
        return encode_reply(Failure(code, "refused"))
