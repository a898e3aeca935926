"""Runs whose questions and answers are files: begun, and gone on with answer by answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from ..data.documents import complaint, read_fields
from ..data.files import write_whole
from ..data.measure import Embedding
from ..data.schema import Schema
from ..distances.result import Distance
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import Key, Keyring
from ..federation.protocol import Protocol
from ..federation.question import Question, decode_question
from ..federation.recorded import Recorded, Records, Unanswered, digest_of
from ..federation.run import run
from ..federation.sealed import Sealed, is_name, read_sealed, write_sealed
from ..render.words import level_in_words
from ._methods import METHODS, method_named

_RUN, _KEY = "run.json", "asker.key"


class RunFile(BaseModel):
    """What an asker keeps of a run: enough to run it again from the start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    method: str
    options: dict[str, Any]
    embedding: Embedding
    holders: tuple[str, str]
    asker: str
    schema_body: dict[str, Any] | None = None

    @property
    def schema_read(self) -> Schema | None:
        """The public contract that holders read their tables by."""
        return None if self.schema_body is None else Schema.of(self.schema_body)

    def protocol(self) -> Protocol[Distance]:
        """The protocol, the same every time."""
        method = method_named(self.method)(**self.options, embedding=self.embedding)
        return method.between(*self.holders)


@dataclass(frozen=True)
class Asked:
    """Where a run of files stands.

    Attributes
    ----------
    result
        What it found; ``None`` while it waits.
    questions
        The files that holders must answer next, by their names.
    round
        Which exchange they are of, from 1.
    """

    result: Distance | None = None
    questions: Mapping[str, Path] = field(default_factory=dict[str, Path])
    round: int = 0


def ask(
    method: str,
    holders: Sequence[str],
    folder: str | Path,
    *,
    asker: str = "coordinator",
    schema: Schema | None = None,
    embedding: Embedding = "none",
    **options: Any,
) -> Asked:
    """Begin a run: write the first question of each holder to a file.

    Parameters
    ----------
    method
        A distance method whose holders answer questions: all but ``"secure"``.
    holders
        Names of the two holders.
    folder
        A new folder for the run: questions, answers that were accepted, and the asker's key.
    asker
        What the asker is called.
    schema
        The public contract that holders must read their tables by.
    embedding, **options
        Options of the method.

    Raises
    ------
    InputError
        A method that asks nothing (``option-method``), or names that are none.
    FileError
        The folder has a run already (``file-exists``), or cannot be written.
    """
    kind = method_named(method)
    if not kind.asks:
        raise InputError(
            f"{method!r} computes between parties that are connected, and asks nothing that a file "
            f"could carry. Give {', '.join(name for name in METHODS if METHODS[name].asks)}.",
            code="option-method",
        )
    if len(holders) != 2 or len(set(holders)) != 2 or not all(map(is_name, (*holders, asker))):
        raise InputError(
            f"holders are {', '.join(holders) or 'none'}: two different names are needed.",
            code="holder-names",
        )
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}). Give a folder for the run.",
            code="file-unwritable",
        ) from None
    if (place / _RUN).exists():
        raise FileError(
            f"{place} has a run already. Go on with it (--continue), or give a new folder.",
            code="file-exists",
        )
    made = RunFile(
        run=os.urandom(16).hex(), method=kind.name, options=options, embedding=embedding,
        holders=(holders[0], holders[1]), asker=asker,
        schema_body=None if schema is None else schema.body(),
    )  # fmt: skip
    made.protocol()
    try:
        text = json.dumps(made.model_dump(), indent=2, allow_nan=False)
    except (TypeError, ValueError):
        raise InputError(
            f"{method!r} has options that no run file can hold (arrays, such as public records). "
            "Use `silot release` and `silot combine` for sketches.",
            code="option-method",
        ) from None
    Key.new().save(place / _KEY)
    write_whole(place / _RUN, text.encode())
    return _advance(made, place, [])


