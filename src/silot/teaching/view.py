"""What devices learnt from one another: the tables of a terminal, and the page."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ..federation.result import Array, with_columns_seen
from ..federation.view import bill_rows, bill_sections, facts, levels_table, missing_table
from ..render import Block, Cell, Column, Heading, Paragraph, Table, textual
from ..render.words import (
    MISSING_NUMBER,
    count,
    level_in_words,
    listed,
    percent,
    printable,
    reason,
)
from .links_view import plan_rows, plan_sections
from .result import Adaptation, Divergences
from .sections import DeviceFacts, network_blocks, plan_blocks, plan_summary, terms_blocks

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


def adaptation_sections(found: Adaptation, *, assumed: bool = False) -> list[Block]:
    """Devices, links, accuracies and the bill; ``assumed`` where no file told what links cost."""
    rows = plan_rows(found.plan)
    del rows["status"]
    rows["energy"] += f", {100 * found.energy_share:.1f} % of all links to the targets"
    if found.accuracy is not None:
        told = [value for value in found.accuracies.values() if value is not None]
        rows = {
            "accuracy": f"{100 * found.accuracy:.1f} % on average over {len(told)} target(s), "
            f"{100 * min(told):.1f} % at worst; models combined by {found.rule}",
            **rows,
        }
    kind = f"{found.spec.kind}, {found.spec.size} parameters, {len(found.classes)} classes"
    rows |= _assumed(found, assumed) | {"models": kind, "status": found.status}
    return [*_tables(found), facts(rows | _bill_rows(found))]


def measured_sections(found: Adaptation, *, assumed: bool = False) -> list[Block]:
    """The plan of a run that trained to measure costs, and was not to combine models."""
    rows = plan_rows(found.plan) | _assumed(found, assumed) | _bill_rows(found)
    return with_columns_seen(found, [*_tables(found), facts(rows)])


def _tables(found: Adaptation) -> list[Block]:
    names = found.names
    errors = [found.errors.get(name) for name in names]
    columns = {
        "labelled": [str(found.labelled[name]) for name in names],
        "unlabelled": [str(found.unlabelled[name]) for name in names],
        "error": ["-" if error is None else f"{error:.3f}" for error in errors],
    }
    trains = np.array([error is not None for error in errors])
    training = np.where(trains, found.source, np.nan)
    columns |= _accuracy_column(found)
    return plan_sections(found.plan, training, found.transfer, found.link_energy, columns)


def _accuracy_column(found: Adaptation) -> dict[str, list[str]]:
    """Accuracies device by device, where any is known."""
    values = [found.accuracies.get(name) for name in found.names]
    if all(value is None for value in values):
        return {}
    return {"accuracy": ["" if value is None else f"{100 * value:.1f} %" for value in values]}


def _assumed(found: Adaptation, assumed: bool) -> dict[str, str]:
    """What energies rest on, where no file says what sending a model takes."""
    if not assumed:
        return {}
    size = f"{found.spec.size} parameters of 64 bits"
    return {"assumed": f"{size}, 74 Mbit/s and 24 dBm on every link; give --network FILE"}


def _bill_rows(found: Adaptation) -> dict[str, str]:
    rows = bill_rows(found)
    if found.told_models:
        rows["disclosed"] = "record: parameters of models, which records may be computed back from"
    return rows


def divergences_sections(found: Divergences) -> list[Block]:
    """A divergence between every two devices, and the bill."""
    return [_divergences(found), facts({**_measure(found), **bill_rows(found)})]


def divergences_page(found: Divergences) -> list[Block]:
    """The page of the same."""
    # Slow to import: it draws.
    from .figures import pair_figure

    values = found.values.copy()
    np.fill_diagonal(values, np.nan)
    drawn = pair_figure(
        list(found.names),
        values,
        what="divergence",
        caption="How far apart the records of two devices are.",
        ends=("device", "device"),
    )
    blocks: list[Block] = [
        Heading("Divergences between devices", level=1),
        Heading("Divergences", "divergence", "Divergences"),
        drawn,
        _divergences(found),
        facts(_measure(found)),
    ]
    if found.missing:
        blocks += [
            Heading("Devices left out", "missing", "Devices left out"),
            missing_table(found.missing, _CODES, "device"),
        ]
    return [*blocks, *bill_sections([("", found)])]


def _measure(found: Divergences) -> dict[str, str]:
    return {"method": found.method, "unit": found.unit, "status": found.status}


def _divergences(found: Divergences) -> Table:
    rows = [
        [Cell(printable(a)), Cell(printable(b)), Cell(f"{found[a, b]:.4g}")]
        for a, b in combinations(found.names, 2)
    ]
    columns = [textual("device"), textual("other device"), Column("divergence")]
    return Table("Pairs of devices with their divergences.", columns, rows, filter=True)


def adaptation_page(found: Adaptation) -> list[Block]:
    """The page of an adaptation; it contains no record and no model."""
    costs, known = found.costs, _known(found)
    return [
        Heading("Who taught whom", level=1),
        *_summary(found, known),
        *network_blocks(found.plan, costs, known),
        *_accuracy(found),
        *plan_blocks(found.plan, costs, known),
        *_absent(found),
        *bill_sections(
            [("", found)],
            notes=[
                f"Energy is that of sending models directly from sources to targets: "
                f"{found.energy:.4g} J, {percent(found.energy_share)} of what every link from a "
                "device that may train to a target would take. In this run all messages passed "
                "the coordinator: their bytes are in the table."
            ],
            disclosure=_disclosure(found),
        ),
        *terms_blocks(),
    ]


def _accuracy(found: Adaptation) -> list[Block]:
    if not _asked(found):
        return []
    blocks: list[Block] = [Heading("Accuracy at the targets", "accuracy", "Accuracy")]
    if any(value is not None for value in found.accuracies.values()):
        # Slow to import: it draws.
        from .figures import accuracy_figure

        blocks.append(accuracy_figure(list(found.accuracies), list(found.accuracies.values())))
    return [*blocks, _accuracies(found)]


def _known(found: Adaptation) -> DeviceFacts:
    between = found.divergences
    return DeviceFacts(
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


def _summary(found: Adaptation, known: DeviceFacts) -> list[Block]:
    sentences, warnings = plan_summary(found.plan, found.costs, known)
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
    lines = [Paragraph(line, "warning") for line in warnings]
    return [Paragraph(" ".join(sentences), "lead"), *lines]


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
    columns = [textual("target"), Column("accuracy"), Column("sources")]
    if found.unevaluated:
        columns.append(textual("why it is not known"))
    caption = f"Accuracy of combined models; rule: {printable(found.rule)}."
    return Table(caption, tuple(columns), rows, fold=40)


def _why(code: str) -> str:
    return _CODES.get(code) or reason(code)


def _absent(found: Adaptation) -> list[Block]:
    rows = [
        (Cell(printable(name)), Cell(what), Cell(f"{_why(code)}."), Cell(printable(code)))
        for who, what in ((found.missing, "took no part"), (found.excluded, "may be no source"))
        for name, code in who.items()
    ]
    columns = [textual(title) for title in ("device", "what", "why", "code")]
    if not rows:
        return []
    table = Table("Devices that took no part, or may be no source.", columns, rows)
    return [Heading("Devices left out", "missing", "Devices left out"), table]


def _disclosure(found: Adaptation) -> Table:
    level = found.disclosure
    meaning = _MODELS if found.told_models else level_in_words(level)
    return levels_table("The finest thing that left a device.", [(level, meaning, "")])
