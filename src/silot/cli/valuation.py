"""``silot value``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ..api.value import MapMethod, value_holders
from ..distances.methods import list_comparisons
from ..distances.sketches.release_options import Private
from ..errors import InputError
from ..records.result import Contents, RecordScores
from ..records.worth import Worth
from ..render.words import format_bytes
from ..sites.secure.options import Accuracy
from .console import OUT, print_json, say_where, show, steps
from .generate import Flags, command, flag
from .options import HoldersArgument, NamedTables, Outputs, Spending, drop_none
from .records import (
    Listing,
    RecordOutputs,
    fit_models,
    load_pictures,
    read_identifiers,
    score_holders,
    show_summaries,
    write_outputs,
)
from .sites import Where

# Of exact distances: a release has none of them.
_NO_SKETCH = ("class_tolerance", "intervals")


class Comparing(Flags):
    """How labels are compared, and distances between holders found."""

    label_metric: Literal["classes", "vectors"] = flag(
        "How labels are compared.", default="classes"
    )
    map: MapMethod | None = flag(
        "Also compute distances between holders, by this method; direct discloses records."
    )
    scale: float | None = flag(
        "For secure: public length of about the spread of the data. Default: 1."
    )
    accuracy: Accuracy | None = flag("For secure: fast is usually within 2 %, normal within 0.5 %.")

    @property
    def apart(self) -> bool:
        """Whether a map is made by runs of its own."""
        return self.map not in (None, "direct")

    def options(self, method: str, released: dict[str, Any]) -> dict[str, Any]:
        """Return the options as ``value_holders`` takes them, with those of a release.

        A release serves the methods ``private`` and ``sketch``, or the map.
        """
        # Never for a report's sake: disclosure does not depend on what is shown.
        of_map = drop_none(scale=self.scale, accuracy=self.accuracy)
        own = {"label_metric": self.label_metric, "map": self.map}
        if method in ("private", "sketch"):
            return {**own, "map_options": of_map, **released}
        return {**own, "map_options": of_map | released}


class Scoring(Listing):
    """Whether the records of holders are scored too."""

    records: bool = flag("Score every holder's records, which discloses them.", default=False)


@command(
    [Worth],
    choose="target",
    among=list_comparisons,
    calls=(
        "silot value north.csv south.csv --validation mine.csv",
        "silot value --sites KIT --validation mine.csv --report report.html",
    ),
)
def value_command(
    holders: HoldersArgument = None,
    *,
    validation: Path | None = flag(
        "Trusted data to compare with. Default: the barycenter of the holders."
    ),
    method: str,
    where: Where,
    tables: NamedTables,
    spending: Spending,
    compared: Comparing,
    scoring: Scoring,
    outputs: RecordOutputs,
    **options: Any,
) -> None:
    """Estimate what each holder's data are worth, by validation data or the barycenter."""
    where.refuse(records=scoring.records)
    _check_records(scoring, validation, outputs)
    if outputs.transcript is not None and method != "sketch" and compared.apart:
        raise InputError(
            f"--transcript saves the messages of one run, but --map {compared.map} needs further "
            "runs. Leave one of the two options out.",
            code="option-transcript",
        )
    loaded, own = where.load(tables, holders, validation)
    images, trusted, shared, identifiers = {}, None, {}, {}
    if scoring.records and own is not None and isinstance(loaded, dict):
        of_holders = dict(zip(loaded, where.named(holders), strict=True))
        images = load_pictures(of_holders, scoring.image_shape)
        identifiers = {
            name: read_identifiers(file, tables.files.identifiers)
            for name, file in of_holders.items()
        }
        shared = drop_none(labels=tables.labels, fdr=scoring.fdr, seed=options.get("seed"))
        trusted = fit_models(own, **shared)
    if method == "target" and "privacy_epsilon" in options and not compared.apart:
        # A budget means noise: the exact default would spend none of it.
        method = "private"
    if method == "sketch":
        options = {name: value for name, value in options.items() if name not in _NO_SKETCH}
    released = spending.read(tables)
    if method not in ("private", "sketch"):
        released |= {name: options.pop(name) for name in Private.options if name in options}
    options |= compared.options(method, released)
    with steps("value") as progress:
        result = value_holders(
            loaded, own, labels=tables.labels, method=method, progress=progress, **options
        )
    outputs.save_messages(result)
    scored: dict[str, RecordScores] = {}
    contents: dict[str, Contents] = {}
    if trusted is not None and isinstance(loaded, dict):
        scored = score_holders({name: loaded[name] for name in result.names}, trusted, **shared)
        contents = {
            name: Contents(records=loaded[name], validation=own, identifiers=identifiers[name])
            for name in scored
        }
    write_outputs(scoring.sheet, outputs.report, result, scored, contents, images)
    if outputs.json:
        body = result.body
        if scoring.records:
            body["records"] = [item.body for item in scored.values()]
        print_json(body)
        return
    show(result)
    show_summaries(scored)
    if scored:
        traffic = sum(item.bytes_sent + item.bytes_received for item in scored.values())
        OUT.print(
            f"scoring took {format_bytes(traffic)} more, and disclosed every record",
            highlight=False,
        )
    say_where(list=scoring.sheet, report=outputs.report)


def _check_records(scoring: Scoring, validation: Path | None, outputs: Outputs) -> None:
    """Raise where records cannot be scored, or flags about them come without ``--records``."""
    if not scoring.records:
        if scoring.sheet is not None or scoring.fdr is not None:
            listed = scoring.sheet is not None
            what = "--sheet lists the flagged records" if listed else "--fdr flags records"
            raise InputError(f"{what} of holders: give --records too.", code="option-records")
        return
    if validation is None:
        raise InputError(
            "record scores need data that are trusted: give --validation.", code="option-records"
        )
    if outputs.transcript is not None:
        raise InputError(
            "--transcript saves the messages of one run, but --records needs several. Leave one "
            "of the two options out.",
            code="option-transcript",
        )
