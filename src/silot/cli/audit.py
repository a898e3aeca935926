"""``silot audit``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audits.run import audit
from ..errors import InputError
from ..federation.transcript import Transcript
from .console import OUT, progress_bar, show, write_report
from .generate import Flags, taking
from .options import (
    Columns,
    JsonOption,
    ReportOption,
    SeedOption,
)
from .policy import show_policy_audit


@dataclass(frozen=True, kw_only=True)
class Knowledge(Columns):
    """What who looks knows beside the messages."""

    truth: Annotated[
        list[str] | None,
        typer.Option(help="True records: FILE, named as the holder, or HOLDER=FILE. Repeatable."),
    ] = None
    outsiders: Annotated[
        Path | None,
        typer.Option(help="Records that were not in the data (labelled, for predictions)."),
    ] = None
    public: Annotated[
        Path | None,
        typer.Option(help="Labelled records of neither kind, to train shadow models on."),
    ] = None
    vocabulary: Annotated[
        Path | None, typer.Option(help="Word vectors: .npz with words and vectors.")
    ] = None
    image_shape: Annotated[
        str | None, typer.Option(help="Shape of a record as a picture, such as 28x28.")
    ] = None
    hide_t: Annotated[
        bool, typer.Option("--hide-t", help="Attack as if the parameter t had not been seen.")
    ] = False
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds after which attacks on a run are given up. Default: none are."),
    ] = None

    def read(self) -> dict[str, Any]:
        """As an audit takes them."""
        options: dict[str, Any] = {"hide_t": self.hide_t, "time_limit": self.time_limit}
        if self.outsiders is not None:
            options["outsiders"] = self.measure(self.outsiders)
        if self.public is not None:
            options["public"] = self.measure(self.public)
        if self.vocabulary is not None:
            options["vocabulary"] = load_vocabulary(self.vocabulary)
        files = named_files(self.truth or [])
        options["truth"] = {name: self.measure(path) for name, path in files.items()}
        if self.image_shape is not None:
            options["image_shape"] = shape_of(self.image_shape)
        return options


@dataclass(frozen=True, kw_only=True)
class Rules(Flags):
    """A holder's rules, in place of a run."""

    policy: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a run: a holder's rules, against which a malicious coordinator is "
            "played. Needs --data."
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(help="The holder's records, for --policy; without it the default rules."),
    ] = None
    questions: Annotated[
        int, typer.Option(min=1, help="Most questions of a strategy, for --policy.")
    ] = 100


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("audit")(taking()(audit_command))


def audit_command(
    messages: Annotated[
        Path | None,
        typer.Argument(metavar="[TRANSCRIPT]", help="Messages of a run, saved by --transcript."),
    ] = None,
    *,
    viewpoint: Annotated[
        str,
        typer.Option(
            "--as",
            help="Who looks: coordinator, a holder, several with commas between who put together "
            "what they saw, or eavesdropper (sizes and times only).",
        ),
    ] = "coordinator",
    knowledge: Knowledge,
    rules: Rules,
    report: ReportOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """What a party of a run could compute from its messages, or get under a holder's policy."""
    if (messages is None) == (rules.data is None):
        raise InputError(
            "give a transcript of a run, or --data (and --policy) of a holder.", code="audit-what"
        )
    if rules.data is not None:
        show_policy_audit(
            rules.policy, knowledge.measure(rules.data), questions=rules.questions, seed=seed,
            report=report, json=json,
        )  # fmt: skip
        return
    assert messages is not None
    if rules.policy is not None:
        raise InputError("--policy goes with --data, not with a run.", code="audit-what")
    transcript = Transcript.load(messages)
    options = knowledge.read()
    with progress_bar("audit") as bar:
        task = bar.add_task("attacks")
        result = audit(
            transcript,
            viewpoint,
            seed=seed,
            progress=lambda done, of: bar.update(task, completed=done, total=of, refresh=True),
            **options,
        )
    write_report(report, result)
    if json:
        OUT.print(result.to_json(), markup=False, highlight=False, soft_wrap=True)
    else:
        show(result)


def named_files(given: list[str]) -> dict[str, Path]:
    """Files by holder: ``HOLDER=FILE``, or a file whose name is the holder's."""
    found: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign:
            name, path = Path(text).name.split(".")[0], text
        if name in found:
            raise InputError(f"the truth of {name!r} is given twice.", code="audit-truth")
        found[name] = Path(path)
    return found


def shape_of(text: str) -> tuple[int, ...]:
    """A shape from ``28x28`` or ``32x32x3``."""
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(
            f"the image shape is {text!r}; give height x width, such as 28x28 or 32x32x3.",
            code="option-image-shape",
        )
    return tuple(int(part) for part in parts)


def load_vocabulary(path: Path) -> tuple[list[str], Any]:
    """Words and their vectors from an ``.npz``."""
    import numpy as np

    from ..errors import FileError

    try:
        with np.load(path, allow_pickle=False) as file:
            words, vectors = file["words"], file["vectors"]
            texts = str(words).split("\n") if words.ndim == 0 else [str(word) for word in words]
            return texts, np.asarray(vectors, dtype=np.float64)
    except (OSError, ValueError, KeyError) as error:
        raise FileError(
            f"{path.name} cannot be read as a vocabulary ({type(error).__name__}): an .npz with "
            "arrays 'words' and 'vectors' is needed.",
            code="file-unreadable",
        ) from None
