"""What is shown of what devices learnt from one another, and of their divergences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from .. import render
from ..errors import reason
from ..federation.result import Array, with_columns_seen
from ..federation.view import cost_content, cost_rows, levels_table, missing_section
from ..render.words import count, level_in_words, listed, percent, printable
from .links_view import (
    DeviceFacts,
    divergence_figure,
    plan_sections,
    plan_summary,
    terms_section,
)
from .result import Adaptation, Divergences

_MODELS = (
    "Parameters of models that were trained on a device's own records. There is "
    "no proof that records cannot be reconstructed from them. Treat the "
    "transcript of such a run like the data themselves."
)


def adaptation_content(result: Adaptation, *, assumed: bool = False) -> render.Content:
    """Declare devices, links, accuracies and the cost; no record and no model is shown.

    Energies are ``assumed`` where no file says what links cost.
    """
    costs, devices = result.costs, device_facts(result)
    sentences, warnings = _summary(result, devices)
    return [
        render.Headline("Who taught whom", " ".join(sentences), warnings),
        _accuracy(result),
        plan_sections(result.plan, costs, devices),
        render.on_terminal(render.Paragraph(""), render.facts(_rows(result, assumed=assumed))),
        missing_section(result.missing, "device"),
        missing_section(result.excluded, "device", what="may be no source"),
        render.on_page(
            cost_content(
                result,
                notes=[
                    f"Energy is that of sending models directly from sources to targets: "
                    f"{result.energy:.4g} J, {percent(result.energy_share)} of the energy of all "
                    "links from devices that may train to targets. In this run all "
                    "messages passed the coordinator: their bytes are in the table."
                ],
                disclosure=_disclosure(result),
            ),
            terms_section(),
        ),
    ]


def measured_sections(result: Adaptation, *, assumed: bool = False) -> list[render.Block]:
    """Return the plan of a run that trained to measure costs, and was not to combine models."""
    rows = render.facts(_assumed(result, assumed) | _cost_rows(result))
    content = [plan_sections(result.plan, result.costs, device_facts(result)), rows]
    return with_columns_seen(result, render.written(content, "terminal"))


def _rows(result: Adaptation, *, assumed: bool) -> dict[str, str]:
    rows = {"share": f"{100 * result.energy_share:.1f} % of the energy of all links to the targets"}
    if result.accuracy is not None:
        accuracies = _accuracies(result)
        rows["accuracy"] = (
            f"{100 * result.accuracy:.1f} % on average over {len(accuracies)} target(s), "
            f"{100 * min(accuracies):.1f} % at worst; models combined by {result.rule}"
        )
    kind = f"{result.spec.kind}, {result.spec.size} parameters, {len(result.classes)} classes"
    rows |= _assumed(result, assumed) | {"models": kind, "status": result.status}
    return rows | _cost_rows(result)


def _accuracies(result: Adaptation) -> list[float]:
    return [value for value in result.accuracies.values() if value is not None]


def _assumed(result: Adaptation, assumed: bool) -> dict[str, str]:
    """Return what energies rest on, where no file says what sending a model takes."""
    if not assumed:
        return {}
    size = f"{result.spec.size} parameters of 64 bits"
    return {"assumed": f"{size}, 74 Mbit/s and 24 dBm on every link; --network FILE changes this"}


def _cost_rows(result: Adaptation) -> dict[str, str]:
    return cost_rows(result, of_models=result.told_models)


def divergences_content(result: Divergences) -> render.Content:
    """Declare a divergence between every two devices, and the cost."""
    rows = [(a, b, result[a, b]) for a, b in combinations(result.names, 2)]
    write = "{:.4g}".format
    columns = [
        render.names("device"), render.names("other device"),
        render.Column("divergence", terminal=write, page=write),
    ]  # fmt: skip
    words = {"method": result.method, "unit": result.unit, "status": result.status}
    return [
        render.Headline("Divergences between devices"),
        render.section(
            "Divergences",
            divergence_figure(list(result.names), result.values, "divergence"),
            render.Table("Pairs of devices with their divergences.", columns, rows, filter=True),
            render.facts(words, terminal=cost_rows(result)),
        ),
        missing_section(result.missing, "device"),
        cost_content(result),
    ]


def device_facts(result: Adaptation) -> DeviceFacts:
    """Return what a run says of its devices, in their order."""
    between = result.divergences

    def of_each(values: Mapping[str, float], absent: float) -> Array:
        return np.array([values.get(name, absent) for name in result.names], dtype=np.float64)

    return DeviceFacts(
        labelled=of_each(result.labelled, 0),
        unlabelled=of_each(result.unlabelled, 0),
        errors=of_each(result.errors, np.nan),
        divergence=_divergence(result),
        measure="divergence" if between is None else f"divergence ({printable(between.method)})",
        unit="J",
    )


def _divergence(result: Adaptation) -> Array | None:
    """Return divergences in the order of the devices, NaN for a device that has none."""
    between = result.divergences
    if between is None:
        return None
    values = np.full((len(result.names),) * 2, np.nan)
    rows = [k for k, name in enumerate(result.names) if name in between.names]
    places = [between.names.index(result.names[k]) for k in rows]
    values[np.ix_(rows, rows)] = between.values[np.ix_(places, places)]
    return values


def _summary(result: Adaptation, devices: DeviceFacts) -> tuple[list[str], list[str]]:
    sentences, warnings = plan_summary(result.plan, result.costs, devices)
    accuracies = _accuracies(result)
    if accuracies:
        accuracy = (
            f"The final models of the targets are right on {percent(float(np.mean(accuracies)))} "
            f"of the evaluation records of {count(len(accuracies), 'target')} on average, and on "
            f"{percent(min(accuracies))} at worst."
        )
    elif _is_evaluated(result):
        accuracy = "No target sent the accuracy of its model."
    else:
        accuracy = "No target was evaluated, so the accuracy is not known."
    sentences.insert(1, accuracy)
    for who, what in ((result.excluded, "could be no source"), (result.missing, "took no part")):
        for code in sorted(set(who.values())):
            absent = [printable(name) for name, own in who.items() if own == code]
            warnings.append(f"{listed(absent, 6)} {what}: {reason(code)} ({printable(code)}).")
    return sentences, warnings


def _is_evaluated(result: Adaptation) -> bool:
    """Return whether a target has evaluation records, or failed in another way to tell of them."""
    return any(result.unevaluated.get(name) != "evaluation-absent" for name in result.accuracies)


def _accuracy(result: Adaptation) -> render.Content:
    """Return the accuracy at each target, and why it is not known at some."""
    if not _is_evaluated(result):
        return None
    plan = result.plan
    rows: list[tuple[object, ...]] = []
    for name, value in result.accuracies.items():
        sources = int((plan.alpha[:, plan.names.index(name)] > 0).sum())
        code = result.unevaluated.get(name, "")
        why = f"{reason(code)} ({printable(code)})" if code else ""
        rows.append((name, value, sources, why))
    columns = [
        render.names("target"), render.shares("accuracy", missing="-"), render.Column("sources"),
        render.texts("for an unknown reason"),
    ]  # fmt: skip
    caption = f"Accuracy of combined models; rule: {printable(result.rule)}."
    return render.section(
        "Accuracy at the targets",
        _chart(result),
        render.Table(caption, columns, rows, fold=40, filled=True),
    )


def _chart(result: Adaptation) -> render.Intervals | None:
    """Return the chart of accuracies."""
    rows = [(name, value, None, None) for name, value in result.accuracies.items()]
    what = (
        "Accuracy of the combined model on the records of each target. Targets do "
        "not send their numbers of records, so no interval is known."
    )
    return render.share_chart(what, rows)


def _disclosure(result: Adaptation) -> render.Table:
    level = result.disclosure
    meaning = _MODELS if result.told_models else level_in_words(level)
    return levels_table("The most detailed thing that left a device.", [(level, meaning, "")])
