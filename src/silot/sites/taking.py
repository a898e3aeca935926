"""A site's holder that takes part in secure distances, with members its own policy names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec

from ..data.measure import Measure
from ..distances.questions.distances import Describe
from ..errors import InputError, RefusedError
from ..federation.answer import CHARGED, Answer, Failure, encode_reply
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Question
from ..privacy.ledger import Ledger
from .seat import Seat
from .secure._engine import absent
from .secure._program import Program
from .secure.charging import Request, charge, refusal
from .secure.options import Role, SecureOptions
from .secure.party import computed
from .secure.peers import Links
from .secure.questions import SIZES, SecureDistance

# Who have records.
_PARTS: tuple[Role, ...] = ("a", "b")


class Taking(Holder):
    """A holder that computes with others too, one run at a time.

    A run is charged once parties agree, under the name of who asked. Asked again, while it lasts
    or after, it is answered by the same bytes; after a crash by those in the ledger, and where
    there are none, it was charged and is not begun again.

    Parameters
    ----------
    measure, policy, ledger, evaluation
        As of a ``Holder``.
    seat
        Who it is to the others.
    """

    def __init__(
        self, measure: Measure, policy: Policy, ledger: Ledger, evaluation: Measure | None,
        seat: Seat,
    ) -> None:  # fmt: skip
        super().__init__(measure, policy, ledger, evaluation)
        self._seat = seat
        # The last run that began, by its question's key, and its reply once there is one.
        self._last: tuple[str, Future[bytes]] = "", Future()
        self._last[1].set_result(b"")
        self._turn = threading.Lock()

    def _reply(self, question: Question, asker: str, run: str = "") -> bytes:
        if not isinstance(question, SecureDistance):
            return super()._reply(question, asker, run)
        barred = self._barred(question, asker, run)
        if barred:
            return barred
        try:
            part, links, options = self._checked(question, asker)
            if not question.go:
                return self._ready(question, options, asker)
        except RefusedError as error:
            return self._no(error.code, asker)
        return self._once(
            question.key, asker,
            lambda: self._computed(part, links, options, question, asker),
        )  # fmt: skip

    def _checked(self, question: SecureDistance, asker: str) -> tuple[Role, Links, SecureOptions]:
        """Whose part it is, with whom and how, if its own rules have them."""
        options, members, name = question.options, question.members, self._seat.name
        parts: list[Role] = [part for part in _PARTS if members.get(part) == name]
        distinct = len(set(members.values())) == len(members) == options.parties
        # Whoever asks is the third party, and no friend of theirs that the site does not know.
        if not parts or not distinct or members.get("third", asker) != asker:
            raise RefusedError("the parties are not those that may be.", code="secure-members")
        try:
            links = self._seat.links(members, question.session)
        except InputError as error:
            raise RefusedError(error.message, code=error.code) from None
        if find_spec("spu") is None:
            raise absent()
        return parts[0], links, options

    def _ready(self, question: SecureDistance, options: SecureOptions, asker: str) -> bytes:
        """That it would take part, and its sizes."""
        key, reply = self._last
        ledger, epsilon = self._account, options.privacy_epsilon
        if key == question.key or ledger.before(question.key) is not None:
            return self._no("secure-again", asker)
        if not reply.done():
            return encode_reply(Failure("secure-busy"))
        code = refusal(self.policy, ledger, epsilon, self, asker)
        if code:
            return self._no(code, asker)
        sizes = self._compute(Describe(embedding=question.embedding)).scalars
        return encode_reply(Answer(scalars={name: sizes[name] for name in SIZES}))

    def _once(self, key: str, asker: str, work: Callable[[], bytes]) -> bytes:
        """The reply of a run: of the one that began before, or of one that begins now."""
        with self._turn:
            last, reply = self._last
            begins = last != key
            if begins:
                if not reply.done():
                    return encode_reply(Failure("secure-busy"))
                stored = self._account.before(key)
                if stored is not None:
                    return stored or self._no("secure-again", asker)
                reply = Future[bytes]()
                self._last = key, reply
        if begins:
            said = encode_reply(Failure("holder-raised"))
            try:
                said = work()
            except RefusedError as error:
                said = self._no(error.code, asker)
            except Exception as error:  # noqa: BLE001 - see Failure.of
                said = encode_reply(Failure.of(error))
            finally:
                reply.set_result(said)
        return reply.result()

    def _computed(
        self, part: Role, links: Links, options: SecureOptions, question: SecureDistance, asker: str
    ) -> bytes:
        """Take part, and say what is public of it; who is told the number tells it on."""
        charged = 0.0

        def pay(session: str, program: Program) -> None:
            nonlocal charged
            if len(program.sizes) != len(_PARTS):
                raise RefusedError("who asked brought records too.", code="secure-members")
            request = Request(
                session=session, peers=dict(links.addresses), sizes=program.sizes,
                dimension=program.dimension, options={**options.public(), **question.members},
                asker=asker, epsilon=options.privacy_epsilon, question=question.key,
            )  # fmt: skip
            charged = charge(self.policy, self._account, request, self)

        done = computed(part, links, options, self._opened(question), pay)
        reply = encode_reply(Answer(scalars={CHARGED: charged, **done.facts}))
        if self.policy.tells_records:
            return reply
        ledger, noisy = self._account, options.privacy_epsilon is not None
        return (ledger.commit if noisy else ledger.tell)(question.key, reply)

    @property
    def _account(self) -> Ledger:
        assert self._ledger is not None
        return self._ledger

    def _no(self, code: str, asker: str) -> bytes:
        self._account.refuse(SecureDistance.kind, code, asker)
        return encode_reply(Failure(code, "refused"))


__all__ = ["Taking"]
