"""Answers to questions that came in files, under a holder's own policy and ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..data.columns import check_schemas
from ..data.files import check_whole
from ..data.measure import Data, Measure
from ..data.schema import Schema
from ..errors import FileError, SilotError
from ..federation.answer import Answer, Failure, decode_reply
from ..federation.keys import Key, Keyring
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Question, decode_question
from ..federation.sealed import Sealed, file_stem, is_name, read_sealed, write_sealed
from ..privacy.ledger import Ledger
from ..render.words import level_in_words
from ._holders import measure_named

UNKNOWN = "unknown"
"""Name under which ledgers keep who asked, where no trusted key tells: all such are one."""


def answer(
    question: str | Path,
    data: Data,
    path: str | Path,
    *,
    policy: Policy | None = None,
    ledger: str | Path | None = None,
    schema: Schema | None = None,
    keys: str | Path | None = None,
    key: str | Path | None = None,
) -> Sealed:
    """Answer a question of a file, under the holder's own policy and ledger.

    A refusal is an answer too: it says which rule forbids the question, and nothing else.

    Parameters
    ----------
    question
        File with a question.
    data
        The holder's records.
    path
        File to write.
    policy, ledger
        The holder's rules and its account, as of ``Holder``. By default no records are told.
    schema
        The public contract, where ``data`` is no measure that was read by it.
    keys
        Folder with public keys of askers: the ledger keeps who asked by the name of the key; all
        others are ``"unknown"``.
    key
        The holder's ``NAME.key``; by default beside the ledger, or the answer, made when absent.

    Raises
    ------
    MismatchError
        ``schema-mismatch``: the question is about tables that were read in another way.
    FileError
        A file that is no question, or was changed; one that cannot be written.
    """
    asked = read_question(question, keys=keys, key=key)
    name = str(asked.facts["holder"])
    records = data if isinstance(data, Measure) or schema is None else schema.measure(data)  # pyright: ignore[reportArgumentType]
    measure = measure_named(name, records, None)
    contract = None if asked.schema is None else Schema.of(dict(asked.schema))
    check_schemas({"the question": contract, name: measure.schema})
    file = Path(path)
    check_whole(file)
    beside = Path(ledger) if ledger is not None else file
    place = beside.with_name(f"{file_stem(name)}.key") if key is None else Path(key)
    signer = Key.load(place) if place.exists() or key is not None else Key.new()
    if not place.exists():
        signer.save(place)
    account = None if ledger is None else Ledger(ledger)
    try:
        holder = Holder(measure, policy, account)
        reply = holder.reply(asked.question, asker_of(asked, keys))
    finally:
        if account is not None:
            account.close()
    sealed = Sealed(
        kind="answer",
        author=name,
        question=b"",
        reply=reply,
        # In the holder's own words: those of the question are the asker's.
        discloses=disclosed_by(decode_question(asked.question))
        if isinstance(decode_reply(reply), Answer)
        else "Nothing: refused.",
        schema=asked.schema,
        facts={"answers": asked.answers},
        run=asked.run,
        round=asked.round,
    )
    write_sealed(file, sealed, signer)
    return replace(sealed, signer=signer.public.signing, file=file.name)


def read_question(
    path: str | Path, *, keys: str | Path | None = None, key: str | Path | None = None
) -> Sealed:
    """A question of a file, its signature checked; ``keys`` must have its asker's where it is one.

    Raises
    ------
    FileError
        ``question-format``: it names no holder, or holds no question that silot knows.
    """
    own = Key.load(key) if key is not None and Path(key).exists() else None
    sealed = read_sealed(path, ["question"], key=own)
    if keys is not None and sealed.author in Keyring.load(keys).keys:
        Keyring.load(keys).check(sealed.author, sealed.signer, sealed.file)
    holder = sealed.facts.get("holder")
    if not isinstance(holder, str) or not is_name(holder) or not sealed.run:
        raise _odd(sealed.file, "it names no holder or no run")
    try:
        decode_question(sealed.question)
        if sealed.schema is not None:
            Schema.of(dict(sealed.schema))
    except SilotError as error:
        raise _odd(sealed.file, error.message) from None
    return sealed


def disclosed_by(question: Question) -> str:
    """What an answer discloses, as the question itself says, in plain words."""
    return f"An answer to {question.kind!r}. {level_in_words(str(question.level))}"


def request_in_words(asked: Sealed) -> str:
    """Who asks what in which exchange, and what an answer would disclose.

    The name, the computation and the exchange are the asker's own words; the rest follows from
    the question.
    """
    said = asked.facts.get("computation")
    named = f" of {said!r}" if isinstance(said, str) and is_name(said) else ""
    return (
        f"{asked.author!r} asks (key {asked.fingerprint}), in exchange {asked.round + 1}{named}, "
        f"as it says. {disclosed_by(decode_question(asked.question))}"
    )


def asker_of(asked: Sealed, keys: str | Path | None) -> str:
    """Name by which a ledger keeps who asked."""
    return (Keyring.load(keys).name_of(asked.signer) if keys is not None else "") or UNKNOWN


def refusal_in(sealed: Sealed) -> str:
    """The code of why an answer is none; empty for one that is."""
    reply = decode_reply(sealed.reply)
    return reply.code if isinstance(reply, Failure) else ""


def _odd(file: str, why: str) -> FileError:
    return FileError(
        f"{file} is signed, and no question that can be answered: {why.rstrip('.')}. Ask for it "
        "again, with the same silot.",
        code="question-format",
    )


__all__ = ["answer", "asker_of", "disclosed_by", "read_question", "refusal_in", "request_in_words"]
