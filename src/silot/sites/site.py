"""A site: a party that answers members of a project, in whatever process, over whatever wire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

from silot_transport._threads import one_blas_thread

from .. import __version__
from ..errors import MismatchError, SilotError, WireError
from ..federation.answer import CHARGED, Answer, Failure, decode_reply, encode_reply
from ..federation.message import VERSION, Buffer, pack, unpack
from ..federation.party import Party
from ..federation.question import decode_question
from ..federation.recorded import digest_of
from ..federation.sealed import Sealed
from .authority import Member, Role
from .credential import Credential, Identity, check_version

HELLO = "hello"
REFUSED = "refused"
OUTCOMES = ("answered", "refused", "waiting", "failed", "rejected")
"""What may become of a question; ``"rejected"`` before the party received it."""

Note = Callable[[Mapping[str, Any]], None]
"""Records what a site did: plain facts, never a text that may quote data."""


class Site:
    """A party of a project: it proves who it is, and verifies askers by their certificates.

    Parameters
    ----------
    party
        Who answers, under its own policy and ledger: what must be remembered is in the ledger, so
        a site may be killed and started again at any moment.
    identity
        The certificate and key of the site.
    fresh
        Returns the code of why nothing may be answered now, such as that the data file was changed
        since it was read; empty if all is well.
    note
        Records every question: who, which run, kind, level, key, bytes, mu, code, answer.
    facts
        Returns what askers may know without a question to the party, such as the hash of the
        schema.
    """

    def __init__(
        self,
        party: Party,
        identity: Identity,
        *,
        fresh: Callable[[], str] = lambda: "",
        note: Note = lambda _: None,
        facts: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._party, self._identity = party, identity
        self._fresh, self._note, self._facts = fresh, note, facts
        self._name = identity.member().name
        # One question at a time: computing an answer may hold a matrix of costs.
        self._computing = threading.Lock()
        # The last reply to each asker is kept until it asks something else, in case it was lost.
        self._last: dict[tuple[str, bool], tuple[tuple[str, int, str], bytes]] = {}
        self._noting = threading.Lock()
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        """How many questions of this process had which outcome."""

    @property
    def name(self) -> str:
        """The name in its certificate."""
        return self._name

    def handle(self, data: bytes) -> Buffer:
        """Answer a message with a message. Never raises; what is wrong is a code."""
        try:
            if is_hello(data):
                credential = self._identity.credential.pack()
                return pack({"silot": __version__, "credential": credential})
            sealed, credential, member = self._identity.read(data, ["question"])
            self._check(sealed, member)
            return self._answer(sealed, credential, member)
        except SilotError as error:
            refusal = {"refused": error.code}
        except Exception as error:  # noqa: BLE001 - its text may quote what arrived, or data
            refusal = {"refused": "site-raised", "error": type(error).__name__}
        self.outcomes["rejected"] += 1
        with suppress(SilotError):
            # A message that comes again is noted once.
            self._note({**refusal, "message": digest_of(data)})
        return make_refusal(refusal["refused"])

    def _check(self, sealed: Sealed, member: Member) -> None:
        if member.role is not Role.ASKER:
            raise MismatchError(
                f"{member.name!r} is not an asker of this project.", code="certificate-role"
            )
        # The name of the run is written to the ledger, for ever.
        is_plain = sealed.run.isascii() and sealed.run.isprintable() and 0 < len(sealed.run) <= 64
        if sealed.facts.get("holder") != self._name or not is_plain:
            raise MismatchError("the question is for another site.", code="question-site")

    def _answer(self, sealed: Sealed, credential: Credential, member: Member) -> Buffer:
        reply = b"" if not sealed.question else self._reply(sealed, member)
        facts: dict[str, Any] = {"answers": sealed.answers}
        if not sealed.question:
            clock = datetime.now(UTC).isoformat(timespec="milliseconds")
            facts |= {**self._facts(), "clock": clock, "silot": __version__, "wire": VERSION}
        answer = Sealed(
            kind="answer", author=self._name, question=b"", reply=reply, facts=facts,
            run=sealed.run, round=sealed.round,
        )  # fmt: skip
        return self._identity.write(answer, credential.key)

    def _reply(self, sealed: Sealed, member: Member) -> bytes:
        """Return the party's reply, and note it before it leaves.

        A question that is repeated while it is computed, or after, waits for the same reply.
        """
        question = (sealed.run, sealed.round, sealed.answers)
        # A question that waits for other parties keeps no processor, and must not block others.
        lasts = _is_lasting(sealed.question)
        slot = member.name, lasts
        with nullcontext() if lasts else self._computing:
            last = self._last.get(slot)
            is_repeated = last is not None and last[0] == question
            if last and is_repeated and not (self._fresh() or self._facts().get("paused")):
                return last[1]
            self._last.pop(slot, None)
            try:
                code = self._fresh()
                if code:
                    reply = encode_reply(Failure(code))
                else:
                    with nullcontext() if lasts else one_blas_thread():
                        reply = self._party.reply(sealed.question, member.name, sealed.run)
                outcome = decode_reply(reply, align=False)
                with self._noting:
                    # Several repetitions may have waited for one reply: it is noted once.
                    if self._last.get(slot) != (question, reply):
                        digest = digest_of(reply) if isinstance(outcome, Answer) else ""
                        self._note(_describe_exchange(sealed, member, outcome, len(reply), digest))
                    if isinstance(outcome, Answer):
                        self._last[slot] = question, reply
                self._count("answered" if isinstance(outcome, Answer) else outcome.kind)
            except Exception as error:  # noqa: BLE001 - see Failure.of
                self._count("failed")
                return encode_reply(Failure.of(error))
        return reply

    def _count(self, outcome: str) -> None:
        with self._noting:
            self.outcomes[outcome if outcome in OUTCOMES else "failed"] += 1


def make_hello() -> bytes:
    """Return a message that requests a site's credential, which is public."""
    return pack({"silot": __version__, HELLO: True})


