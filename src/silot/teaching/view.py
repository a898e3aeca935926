"""What is shown of plans of who teaches whom, of what devices learnt, and of their divergences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .. import render
from ..errors import MismatchError, reason
from ..federation.result import Array, with_columns_seen
from ..federation.view import cost_content, cost_rows, levels_table, missing_section
from ..render.words import count, level_in_words, listed, number, percent, printable, short_number
from .costs import LinkCosts
from .figures import history_figure, layout, network_figure, pair_figure
from .network import Network
from .plan import LinkPlan
from .result import Adaptation, Divergences

_TABLED_PAIRS = 12


@dataclass(frozen=True, eq=False)
class DeviceFacts:
    """What is known of devices beside their costs; arrays are in the order of the plan."""

    labelled: Array | None = None
    unlabelled: Array | None = None
    errors: Array | None = None
    divergence: Array | None = None
    measure: str = "divergence"
    unit: str = ""
    phi: tuple[float, float, float] | None = None


def links_content(
    plan: LinkPlan, costs: LinkCosts | None = None, *, network: Network | None = None
) -> render.Content:
    """Declare a plan, with the devices and links where their costs are at hand, which a page needs.

    The ``network`` that the costs were made from adds counts of records, errors and divergences.
    """
    if costs is None:
        refuse = render.on_page(lambda: _refuse("the costs are missing"))
        return [render.on_terminal(render.facts(_plan_rows(plan))), refuse]
    if plan.names != costs.names:
        _refuse(f"the plan is of {len(plan.names)} devices and the costs of {costs.size}, or they "
                "are not the same devices in the same order")  # fmt: skip
    devices = DeviceFacts(phi=costs.phi) if network is None else _of_network(network, plan, costs)
    sentences, warnings = _plan_summary(plan, costs, devices)
    return [
        render.Headline("Who can teach whom", " ".join(sentences), warnings),
        _plan_sections(plan, costs, devices),
        _TERMS,
    ]


def _refuse(what: str) -> None:
    raise MismatchError(
        f"{what}. Give the costs from which the plan was computed.", code="report-links"
    )


def _of_network(network: Network, plan: LinkPlan, costs: LinkCosts) -> DeviceFacts:
    if network.names != plan.names:
        raise MismatchError(
            f"the plan is of {len(plan.names)} devices and the network of {len(network.names)}, "
            "or they are not the same devices in the same order.",
            code="report-links",
        )
    errors = [np.nan if device.error is None else device.error for device in network.devices]
    return DeviceFacts(
        labelled=np.array([device.labelled for device in network.devices], dtype=np.float64),
        unlabelled=np.array([device.unlabelled for device in network.devices], dtype=np.float64),
        errors=np.array(errors),
        divergence=np.array(network.divergence, dtype=np.float64),
        measure="divergence d_H",
        unit="J",
        phi=costs.phi,
    )


def _plan_rows(plan: LinkPlan, unit: str = "J") -> dict[str, str]:
    """Return what a plan costs, in words; ``unit`` is that of energies."""
    terms = plan.terms
    parts = [
        f"sources {short_number(terms.source)}",
        f"transfer {short_number(terms.transfer)}",
        f"energy {short_number(terms.energy)}",
    ]
    if terms.averaging:
        parts.append(f"averaging {short_number(terms.averaging)}")
    if plan.unserved:
        parts.append(f"unserved {short_number(terms.unserved)}")
    rows = {
        "objective": f"{short_number(plan.objective)}: {', '.join(parts)}",
        "lower bound": short_number(plan.lower_bound),
        "gap": _gap(plan),
        "energy": f"{short_number(plan.energy)} {unit} on {len(plan.links)} link(s)",
    }
    if plan.unserved:
        rows["unserved"] = ", ".join(plan.unserved)
    return rows | {
        "method": f"{plan.method}, {plan.seconds:.2f} s",
        "status": plan.status,
    }


def _plan_summary(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts
) -> tuple[list[str], list[str]]:
    sources, targets = len(plan.sources), len(plan.targets)
    links = len(plan.links)
    train = listed([printable(name) for name in plan.sources], 6) if sources else "none"
    sentences = [
        f"Of {count(len(plan.names), 'device')}, {count(sources, 'device')} "
        f"{'trains' if sources == 1 else 'train'} ({train}) and {targets:,} "
        f"{'receives' if targets == 1 else 'receive'} a model, over {count(links, 'link')}."
    ]
    is_useful = np.isfinite(costs.links) & (plan.psi == 1)
    everything = np.where(is_useful, costs.energy, 0.0).sum()
    if links and everything > 0:
        energy = f"{number(plan.energy)} {devices.unit}".strip()
        sentences.append(
            f"The links take {energy} of energy, "
            f"{percent(plan.energy / everything)} of what all links to these targets would take."
        )
    cost = f"The plan costs {number(plan.objective)}"
    if plan.method == "transfer":
        sentences.append(
            f"Expected Brier scores, halved, sum to {number(plan.objective)}: an estimate, by "
            "which every device gets the best mixture."
        )
    elif plan.optimal:
        sentences.append(f"{cost}, and it is proven that no plan costs less.")
    elif np.isfinite(plan.lower_bound):
        bound = number(plan.lower_bound)
        sentences.append(f"{cost}; no plan costs less than {bound} (gap {_gap(plan)}).")
    else:
        sentences.append(f"{cost}; it is not known how much less another plan could cost.")
    is_proven = plan.optimal or plan.method == "transfer"
    warnings = [] if is_proven else [f"Not proven optimal: {printable(plan.status, 400)}"]
    if plan.unserved:
        unserved = listed([printable(name) for name in plan.unserved])
        verb = "is" if len(plan.unserved) == 1 else "are"
        warnings.append(f"{unserved} {verb} not served: no model reaches them.")
    return sentences, warnings


def _plan_sections(plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts) -> render.Content:
    """Return devices and links, what the plan costs, and on a page what pairs of devices cost."""
    placed = layout(plan)
    blank = render.Paragraph("")
    return [
        render.section(
            "Who teaches whom",
            network_figure(plan, costs.energy, placed, devices.unit),
            [_links_table(plan, costs, devices), blank] if plan.links else None,
        ),
        render.section("Devices", _devices_table(plan, costs, devices, placed.order), blank),
        render.section(
            "What the plan costs",
            render.facts(_plan_rows(plan, devices.unit or "units"), page=_scales(devices)),
            history_figure(plan),
            _method(plan),
        ),
        render.on_page(lambda: _pairs_sections(plan, costs, devices, placed.order)),
    ]


def _scales(devices: DeviceFacts) -> dict[str, str]:
    scales = ", ".join(f"{value:g}" for value in devices.phi or ())
    return {"scales": f"{scales} (training, transfer, energy)"} if scales else {}


def _method(plan: LinkPlan) -> render.Content:
    rows = [(name.replace("_", " "), float(value)) for name, value in sorted(plan.details.items())]
    what, columns = "Details of the method", [render.names(""), render.numbers("value")]
    return render.Details(what, [render.Table(f"{what}.", columns, rows)]) if rows else None


def _pairs_sections(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts, order: Sequence[int]
) -> render.Content:
    pairs = np.ix_(order, order)
    ordered = [plan.names[k] for k in order]
    is_open = np.isfinite(costs.links)
    transfer = np.where(is_open, costs.transfer, np.nan)[pairs]
    energy = np.where(is_open, costs.energy, np.nan)[pairs]
    linked = plan.alpha[pairs]
    in_unit = f" ({devices.unit})" if devices.unit else ""
    tables = {"Transfer cost T": transfer, f"Energy of a link{in_unit}": energy}
    return [
        render.section(
            "What pairs of devices cost",
            pair_figure(
                ordered,
                transfer,
                what="transfer cost T",
                caption="Cost of using the model of a device (row) at another (column), unscaled; "
                "S, in other colours, is the cost of training at a device.",
                links=linked,
                strip=np.where(costs.eligible, costs.source, np.nan)[order],
            ),
            pair_figure(
                ordered,
                energy,
                what=f"energy of a link{in_unit}",
                caption="Energy of sending one model from the device of a row to that of a column.",
                links=linked,
            ),
            render.Details(
                "The same as tables", [_pairs(*item, ordered) for item in tables.items()]
            )
            if len(ordered) <= _TABLED_PAIRS
            else None,
        ),
        None
        if devices.divergence is None
        else render.section(
            "Divergences between devices",
            _divergence_figure(ordered, devices.divergence[pairs], devices.measure, linked),
        ),
    ]


def _divergence_figure(
    ordered: Sequence[str], values: Array, measure: str, links: Array | None = None
) -> render.Content:
    values = values.copy()
    np.fill_diagonal(values, np.nan)
    return pair_figure(
        ordered,
        values,
        what=measure,
        caption="How far apart the records of two devices are.",
        links=links,
        ends=("device", "device"),
    )


def _pairs(title: str, values: Array, ordered: Sequence[str]) -> render.Table:
    return render.Table(
        f"{title}; columns are targets.",
        [render.names("source", 28), *(render.numbers(printable(name, 28)) for name in ordered)],
        [(name, *map(float, row)) for name, row in zip(ordered, values, strict=True)],
    )


def _links_table(plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts) -> render.Table:
    """Return every link, target by target, the heaviest first."""
    rows = [
        (
            plan.names[i],
            plan.names[j],
            render.Cell(float(plan.alpha[i, j]), float(plan.alpha[i, j])),
            float(costs.source[i] if i == j else costs.transfer[i, j]),
            float(costs.energy[i, j]) if i != j else 0.0,
        )
        for j in range(len(plan.names))
        for i in np.argsort(-plan.alpha[:, j], kind="stable")
        if plan.alpha[i, j] > 0
    ]
    energy = f"energy ({devices.unit})" if devices.unit else "energy"
    columns = [
        render.names("source", wrap="fold"), render.names("target", wrap="fold"),
        render.digits("weight", 3), render.numbers("T", full="transfer cost T"),
        render.numbers("energy J", full=energy),
    ]  # fmt: skip
    return render.Table("Links of the plan, target by target.", columns, rows, fold=40)


def _devices_table(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts, order: Sequence[int]
) -> render.Table:

    def value(values: Array | None, k: int) -> object:
        if values is None:
            return ""
        return None if np.isnan(values[k]) else float(values[k])

    rows = [
        (
            plan.names[k],
            render.Cell(_role(plan, k), warn=plan.names[k] in plan.unserved),
            "yes" if costs.eligible[k] else "no",
            value(devices.labelled, k),
            value(devices.unlabelled, k),
            value(devices.errors, k),
            float(costs.source[k]) if costs.eligible[k] else None,
            (plan.sent[k] > 0).sum() + (plan.sent[:, k] > 0).sum(),
        )
        for k in order
    ]
    columns = [
        render.names("device", wrap="fold"),
        render.texts("role", wrap="cut", terminal=lambda words: words.removeprefix("target, ")),
        render.texts("may train", on="page"), render.counts("labelled"),
        render.counts("unlabelled"), render.digits("error", 3, missing="-"),
        render.numbers("S", full="training cost S", missing="-"), render.Column("links"),
    ]  # fmt: skip
    caption = "Devices, in the order of the drawing."
    return render.Table(caption, columns, rows, fold=40, filled=True)


def _role(plan: LinkPlan, k: int) -> str:
    if plan.psi[k] == 0:
        return "source"
    if plan.names[k] in plan.sources:
        return "both"
    return "target, unserved" if plan.names[k] in plan.unserved else "target"


def _gap(plan: LinkPlan) -> str:
    """Return how far a plan is from its bound, as a percentage of the objective."""
    if not np.isfinite(plan.gap):
        return "not known"
    # Less than solvers can tell is none.
    return f"{100 * plan.gap:.2g} %" if plan.gap > 1e-9 else "0"


_TERMS = render.section(
    "How to read this", lambda: render.Details("Terms", [render.terms("links")])
)
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
        _plan_sections(result.plan, costs, devices),
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
            _TERMS,
        ),
    ]


def measured_sections(result: Adaptation, *, assumed: bool = False) -> list[render.Block]:
    """Return the plan of a run that trained to measure costs, and was not to combine models."""
    rows = render.facts(_assumed(result, assumed) | _cost_rows(result))
    content = [_plan_sections(result.plan, result.costs, device_facts(result)), rows]
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
            _divergence_figure(list(result.names), result.values, "divergence"),
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
    sentences, warnings = _plan_summary(result.plan, result.costs, devices)
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
