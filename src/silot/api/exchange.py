"""Runs whose questions and answers are files: begun, and gone on with answer by answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ..data.documents import complaint, read_fields
from ..data.files import write_whole
from ..data.measure import Covariance
from ..data.schema import Schema
from ..distances.result import Distance, DistanceMatrix
from ..distances.worth.result import Barycenter, Contributions
from ..errors import FileError, InputError, MismatchError
from ..federation.keys import Key, Keyring
from ..federation.protocol import COORDINATOR
from ..federation.question import decode_question
from ..federation.recorded import Recorded, Records, Unanswered, Waiting, digest_of
from ..federation.sealed import Sealed, file_stem, is_name, read_sealed, write_sealed
from ..records.result import RecordScores
from ..teaching.federated.clustering import Clustering
from ._asking import COMPUTATIONS, OwnData, run_public
from .advice.result import Plan
from .answering import disclosed_by

_RUN, _KEY = "run.json", "asker.key"

Result = Distance | DistanceMatrix | Contributions | Barycenter | RecordScores | Clustering | Plan


class RunFile(BaseModel):
    """What an asker keeps of a run: enough to run it again from the start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    computation: str
    options: dict[str, Any]
    labels: bool
    covariance: Covariance
    holders: tuple[str, ...]
    asker: str
    own: OwnData | None = None
    schema_body: dict[str, Any] | None = None

    @property
    def schema_read(self) -> Schema | None:
        """The public contract that holders read their tables by."""
        return None if self.schema_body is None else Schema.of(self.schema_body)

    def result(self, replies: Records) -> Result:
        """What the public function gives on these replies; ``Unanswered`` where they end."""
        schema = self.schema_read
        own = None if self.own is None else self.own.measure(schema)
        labelled: dict[str, Any] = {"labels": self.labels, "covariance": self.covariance}
        found = run_public(self.computation, replies, own, labelled, self.options)
        return found if schema is None else _named(found, schema)


@dataclass(frozen=True)
class Asked:
    """Where a run of files stands.

    Attributes
    ----------
    result
        What the public function returns; ``None`` while it waits.
    questions
        The files that holders must answer next, by their names.
    round
        Which exchange they are of, from 1.
    """

    result: Any = None
    questions: Mapping[str, Path] = field(default_factory=dict[str, Path])
    round: int = 0


def ask(
    computation: str,
    holders: Sequence[str],
    folder: str | Path,
    *,
    own: OwnData | None = None,
    asker: str = "coordinator",
    schema: Schema | str | Path | None = None,
    labels: bool = False,
    **options: Any,
) -> Asked:
    """Begin a run: write the first question of each holder to a file.

    Parameters
    ----------
    computation
        ``"distance"``, ``"matrix"``, ``"pooled"``, ``"value"``, ``"barycenter"``, ``"cluster"``,
        ``"coreset"``, ``"plan"`` or ``"records"``: the public function that runs.
    holders
        Names of the holders, in its order.
    folder
        A new folder for the run: questions, answers that were accepted, and the asker's key.
    own
        The asker's own data: the buyer of ``pooled``, the validation data of ``value``, ``plan``
        and ``records``, the test data of ``coreset``.
    asker
        What the asker is called.
    schema
        The public contract that holders must read their tables by, or its file.
    labels, **options
        Of the function, such as ``method`` and ``covariance``; no arrays.

    Raises
    ------
    InputError
        A computation that no file carries (``option-computation``), a method that asks nothing
        (``option-method``), names that are none, own data that are absent or needed by nothing.
    FileError
        The folder has a run already (``file-exists``), or cannot be written.
    """
    _check(computation, holders, asker, own)
    covariance = options.pop("covariance", "diagonal")
    place = Path(folder)
    if (place / _RUN).exists():
        raise FileError(
            f"{place} has a run already. Go on with it (--continue), or give a new folder.",
            code="file-exists",
        )
    run, contract = os.urandom(16).hex(), Schema.coerce(schema)
    body = None if contract is None else contract.body()
    try:
        made = RunFile(
            run=run, computation=computation, options=options, labels=labels,
            covariance=covariance, holders=tuple(holders), asker=asker, own=own, schema_body=body,
        )  # fmt: skip
        text = json.dumps(made.model_dump(), indent=2, allow_nan=False)
    except (TypeError, ValueError):
        raise InputError(
            f"{computation!r} has options that no run file can hold (arrays, such as public "
            "records). Use `silot release` and `silot combine` for sketches.",
            code="option-method",
        ) from None
    # As it will be read again: a tuple comes back as a list.
    made = RunFile.model_validate_json(text)
    # Options that are wrong are said before anything is written.
    with suppress(Unanswered):
        made.result(Records([], made.holders))
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}). Give a folder for the run.",
            code="file-unwritable",
        ) from None
    Key.new().save(place / _KEY)
    write_whole(place / _RUN, text.encode(), private=True)
    return _advance(made, place, [])


