"""``silot ask`` and ``silot answer``: runs whose messages are files."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api._methods import METHODS
from ..api.answering import answer, asker_of, read_question, refusal_in
from ..api.exchange import Asked, ask, resume
from ..errors import InputError
from ..federation.policy import Policy
from .console import save_transcript, say_where, show, show_rows, tell, write_report
from .generate import Flags, taking
from .options import JsonOption, LabelledTables, Outputs, Tables, check_outputs, given
from .release import KeyOption, KeysOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    asking = [kind for kind in METHODS.values() if kind.asks and kind.name != "sketch"]
    app.command("ask")(taking(asking, choose="direct")(ask_command))
    app.command("answer")(taking()(answer_command))


@dataclass(frozen=True, kw_only=True)
class Place(Flags):
    """The folder of a run."""

    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the run.")] = None
    continue_: Annotated[
        Path | None, typer.Option("--continue", help="Folder of a run that has begun.")
    ] = None
    asker: Annotated[str, typer.Option(help="What the asker is called.")] = "coordinator"
    keys: KeysOption = None


def ask_command(
    words: Annotated[
        list[str], typer.Argument(help="Names of two holders; with --continue their answers.")
    ],
    *,
    method: str,
    place: Place,
    tables: LabelledTables,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Write a run's questions to files; with answers, go on to the next or to the result."""
    check_outputs(outputs.report, outputs.transcript)
    if place.continue_ is not None:
        asked = resume(place.continue_, words, keys=place.keys)
    elif place.out is None:
        raise InputError(
            "a run needs a folder. Give --out for a new one, --continue for one that has begun.",
            code="option-out",
        )
    else:
        embedding = tables.covariance.value if tables.labels else "none"
        asked = ask(
            method, words, place.out, asker=place.asker, schema=tables.contract(),
            embedding=embedding, **options,
        )  # fmt: skip
    _tell(asked, outputs)


def _tell(asked: Asked, outputs: Outputs) -> None:
    if asked.result is None:
        files = {name: str(path) for name, path in asked.questions.items()}
        if outputs.json:
            typer.echo(json_.dumps({"round": asked.round, "questions": files}))
            return
        show_rows({f"send to {name}": file for name, file in files.items()})
        return
    save_transcript(asked.result, outputs.transcript)
    write_report(outputs.report, asked.result)
    if outputs.json:
        typer.echo(asked.result.to_json())
        return
    show(asked.result)
    say_where(report=outputs.report)


def answer_command(
    question: Annotated[Path, typer.Argument(help="A question, as it was sent.")],
    *,
    data: Annotated[
        Path, typer.Option(help="The holder's records: .npz, .csv, .csv.gz or .parquet.")
    ],
    tables: Tables,
    policy: Annotated[
        Path | None, typer.Option(help="The holder's rules. By default no records are told.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The holder's ledger.")] = None,
    keys: KeysOption = None,
    key: KeyOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write. Default: NAME.answer.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Answer a question under one's own policy and ledger; a refusal is an answer too."""
    asked = read_question(question, keys=keys, key=key)
    path = out or question.with_suffix(".answer")
    check_outputs(path, inputs=[question, data, policy, ledger, key])
    measure = next(iter(tables.load([data]).values()))
    if not json:
        tell(f"{asked.author!r} asks (key {asked.fingerprint}): {asked.discloses}")
    rules = None if policy is None else Policy.load(policy)
    made = answer(question, measure, path, policy=rules, **given(ledger=ledger, keys=keys, key=key))
    code, asker = refusal_in(made), asker_of(asked, keys)
    if json:
        body = {"file": str(path), "asker": asker, "question": asked.facts.get("kind"),
                "refused": code, "key": made.fingerprint}  # fmt: skip
        typer.echo(json_.dumps(body))
        return
    show_rows({
        "answer": f"{path}: refused ({code})" if code else str(path),
        "asked by": f"{asker}; {asked.author!r} by its own word",
        "disclosed": made.discloses,
        "key": made.fingerprint,
    })  # fmt: skip
