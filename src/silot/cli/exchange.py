"""``silot ask`` and ``silot answer``: runs whose messages are files."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..api._methods import METHODS
from ..api.answering import answer, asker_of, read_question, refusal_in, request_in_words
from ..api.exchange import Asked, OwnData, ask, resume
from ..api.plan import Planning
from ..distances.pairwise import comparing
from ..distances.pooled import Pooled
from ..distances.worth.contributions import Valuation
from ..distances.worth.fedbary import FedBary
from ..errors import InputError
from ..federation.policy import Policy
from ..federation.protocol import cure_of
from ..records.gradients import RecordGradients
from ..teaching.federated.coreset import Condensing
from .barycenter import weights_of
from .cluster import Groups
from .console import check_outputs, save_transcript, say_where, show, show_rows, tell, write_report
from .generate import Flags, taking
from .options import JsonOption, LabelledTables, NamedTables, Outputs, Tables, given
from .records import FdrOption
from .release import KeyOption, KeysOption
from .valuation import LabelMetric, MapMethod


class Scoring(StrEnum):
    """How records are scored by files."""

    screening = "screening"
    published = "published"


class Asking(TyperGroup):
    """A group that asks for a distance where no computation is named, or goes on with a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put before the words what they leave out."""
        if any(word.partition("=")[0] == "--continue" for word in args):
            args = ["continue", *args]
        elif args and args[0] not in self.commands and args[0] != "--help":
            args = ["distance", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    kinds = [kind for kind in METHODS.values() if kind.asks and kind.name != "sketch"]
    worth = [name for name in comparing() if name != "sketch"]
    group = typer.Typer(cls=Asking, help=ask_command.__doc__, no_args_is_help=True)
    group.callback()(ask_command)
    for made in (
        taking(kinds, choose="direct")(distance_command),
        taking(kinds, choose="direct")(matrix_command),
        taking([Pooled])(pooled_command),
        taking([Valuation], choose="target", among=worth)(value_command),
        taking([FedBary])(barycenter_command),
        taking(kinds, choose="direct")(cluster_command),
        taking([Condensing])(coreset_command),
        taking([Planning])(plan_command),
        taking([RecordGradients])(records_command),
    ):
        group.command(made.__name__.removesuffix("_command"))(made)
    group.command("continue", hidden=True)(taking()(continue_command))
    app.add_typer(group, name="ask")
    app.command("answer")(taking()(answer_command))


def ask_command() -> None:
    """A run's questions as files: `ask distance A B`; `ask --continue RUN ANSWERS` goes on."""


NamesArgument = Annotated[list[str], typer.Argument(help="Names of the holders.")]
WeightsOption = Annotated[
    str | None, typer.Option(help="Weight of each holder, comma separated, in their order.")
]
ValidationHelp = "Data of the asker's own, which stay with it."


@dataclass(frozen=True, kw_only=True)
class Place(Flags):
    """The folder of a run that begins."""

    folder: Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the run.")] = (
        None
    )
    asker: Annotated[str, typer.Option(help="What the asker is called.")] = "coordinator"
    json: JsonOption = False

    def begin(
        self,
        computation: str,
        holders: list[str],
        tables: Tables,
        own: Path | None = None,
        **options: Any,
    ) -> None:
        """Write the first questions, and say where they are."""
        if self.folder is None:
            raise InputError(
                "a run needs a folder. Give --out for a new one, --continue for one that has "
                "begun.",
                code="option-out",
            )
        asked = ask(
            computation,
            holders,
            self.folder,
            own=None if own is None else _own(own, tables),
            asker=self.asker,
            schema=tables.contract(),
            labels=tables.labels,
            **options,
        )
        _say_questions(asked, self.json)


def _own(path: Path, tables: Tables) -> OwnData:
    """The asker's own file, and how the flags say that it is read."""
    if tables.schema is not None:
        sites = {
            name: file for name, _, file in (text.rpartition("=") for text in tables.site or ())
        }
        return OwnData.of(path, sites.get(path.name.split(".")[0], sites.get("")))
    return OwnData.of(
        path,
        label_column=tables.label_column,
        weight_column=tables.weight_column,
        id_column=tables.identifiers,
        columns=None if (chosen := tables.chosen(path)) is None else tuple(chosen),
    )


def distance_command(
    holders: Annotated[list[str], typer.Argument(help="Names of two holders.")],
    *,
    method: str,
    tables: LabelledTables,
    place: Place,
    **options: Any,
) -> None:
    """Distance between two holders."""
    options["covariance"] = tables.covariance.value
    place.begin("distance", holders, tables, method=method, **options)


def matrix_command(
    holders: NamesArgument, *, method: str, tables: LabelledTables, place: Place, **options: Any
) -> None:
    """Distances between all pairs of holders, asked together."""
    options["covariance"] = tables.covariance.value
    place.begin("matrix", holders, tables, method=method, **options)


def pooled_command(
    sellers: NamesArgument,
    *,
    buyer: Annotated[Path, typer.Option(help=ValidationHelp)],
    tables: LabelledTables,
    place: Place,
    **options: Any,
) -> None:
    """Distance between the union of sellers and the asker's own data."""
    options["covariance"] = tables.covariance.value
    place.begin("pooled", sellers, tables, buyer, **options)