def resume(
    folder: str | Path, answers: Sequence[str | Path] = (), *, keys: str | Path | None = None
) -> Asked:
    """Go on with a run: its result, or the next questions, or those that still wait.

    A protocol is run again from its start with all answers so far; each must be to a question of
    this run. Answers that were accepted are kept in the folder.

    Parameters
    ----------
    folder
        Of the run.
    answers
        Files that holders sent.
    keys
        Folder with public keys of the holders. Without, a holder must sign all its answers by the
        key of its first.

    Raises
    ------
    MismatchError
        ``answer-run``: of another run; ``answer-question``: to another question; ``answer-twice``:
        a second, different one; ``key-mismatch``: by another key; ``holder-unknown``.
    FileError
        No run there, or a file that is no answer, or was changed.
    """
    place = Path(folder)
    made = _load(place)
    ring = None if keys is None else Keyring.load(keys)
    kept = {file.name: read_sealed(file, ["answer"]) for file in sorted(place.glob("*.kept"))}
    for path in answers:
        sealed = read_sealed(path, ["answer"], key=Key.load(place / _KEY), keys=ring)
        name = _accepted(made, place, sealed, kept)
        if name not in kept:
            write_whole(place / name, Path(path).read_bytes(), private=True)
            kept[name] = sealed
    return _advance(made, place, list(kept.values()))


def _advance(made: RunFile, place: Path, answers: Sequence[Sealed]) -> Asked:
    """Run it as far as answers go, and write the questions that it comes to."""
    records = [Recorded(each.author, str(each.facts["answers"]), each.reply) for each in answers]
    protocol = made.protocol()
    try:
        result = run(protocol, Records(records, made.holders))
    except Unanswered as unanswered:
        done = {(each.author, each.facts["answers"]) for each in answers}
        files: dict[str, Path] = {}
        for name, message in unanswered.messages.items():
            if (name, digest_of(message)) not in done:
                files[name] = _written(made, place, name, message, unanswered.round)
        return Asked(None, files, unanswered.round + 1)
    schema = made.schema_read
    return Asked(result.named(None if schema is None else schema.origins))


def _written(made: RunFile, place: Path, name: str, message: bytes, round_: int) -> Path:
    """The file of a question, written once."""
    file = _question_file(place, name, round_)
    question = decode_question(message)
    sealed = Sealed(
        kind="question",
        author=made.asker,
        question=message,
        discloses=_disclosed(question),
        schema=made.schema_body,
        facts={"holder": name, "method": made.method, "kind": question.kind},
        run=made.run,
        round=round_,
    )
    if not file.exists():
        write_sealed(file, sealed, Key.load(place / _KEY))
    return file


def _question_file(place: Path, name: str, round_: int) -> Path:
    return place / f"{quote(name, safe='')}{f'-{round_ + 1}' if round_ else ''}.question"


def _accepted(made: RunFile, place: Path, sealed: Sealed, kept: Mapping[str, Sealed]) -> str:
    """Name under which an answer is kept, where it is one to a question of this run."""
    name, where = sealed.author, sealed.file
    if sealed.run != made.run:
        raise MismatchError(
            f"{where} is of another run. Give the answers to the questions of {place}.",
            code="answer-run",
        )
    if name not in made.holders:
        raise MismatchError(
            f"{where} is of {name!r}; holders of this run are {', '.join(made.holders)}.",
            code="holder-unknown",
        )
    own = [each for each in kept.values() if each.author == name]
    if any(each.signer != sealed.signer for each in own):
        raise MismatchError(
            f"{where} was signed by another key than the first answer of {name!r}. Ask there.",
            code="key-mismatch",
        )
    question = _question_file(place, name, sealed.round)
    asked = read_sealed(question, ["question"]).answers if question.exists() else ""
    if not asked or sealed.facts.get("answers") != asked:
        raise MismatchError(
            f"{where} answers another question than {name!r} was asked in exchange "
            f"{sealed.round + 1}. Send it the question in {place} again.",
            code="answer-question",
        )
    file = f"{quote(name, safe='')}-{sealed.round + 1}.kept"
    if file in kept and kept[file].reply != sealed.reply:
        raise MismatchError(
            f"{where} is a second answer of {name!r} to one question, and not the first one.",
            code="answer-twice",
        )
    return file


def _load(place: Path) -> RunFile:
    try:
        return RunFile.model_validate(read_fields(place / _RUN))
    except ValidationError as error:
        wrong = complaint(error, {})
        raise FileError(
            f"{place / _RUN} is no run of silot: {'.'.join(wrong.place)} cannot be. Begin anew.",
            code="run-format",
        ) from None


def _disclosed(question: Question) -> str:
    return f"An answer to {question.kind!r}. {level_in_words(str(question.level))}"


__all__ = ["Asked", "ask", "resume"]
