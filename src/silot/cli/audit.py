"""``silot privacy audit`` and ``silot privacy policy``."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Any, cast

from ..audits.policy import audit_policy
from ..audits.run import audit
from ..data.loading import load_vocabulary, read_shape
from ..errors import InputError
from ..federation import Policy
from ..federation.transcript import Transcript
from .console import OUT, counting, print_json, write_report
from .generate import Flags, argument, command, flag
from .options import Columns, JsonOption, Results, SeedOption, drop_none


class Knowledge(Columns):
    """What the attacker knows beside the messages."""

    truth: list[str] | None = flag(
        "True records: FILE, named as the holder, or HOLDER=FILE. Repeatable."
    )
    outsiders: Path | None = flag("Records that were not in the data (labelled, for predictions).")
    public: Path | None = flag("Further labelled records, to train shadow models on.")
    vocabulary: Path | None = flag("Word vectors: .npz with words and vectors.")
    image_shape: str | None = flag("Shape of a record as a picture, such as 28x28.")
    hide_t: bool = flag("Attack as if the parameter t were unknown.", default=False)
    time_limit: float | None = flag("Seconds after which attacks on a run stop. Default: no limit.")

    def read(self) -> dict[str, Any]:
        """Load the files, and return the options as ``audit`` takes them."""
        files = named_files(self.truth or [])
        return drop_none(
            hide_t=self.hide_t,
            outsiders=None if self.outsiders is None else self.files.measure(self.outsiders),
            public=None if self.public is None else self.files.measure(self.public),
            vocabulary=None if self.vocabulary is None else load_vocabulary(self.vocabulary),
            truth={name: self.files.measure(path) for name, path in files.items()},
            image_shape=None if self.image_shape is None else read_shape(self.image_shape),
            time_limit=self.time_limit,
        )


class Rules(Flags):
    """A holder's rules, in place of a run."""

    policy: Path | None = flag(
        "Instead of a run: a holder's policy. Measures what an asker learns about "
        "single people. Needs --data."
    )
    data: Path | None = flag("The holder's records. Without --policy, the default policy is used.")
    draws: int = flag("Number of trials on each side of a test, for --policy.", default=400, min=50)


@command()
def audit_command(
    messages: Path | None = argument(
        "Messages of a run, saved by --transcript.", default=None, metavar="[TRANSCRIPT]"
    ),
    *,
    viewpoint: str = flag(
        "Whose view to attack from: coordinator, a holder, several holders that "
        "collude (comma separated), or eavesdropper (sizes and times only).",
        "--as",
        default="coordinator",
    ),
    knowledge: Knowledge,
    rules: Rules,
    seed: SeedOption = 0,
    outputs: Results,
) -> None:
    """Attack a run's messages as one party, or measure what a policy lets askers learn."""
    if (messages is None) == (rules.data is None):
        raise InputError(
            "give a transcript of a run, or --data (and --policy) of a holder.", code="audit-what"
        )
    if rules.data is not None:
        policy, measure = _load_policy(rules.policy), knowledge.files.measure(rules.data)
        with counting("audit", "attacks") as progress:
            result = audit_policy(policy, measure, draws=rules.draws, seed=seed, progress=progress)
    else:
        if rules.policy is not None:
            raise InputError("--policy goes with --data, not with a run.", code="audit-what")
        transcript, options = Transcript.load(cast("Path", messages)), knowledge.read()
        with counting("audit", "attacks") as progress:
            result = audit(transcript, viewpoint, seed=seed, progress=progress, **options)
    write_report(outputs.report, result)
    outputs.print(result)


def named_files(texts: list[str]) -> dict[str, Path]:
    """Return files by holder, of ``HOLDER=FILE`` or of a file whose name is the holder's."""
    files: dict[str, Path] = {}
    for text in texts:
        name, sign, path = text.partition("=")
        if not sign:
            name, path = Path(text).name.split(".")[0], text
        if name in files:
            raise InputError(f"the truth of {name!r} is given twice.", code="audit-truth")
        files[name] = Path(path)
    return files


@command()
def policy_command(
    policy: Path | None = argument(
        "Policy, .yml or .json. Default: the default policy.", default=None
    ),
    *,
    json: JsonOption = False,
) -> None:
    """Say in plain sentences what askers could learn at most under a policy."""
    rules = _load_policy(policy)
    text = rules.explain()
    if json:
        body = {
            "policy": json_.loads(rules.model_dump_json()),
            "explanation": text.split("\n"),
        }
        print_json(body)
        return
    for line in text.split("\n"):
        OUT.print(f"- {line}", markup=False, highlight=False)


def _load_policy(path: Path | None) -> Policy:
    return Policy() if path is None else Policy.load(path)