def value_command(
    holders: NamesArgument,
    *,
    validation: Annotated[
        Path | None, typer.Option(help=f"{ValidationHelp} Default: the barycenter.")
    ] = None,
    method: str,
    tables: NamedTables,
    label_metric: Annotated[LabelMetric, typer.Option(help="How labels are compared.")] = (
        LabelMetric.classes
    ),
    map: Annotated[
        MapMethod | None,
        typer.Option("--map", help="direct: distances between holders too, which need records."),
    ] = None,
    place: Place,
    **options: Any,
) -> None:
    """What each holder's data are worth for the asker's own, or for the barycenter."""
    options |= given(map=None if map is None else map.value)
    place.begin(
        "value", holders, tables, validation, method=method, label_metric=label_metric.value,
        **options,
    )  # fmt: skip


def barycenter_command(
    holders: NamesArgument,
    *,
    weights: WeightsOption = None,
    tables: Tables,
    place: Place,
    **options: Any,
) -> None:
    """Barycenter of the holders, and how far each of them is from it."""
    options |= given(weights=weights_of(weights, holders))
    place.begin("barycenter", holders, tables, **options)


def cluster_command(
    holders: NamesArgument,
    *,
    method: str,
    groups: Groups,
    tables: LabelledTables,
    place: Place,
    **options: Any,
) -> None:
    """Groups of holders whose data are alike, if there are any."""
    options |= {"covariance": tables.covariance.value, **groups.read()}
    place.begin("cluster", holders, tables, method=method, **options)


def coreset_command(
    holders: NamesArgument,
    *,
    weights: WeightsOption = None,
    test: Annotated[
        Path | None,
        typer.Option(help="The asker's own labelled records, to test the classifier on."),
    ] = None,
    tables: Tables,
    place: Place,
    **options: Any,
) -> None:
    """A few points that stand for the holders' records."""
    options |= given(weights=weights_of(weights, holders))
    place.begin("coreset", holders, tables, test, **options)


def plan_command(
    holders: NamesArgument,
    *,
    validation: Annotated[Path, typer.Option(help=ValidationHelp)],
    tables: Tables,
    place: Place,
    **options: Any,
) -> None:
    """What would help most: whom to pool, part, leave out, what to drop or ask for."""
    place.begin("plan", holders, tables, validation, **options)


def records_command(
    holder: Annotated[str, typer.Argument(help="Name of the holder.")],
    *,
    validation: Annotated[Path, typer.Option(help=ValidationHelp)],
    method: Annotated[
        Scoring, typer.Option("--method", "-m", help="How records are scored.")
    ] = Scoring.screening,
    fdr: FdrOption = None,
    tables: NamedTables,
    place: Place,
    **options: Any,
) -> None:
    """How suspect each record of a holder is, compared with the asker's own data."""
    options |= given(fdr=fdr)
    place.begin("records", [holder], tables, validation, method=method.value, **options)


def continue_command(
    answers: Annotated[list[Path] | None, typer.Argument(help="What holders sent.")] = None,
    *,
    run: Annotated[Path, typer.Option("--continue", help="Folder of the run.")],
    keys: KeysOption = None,
    outputs: Outputs,
) -> None:
    """Go on with a run: to its result, or to the questions of the next exchange."""
    asked = resume(run, answers or [], keys=keys)
    if asked.result is None:
        _say_questions(asked, outputs.json)
        return
    if outputs.transcript is not None and getattr(asked.result, "transcript", None) is None:
        raise InputError(
            "--transcript keeps the messages of one run, and a matrix is a run for every pair. "
            "Leave it out.",
            code="option-transcript",
        )
    save_transcript(asked.result, outputs.transcript)
    write_report(outputs.report, asked.result)
    if outputs.json:
        typer.echo(asked.result.to_json())
        return
    show(asked.result)
    say_where(report=outputs.report)


def _say_questions(asked: Asked, json: bool) -> None:
    files = {name: str(path) for name, path in asked.questions.items()}
    if json:
        typer.echo(json_.dumps({"round": asked.round, "questions": files}))
        return
    show_rows({"exchange": str(asked.round), **{f"send to {n}": file for n, file in files.items()}})


def answer_command(
    question: Annotated[Path, typer.Argument(help="A question, as it was sent.")],
    *,
    data: Annotated[
        Path | None,
        typer.Option(help="The holder's records. Without, only what is asked is said."),
    ] = None,
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
    code, asker = "", asker_of(asked, keys)
    body = {"asker": asker, "question": asked.facts.get("kind"), "exchange": asked.round + 1,
            "says": request_in_words(asked)}  # fmt: skip
    if data is None:
        _say_request(body, json)
        return
    path = out or question.with_suffix(".answer")
    check_outputs(path, inputs=[question, data, policy, ledger, key])
    measure = next(iter(tables.load([data]).values()))
    if not json:
        tell(body["says"])
    rules = None if policy is None else Policy.load(policy)
    made = answer(question, measure, path, policy=rules, **given(ledger=ledger, keys=keys, key=key))
    code = refusal_in(made)
    if json:
        more = {"file": str(path), "refused": code, "key": made.fingerprint}
        typer.echo(json_.dumps(body | more))
        return
    show_rows({
        "answer": f"{path}: refused ({code}: {cure_of(code)})" if code else str(path),
        "asked by": asker,
        **({"disclosed": made.discloses} if code else {}),
        "key": made.fingerprint,
    })  # fmt: skip


def _say_request(body: Mapping[str, Any], json: bool) -> None:
    if json:
        typer.echo(json_.dumps(body))
        return
    tell(str(body["says"]))
    tell("Nothing was answered. Give --data FILE, and --policy and --ledger, to decide.")