def _check(computation: str, holders: Sequence[str], asker: str, own: OwnData | None) -> None:
    """Raise where a run cannot begin so."""
    kind = COMPUTATIONS.get(computation)
    if kind is None:
        raise InputError(
            f"{computation!r} is nothing that files can carry. Give {', '.join(COMPUTATIONS)}.",
            code="option-computation",
        )
    few = len(holders) < kind.least or (kind.most is not None and len(holders) > kind.most)
    names = {*holders, asker}
    if (
        few
        or len(set(holders)) != len(holders)
        or COORDINATOR in holders
        or not all(map(is_name, names))
    ):
        raise InputError(
            f"holders are {', '.join(map(repr, holders)) or 'none'}: {computation!r} needs "
            f"{kind.wanted}, all different and none of them {COORDINATOR!r}.",
            code="holder-names",
        )
    if own is None and kind.own == "needed":
        raise InputError(
            f"{computation!r} compares with data of the asker's own. Give {kind.flag} FILE.",
            code="validation-absent",
        )
    if own is not None and kind.own == "none":
        raise InputError(
            f"{computation!r} takes no data of the asker's own. Leave them out.",
            code="option-unknown",
        )


def _named(result: Result, schema: Schema) -> Result:
    """The result as of tables that a schema reads: it says what their columns are."""
    if isinstance(result, DistanceMatrix):
        pairs = {names: _named(each, schema) for names, each in result.pairs.items()}
        return replace(result, pairs=pairs)
    if isinstance(result, Clustering):
        return replace(result, matrix=_named(result.matrix, schema))
    named = result.named(schema.origins) if isinstance(result, Distance | Contributions) else result
    return named.with_preflight(None)


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
        a second, different one; ``key-mismatch``: by another key; ``holder-unknown``;
        ``run-changed``: the folder or the asker's own data changed since the run began.
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
    try:
        return Asked(made.result(Records(records, made.holders)))
    except Unanswered as unanswered:
        done = {(each.name, each.question) for each in records}
        files: dict[str, Path] = {}
        for each in unanswered.waiting:
            # A holder has one question at a time; one that several pairs have in common, once.
            if (each.name, digest_of(each.message)) not in done and each.name not in files:
                files[each.name] = _written(made, place, each)
        return Asked(None, files, unanswered.round + 1)


def _written(made: RunFile, place: Path, waiting: Waiting) -> Path:
    """The file of a question, written once."""
    name, message = waiting.name, waiting.message
    file = _question_file(place, waiting)
    if file.exists():
        if read_sealed(file, ["question"]).answers != digest_of(message):
            raise MismatchError(
                f"{file} asks {name!r} another question than the run comes to now: its folder, "
                "the asker's data or silot changed since. Begin anew in a new folder.",
                code="run-changed",
            )
        return file
    question = decode_question(message)
    sealed = Sealed(
        kind="question",
        author=made.asker,
        question=message,
        discloses=disclosed_by(question),
        schema=made.schema_body,
        facts={"holder": name, "computation": made.computation, "kind": question.kind},
        run=made.run,
        round=waiting.round,
    )
    write_sealed(file, sealed, Key.load(place / _KEY))
    return file


def _question_file(place: Path, waiting: Waiting) -> Path:
    """Where a question is, by its exchange, and by its run where there are several."""
    # A sign that no file's name has of its holder's.
    run = f"+pair{waiting.run + 1}" if waiting.run else ""
    round_ = f"+{waiting.round + 1}" if waiting.round else ""
    return place / f"{file_stem(waiting.name)}{run}{round_}.question"


def _question(place: Path, answer: Sealed) -> Path | None:
    """The file of the question that an answer is to, if there is one."""
    for file in sorted(place.glob("*.question")):
        asked = read_sealed(file, ["question"])
        key = (asked.facts.get("holder"), asked.round, asked.answers)
        if key == (answer.author, answer.round, answer.facts.get("answers")):
            return file
    return None


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
    question = _question(place, sealed)
    if question is None:
        raise MismatchError(
            f"{where} answers another question than {name!r} was asked in exchange "
            f"{sealed.round + 1}. Send it the question in {place} again.",
            code="answer-question",
        )
    file = f"{question.stem}.kept"
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


__all__ = ["Asked", "OwnData", "ask", "resume"]
