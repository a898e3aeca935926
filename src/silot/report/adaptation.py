"""The report of an adaptation: who taught whom, and how well that went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..adaptation.costs import LinkCosts
from ..files import write_whole
from ..results import format_bytes
from ..results._run import Array
from ..results.adaptation import Adaptation
from ._figures import Picture
from ._link_figures import accuracy_figure
from ._link_sections import Known, plan_summary
from ._sections import Cell, Column, Summary, Table
from ._words import MISSING_NUMBER, count, level_in_words, listed, percent, printable, reason
from .links import page

_TITLE = "Who taught whom"
_CODES = {
    "evaluation-absent": "it has no evaluation records",
    "unserved": "no model reaches it",
    "labels-few": "it has fewer labelled records than a source needs",
    "records-few": "it has no records to speak of",
    "answer-malformed": "its answer did not have the form of one",
}
_MODELS = (
    "Parameters of models that were trained on a device's own records. Nobody has shown that "
    "records cannot be computed back from them. Treat the transcript of such a run like the data "
    "themselves."
)


@dataclass(frozen=True)
class Outcome:
    """What a run on data adds to its plan."""

    figure: Picture | None
    table: Table | None
    missing: Table | None
    bill: Table
    bill_notes: list[str]
    disclosure: Table


def render_adaptation(found: Adaptation, *, title: str = _TITLE) -> str:
    """Make the report of an adaptation as the text of one HTML file.

    The file needs nothing beside itself: no network, no scripts, no fonts. It contains no record
    and no model.

    Parameters
    ----------
    found
        What the devices learnt from one another.
    title
        Heading of the report.

    Returns
    -------
    str
        The HTML file.
    """
    costs, known = found.costs, _known(found)
    return page(
        title or _TITLE, found.plan, costs, known, _summary(found, costs, known), _outcome(found)
    )


def write_adaptation(path: str | Path, found: Adaptation, *, title: str = _TITLE) -> None:
    """Write the report of an adaptation to one HTML file, whole or not at all.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    found, title
        As for ``render_adaptation``.

    Raises
    ------
    FileError
        The folder is missing or not writable, or the disk is full.
    """
    write_whole(Path(path), render_adaptation(found, title=title).encode())


def _known(found: Adaptation) -> Known:
    between = found.divergences
    return Known(
        labelled=np.array([found.labelled.get(name, 0) for name in found.names], dtype=np.float64),
        unlabelled=np.array(
            [found.unlabelled.get(name, 0) for name in found.names], dtype=np.float64
        ),
        errors=np.array([found.errors.get(name, np.nan) for name in found.names]),
        divergence=_divergence(found),
        measure="divergence" if between is None else f"divergence ({printable(between.method)})",
        unit="J",
    )


def _divergence(found: Adaptation) -> Array | None:
    """Divergences in the order of the devices, NaN for a device that has none."""
    between = found.divergences
    if between is None:
        return None
    values = np.full((len(found.names),) * 2, np.nan)
    rows = [k for k, name in enumerate(found.names) if name in between.names]
    places = [between.names.index(found.names[k]) for k in rows]
    values[np.ix_(rows, rows)] = between.values[np.ix_(places, places)]
    return values


def _summary(found: Adaptation, costs: LinkCosts, known: Known) -> Summary:
    plan = plan_summary(found.plan, costs, known)
    sentences, warnings = list(plan.sentences), list(plan.warnings)
    told = [value for value in found.accuracies.values() if value is not None]
    if told:
        sentences.insert(
            1,
            f"The models that targets end up with are right on {percent(float(np.mean(told)))} of "
            f"the evaluation records of {count(len(told), 'target')} on average, and on "
            f"{percent(min(told))} at worst.",
        )
    elif _asked(found):
        sentences.insert(1, "No target told how well its model does.")
    else:
        sentences.insert(1, "No target was evaluated: nothing is known of the accuracy.")
    for who, what in ((found.excluded, "could be no source"), (found.missing, "took no part")):
        for code in sorted(set(who.values())):
            names = [printable(name) for name, own in who.items() if own == code]
            warnings.append(f"{listed(names, 6)} {what}: {_why(code)} ({printable(code)}).")
    return Summary(sentences, warnings)


def _outcome(found: Adaptation) -> Outcome:
    told = [value for value in found.accuracies.values() if value is not None]
    names, values = list(found.accuracies), list(found.accuracies.values())
    return Outcome(
        figure=accuracy_figure(names, values) if told else None,
        table=_accuracies(found) if _asked(found) else None,
        missing=_absent(found),
        bill=_bill(found),
        bill_notes=[
            f"Energy is that of sending models directly from sources to targets: "
            f"{found.energy:.4g} J, {percent(found.energy_share)} of what every link from a "
            "device that may train to a target would take. In this run all messages passed the "
            "coordinator: their bytes are in the table.",
        ],
        disclosure=_disclosure(found),
    )


def _asked(found: Adaptation) -> bool:
    """Whether a target has evaluation records, or failed in another way to tell of them."""
    return any(found.unevaluated.get(name) != "evaluation-absent" for name in found.accuracies)


def _accuracies(found: Adaptation) -> Table:
    plan = found.plan
    rows: list[tuple[Cell, ...]] = []
    for name, value in found.accuracies.items():
        j = plan.names.index(name)
        code = found.unevaluated.get(name, "")
        cells = (
            Cell(printable(name)),
            Cell(MISSING_NUMBER if value is None else percent(value), bar=value),
            Cell(str(int((plan.alpha[:, j] > 0).sum()))),
        )
        why = Cell(f"{_why(code)} ({printable(code)})" if code else "")
        rows.append((*cells, why) if found.unevaluated else cells)
    columns = [Column("target", numeric=False), Column("accuracy"), Column("sources")]
    if found.unevaluated:
        columns.append(Column("why it is not known", numeric=False))
    caption = f"Accuracy of combined models; rule: {printable(found.rule)}."
    return Table(caption, tuple(columns), rows, fold=40)


def _why(code: str) -> str:
    return _CODES.get(code) or reason(code)


def _absent(found: Adaptation) -> Table | None:
    rows = [
        (Cell(printable(name)), Cell(what), Cell(f"{_why(code)}."), Cell(printable(code)))
        for who, what in ((found.missing, "took no part"), (found.excluded, "may be no source"))
        for name, code in who.items()
    ]
    columns = tuple(Column(title, numeric=False) for title in ("device", "what", "why", "code"))
    return Table("Devices that took no part, or may be no source.", columns, rows) if rows else None


def _bill(found: Adaptation) -> Table:
    columns = (Column("rounds"), Column("sent"), Column("received"), Column("time"))
    row = (
        Cell(f"{found.rounds:,}"),
        Cell(format_bytes(found.bytes_sent)),
        Cell(format_bytes(found.bytes_received)),
        Cell(f"{found.seconds:.2f} s"),
    )
    return Table("Bytes as the coordinator saw them.", columns, [row])


def _disclosure(found: Adaptation) -> Table:
    level = found.disclosure
    meaning = _MODELS if found.told_models else level_in_words(level)
    columns = (Column("level", numeric=False), Column("meaning", numeric=False))
    row = (
        Cell(level or "unknown", warn=level == "record"),
        Cell(meaning),
    )
    return Table("The finest thing that left a device.", columns, [row])
