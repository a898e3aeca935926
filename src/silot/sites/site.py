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
from ..federation.message import pack, unpack
from ..federation.party import Party
from ..federation.question import decode_question
from ..federation.sealed import Sealed
from .authority import Member, Role
from .credential import Credential, Identity, check_version

HELLO = "hello"
REFUSED = "refused"

Note = Callable[[Mapping[str, Any]], None]
"""Keeps what a site did: plain facts, never a text that may quote data."""


class Site:
    """A party of a project: it proves who it is, and knows who asks by certificates.

    Parameters
    ----------
    party
        Who answers, under its own policy and ledger: what is remembered is in the ledger, so a
        site may be killed and started again at any moment.
    identity
        The certificate and key of the site.
    fresh
        The code of why nothing may be answered now, such as that the data file was changed since
        it was read; empty if all is well.
    note
        Told of every question: when, who, which run, kind, level, bytes, mu, code.
    facts
        What askers may know without asking the party, such as the hash of the schema, as it is
        now.
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
        # What is computed holds a cost matrix: one after the other.
        self._computing = threading.Lock()
        # The last reply to each asker, until it asks something else: it may have been lost.
        self._last: dict[tuple[str, bool], tuple[tuple[str, int, str], bytes]] = {}
        self._noting = threading.Lock()

    @property
    def name(self) -> str:
        """The name in its certificate."""
        return self._name

    def handle(self, data: bytes) -> bytes:
        """Answer a message with a message. Never raises; what is wrong is a code."""
        try:
            if is_hello(data):
                return hello_of(self._identity.credential)
            sealed, credential, member = self._identity.read(data, ["question"])
            self._check(sealed, member)
            return self._answered(sealed, credential, member)
        except SilotError as error:
            found = {"refused": error.code}
        except Exception as error:  # noqa: BLE001 - its text may quote what arrived, or data
            found = {"refused": "site-raised", "error": type(error).__name__}
        with suppress(SilotError):
            self._note(found)
        return refusal(found["refused"])

    def _check(self, sealed: Sealed, member: Member) -> None:
        if member.role is not Role.ASKER:
            raise MismatchError(
                f"{member.name!r} is no asker of this project.", code="certificate-role"
            )
        # It is kept for ever, line after line.
        named = sealed.run.isascii() and sealed.run.isprintable() and 0 < len(sealed.run) <= 64
        if sealed.facts.get("holder") != self._name or not named:
            raise MismatchError("the question is for another site.", code="question-site")

    def _answered(self, sealed: Sealed, credential: Credential, member: Member) -> bytes:
        reply = b"" if not sealed.question else self._reply(sealed, member)
        facts: dict[str, Any] = {"answers": sealed.answers}
        if not sealed.question:
            clock = datetime.now(UTC).isoformat(timespec="milliseconds")
            facts |= {**self._facts(), "clock": clock, "silot": __version__}
        answer = Sealed(
            kind="answer", author=self._name, question=b"", reply=reply, facts=facts,
            run=sealed.run, round=sealed.round,
        )  # fmt: skip
        return self._identity.write(answer, credential.key)

    def _reply(self, sealed: Sealed, member: Member) -> bytes:
        """The party's reply; what it was is noted before it leaves.

        Asked again while it is computed, or since, a question waits for the same reply.
        """
        asked = (sealed.run, sealed.round, sealed.answers)
        # What waits for other parties is computed by them too, and keeps nobody else waiting.
        lasts = _lasts(sealed.question)
        slot = member.name, lasts
        with nullcontext() if lasts else self._computing:
            before = self._last.get(slot)
            told = before is not None and before[0] == asked
            if before is not None and told and not (self._fresh() or self._facts().get("paused")):
                return before[1]
            self._last.pop(slot, None)
            try:
                code = self._fresh()
                if code:
                    reply = encode_reply(Failure(code))
                else:
                    with nullcontext() if lasts else one_blas_thread():
                        reply = self._party.reply(sealed.question, member.name, sealed.run)
                with self._noting:
                    # Of several that waited for one reply, one is enough.
                    if self._last.get(slot) != (asked, reply):
                        self._note(_noted(sealed, member, reply))
                    if isinstance(decode_reply(reply), Answer):
                        self._last[slot] = asked, reply
            except Exception as error:  # noqa: BLE001 - see Failure.of
                return encode_reply(Failure.of(error))
        return reply


def hello() -> bytes:
    """A message that asks a site for its credential, which is public."""
    return pack({"silot": __version__, HELLO: True})


def is_hello(data: bytes) -> bool:
    """Whether a message asks for the credential alone."""
    return len(data) < 100 and _parts(data).get(HELLO) is True


def hello_of(credential: Credential) -> bytes:
    """What answers ``hello``."""
    return pack({"silot": __version__, "credential": credential.body()})


def introduced(data: bytes) -> Credential:
    """The credential in the answer to ``hello``, as it was sent.

    Raises
    ------
    MismatchError
        The site refused, or is of another silot.
    WireError
        It is none.
    """
    parts = _parts(data)
    raise_refusal(data)
    check_version(str(parts.get("silot")))
    return Credential.read(parts.get("credential"))


def refusal(code: str) -> bytes:
    """A message that says why there is no answer to somebody who is not known."""
    return pack({"silot": __version__, REFUSED: code})


def refused(data: bytes) -> str:
    """The code in a refusal; empty in other messages."""
    parts = _parts(data) if len(data) < 300 else {}
    code = parts.get(REFUSED)
    return code[:60] if isinstance(code, str) else ""


def raise_refusal(data: bytes) -> None:
    """Raise what a refusal says.

    Raises
    ------
    MismatchError
        With the code of the refusal.
    """
    code = refused(data)
    if code:
        raise MismatchError(
            f"the site, or the server, refused the message ({code}). See `silot site check` "
            "there, and `silot deploy check` here.",
            code=code,
        )


def _parts(data: bytes) -> dict[str, Any]:
    try:
        body = unpack(data, flat=True)
    except WireError:
        return {}
    return {str(key): value for key, value in body.items()} if isinstance(body, dict) else {}


def _lasts(message: bytes) -> bool:
    try:
        return decode_question(message).lasts
    except SilotError:
        return False


def _noted(sealed: Sealed, member: Member, reply: bytes) -> dict[str, Any]:
    """What is kept of a question and its answer."""
    facts: dict[str, Any] = {"asker": member.name, "run": sealed.run, "round": sealed.round}
    try:
        question = decode_question(sealed.question)
        facts |= {"question": question.kind, "level": str(question.level)}
    except SilotError as error:
        facts |= {"question": "", "level": "", "error": error.code}
    found = decode_reply(reply)
    if isinstance(found, Answer):
        charge = found.scalars.get(CHARGED)
        return facts | {"bytes": len(reply), "mu": charge if isinstance(charge, float) else 0.0}
    return facts | {"bytes": 0, "mu": 0.0, "code": found.code}


__all__ = ["Note", "Site", "hello", "introduced", "refused"]