def is_hello(data: bytes) -> bool:
    """Return whether a message requests nothing but the credential."""
    return len(data) < 100 and _unpack_fields(data).get(HELLO) is True


def read_credential(data: bytes) -> Credential:
    """Return the credential in the answer to ``make_hello``, not yet verified.

    Raises a ``MismatchError`` if the site refused or is of another silot, and a ``WireError`` if it
    is none.
    """
    parts = _unpack_fields(data)
    raise_refusal(data)
    check_version(str(parts.get("silot")))
    return Credential.unpack(parts.get("credential"))


def make_refusal(code: str) -> bytes:
    """Return a message that says why there is no answer, readable by anybody."""
    return pack({"silot": __version__, REFUSED: code})


def read_refusal(data: bytes) -> str:
    """Return the code in a refusal; empty in other messages."""
    parts = _unpack_fields(data) if len(data) < 300 else {}
    code = parts.get(REFUSED)
    return code[:60] if isinstance(code, str) else ""


def raise_refusal(data: bytes) -> None:
    """Raise a ``MismatchError`` with the code of a refusal, if the message is one."""
    code = read_refusal(data)
    if code:
        raise MismatchError(
            f"the site, or the server, refused the message ({code}). See `silot site check` "
            "there, and `silot project check` here.",
            code=code,
        )


def _unpack_fields(data: bytes) -> dict[str, Any]:
    try:
        body = unpack(data, flat=True)
    except WireError:
        return {}
    return {str(key): value for key, value in body.items()} if isinstance(body, dict) else {}


def _is_lasting(message: bytes) -> bool:
    try:
        return decode_question(message).lasts
    except SilotError:
        return False


def _describe_exchange(
    sealed: Sealed, member: Member, answer: Answer | Failure, size: int, digest: str
) -> dict[str, Any]:
    """Return the facts of a question and its answer that the ledger keeps."""
    facts: dict[str, Any] = {"asker": member.name, "run": sealed.run, "round": sealed.round}
    try:
        question = decode_question(sealed.question)
        facts |= {"question": question.kind, "level": str(question.level), "key": sealed.answers}
    except SilotError as error:
        facts |= {"question": "", "level": "", "error": error.code}
    if isinstance(answer, Answer):
        charge = answer.scalars.get(CHARGED)
        mu = charge if isinstance(charge, float) else 0.0
        return facts | {"bytes": size, "mu": mu, "answer": digest}
    return facts | {"bytes": 0, "mu": 0.0, "code": answer.code}
