"""What is shown of plans of who teaches whom, of what devices learnt, and of their divergences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .. import render
from ..errors import MismatchError, reason
from ..federation.result import Array, with_columns_seen
from ..federation.view import absences, cost_content, cost_rows, levels_table, missing_section
from ..render.words import count, level_in_words, named, number, percent, printable, short_number
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
    devices = DeviceFacts(phi=costs.phi)
    if network is not None:
        devices = _of_network(network, plan.names, costs.phi)
    sentences, warnings = _plan_summary(plan, costs, devices)
    return [
        render.Headline("Who can teach whom", " ".join(sentences), warnings),
        _plan_sections(plan, costs, devices),
        _TERMS,
    ]


def _refuse(what: str, cure: str = " Give the costs from which the plan was computed.") -> None:
    raise MismatchError(f"{what}.{cure}", code="report-links")


def _of_network(
    network: Network, names: Sequence[str], phi: tuple[float, float, float]
) -> DeviceFacts:
    if network.names != names:
        _refuse(f"the plan is of {len(names)} devices and the network of {len(network.names)}, "
                "or they are not the same devices in the same order", "")  # fmt: skip
    devices, float64 = network.devices, np.float64
    return DeviceFacts(
        labelled=np.array([device.labelled for device in devices], float64),
        unlabelled=np.array([device.unlabelled for device in devices], float64),
        # Where an error is None it becomes NaN.
        errors=np.array([device.error for device in devices], float64),
        divergence=np.array(network.divergence, float64),
        measure="divergence d_H",
        unit="J",
        phi=phi,
    )


def _plan_rows(plan: LinkPlan, unit: str = "J") -> dict[str, str | None]:
    """Return what a plan costs, in words; ``unit`` is that of energies."""
    terms = plan.terms
    parts = {"sources": terms.source, "transfer": terms.transfer, "energy": terms.energy}
    parts |= {"averaging": terms.averaging} if terms.averaging else {}
    parts |= {"unserved": terms.unserved} if plan.unserved else {}
    words = ", ".join(f"{name} {short_number(value)}" for name, value in parts.items())
    return {
        "objective": f"{short_number(plan.objective)}: {words}",
        "lower bound": short_number(plan.lower_bound),
        "gap": _gap(plan),
        "energy": f"{short_number(plan.energy)} {unit} on {len(plan.links)} link(s)",
        "unserved": ", ".join(plan.unserved) or None,
        "method": f"{plan.method}, {plan.seconds:.2f} s",
        "status": plan.status,
    }


def _plan_summary(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts
) -> tuple[list[str], list[str]]:
    sources, targets, links = map(len, (plan.sources, plan.targets, plan.links))
    sentences = [
        f"Of {count(len(plan.names), 'device')}, {count(sources, 'device')} "
        f"{'trains' if sources == 1 else 'train'} ({named(plan.sources) or 'none'}) and "
        f"{targets:,} {'receives' if targets == 1 else 'receive'} a model, over "
        f"{count(links, 'link')}."
    ]
    is_useful = np.isfinite(costs.links) & (plan.psi == 1)
    everything = np.where(is_useful, costs.energy, 0.0).sum()
    if links and everything > 0:
        energy = f"{number(plan.energy)} {devices.unit}".strip()
        sentences.append(
            f"The links take {energy} of energy, "
            f"{percent(plan.energy / everything)} of what all links to these targets would take."
        )
    cost, bound = number(plan.objective), number(plan.lower_bound)
    if plan.method == "transfer":
        sentences.append(
            f"Expected Brier scores, halved, sum to {cost}: an estimate, by which every device "
            "gets the best mixture."
        )
    elif plan.optimal:
        sentences.append(f"The plan costs {cost}, and it is proven that no plan costs less.")
    elif np.isfinite(plan.lower_bound):
        gap = f"no plan costs less than {bound} (gap {_gap(plan)})"
        sentences.append(f"The plan costs {cost}; {gap}.")
    else:
        unknown = "it is not known how much less another plan could cost"
        sentences.append(f"The plan costs {cost}; {unknown}.")
    is_proven = plan.optimal or plan.method == "transfer"
    warnings = [] if is_proven else [f"Not proven optimal: {printable(plan.status, 400)}"]
    if plan.unserved:
        verb = "is" if len(plan.unserved) == 1 else "are"
        words = f"{verb} not served: no model reaches them."
        warnings.append(f"{named(plan.unserved, 3)} {words}")
    return sentences, warnings


def _plan_sections(plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts) -> render.Content:
    """Return devices and links, what the plan costs, and on a page what pairs of devices cost."""
    placed, blank = layout(plan), render.Paragraph("")
    scales = ", ".join(f"{value:g}" for value in devices.phi or ())
    details = [(name.replace("_", " "), float(value)) for name, value in plan.details.items()]
    method = render.Table(
        "Details of the method.", [render.names(""), render.numbers("value")], sorted(details)
    )
    return [
        render.section(
            "Who teaches whom",
            network_figure(plan, costs.energy, placed, devices.unit),
            bool(plan.links) and [_links_table(plan, costs, devices.unit), blank],
        ),
        render.section("Devices", _devices_table(plan, costs, devices, placed.order), blank),
        render.section(
            "What the plan costs",
            render.facts(
                _plan_rows(plan, devices.unit or "units"),
                page={"scales": f"{scales} (training, transfer, energy)" if scales else None},
            ),
            history_figure(plan),
            bool(details) and render.Details("Details of the method", [method]),
        ),
        render.on_page(lambda: _pairs_sections(plan, costs, devices, placed.order)),
    ]


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
    columns = [render.names("source", 28)]
    columns += [render.numbers(printable(name, 28)) for name in ordered]
    tables = [
        render.Table(
            f"{title}; columns are targets.",
            columns,
            [(name, *map(float, row)) for name, row in zip(ordered, values, strict=True)],
        )
        for title, values in (
            ("Transfer cost T", transfer),
            (f"Energy of a link{in_unit}", energy),
        )
    ]
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
            len(ordered) <= _TABLED_PAIRS and render.Details("The same as tables", tables),
        ),
        devices.divergence is not None
        and render.section(
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


def _links_table(plan: LinkPlan, costs: LinkCosts, unit: str) -> render.Table:
    """Return every link, target by target, the heaviest first."""
    rows = [
        (plan.names[i], plan.names[j], float(plan.alpha[i, j]),
         float(costs.source[i] if i == j else costs.transfer[i, j]),
         float(costs.energy[i, j]) if i != j else 0.0)
        for j in range(len(plan.names))
        for i in np.argsort(-plan.alpha[:, j], kind="stable")
        if plan.alpha[i, j] > 0
    ]  # fmt: skip
    columns = [
        render.names("source", wrap="fold"), render.names("target", wrap="fold"),
        render.digits("weight", 3, bar=1), render.numbers("T", full="transfer cost T"),
        render.numbers("energy J", full=f"energy ({unit})" if unit else "energy"),
    ]  # fmt: skip
    return render.Table("Links of the plan, target by target.", columns, rows, fold=40)


def _devices_table(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts, order: Sequence[int]
) -> render.Table:

    def value(values: Array | None) -> Callable[[int], float | None]:
        return lambda k: None if values is None or np.isnan(values[k]) else float(values[k])

    def role(k: int) -> render.Cell:
        return render.Cell(_role(plan, k), warn=plan.names[k] in plan.unserved)

    return render.table(
        "Devices, in the order of the drawing.",
        order,
        render.names("device", wrap="fold", of=lambda k: plan.names[k]),
        render.texts("role", wrap="cut", of=role,
                     terminal=lambda words: words.removeprefix("target, ")),
        render.texts("may train", on="page", of=lambda k: "yes" if costs.eligible[k] else "no"),
        render.counts("labelled", of=value(devices.labelled)),
        render.counts("unlabelled", of=value(devices.unlabelled)),
        devices.errors is not None
        and render.digits("error", 3, missing="-", of=value(devices.errors)),
        render.numbers("S", full="training cost S", missing="-",
                       of=value(np.where(costs.eligible, costs.source, np.nan))),
        render.Column("links", of=lambda k: (plan.sent[k] > 0).sum() + (plan.sent[:, k] > 0).sum()),
        fold=40,
        filled=True,
    )  # fmt: skip


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
    devices, level = device_facts(result), result.disclosure
    sentences, warnings = _summary(result, devices)
    meaning = _MODELS if result.told_models else level_in_words(level)
    energy = (
        f"Energy is that of sending models directly from sources to targets: {result.energy:.4g} "
        f"J, {percent(result.energy_share)} of the energy of all links from devices that may train "
        "to targets. In this run all messages passed the coordinator: their bytes are in the table."
    )
    levels = levels_table("The most detailed thing that left a device.", [(level, meaning, "")])
    return [
        render.Headline("Who taught whom", " ".join(sentences), warnings),
        _accuracy(result),
        _plan_sections(result.plan, result.costs, devices),
        render.on_terminal(render.Paragraph(""), render.facts(_rows(result, assumed=assumed))),
        missing_section(result.missing, "device"),
        missing_section(result.excluded, "device", what="may be no source"),
        render.on_page(cost_content(result, notes=[energy], disclosure=levels), _TERMS),
    ]


def measured_sections(result: Adaptation, *, assumed: bool = False) -> list[render.Block]:
    """Return the plan of a run that trained to measure costs, and was not to combine models."""
    rows = render.facts({"assumed": _assumed(result, assumed), **_cost_rows(result)})
    content = [_plan_sections(result.plan, result.costs, device_facts(result)), rows]
    return with_columns_seen(result, render.written(content, "terminal"))


def _rows(result: Adaptation, *, assumed: bool) -> dict[str, str | None]:
    accuracies, accuracy = _accuracies(result), None
    if result.accuracy is not None:
        accuracy = (
            f"{100 * result.accuracy:.1f} % on average over {len(accuracies)} target(s), "
            f"{100 * min(accuracies):.1f} % at worst; models combined by {result.rule}"
        )
    return {
        "share": f"{100 * result.energy_share:.1f} % of the energy of all links to the targets",
        "accuracy": accuracy,
        "assumed": _assumed(result, assumed),
        "models": f"{result.spec.kind}, {result.spec.size} parameters, "
        f"{len(result.classes)} classes",
        "status": result.status,
        **_cost_rows(result),
    }


def _accuracies(result: Adaptation) -> list[float]:
    return [value for value in result.accuracies.values() if value is not None]


def _assumed(result: Adaptation, assumed: bool) -> str | None:
    """Return what energies rest on, where no file says what sending a model takes."""
    size = f"{result.spec.size} parameters of 64 bits"
    words = f"{size}, 74 Mbit/s and 24 dBm on every link; --network FILE changes this"
    return words if assumed else None


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

    divergence = None
    if between is not None:
        # A device that has none has NaN.
        divergence = np.full((len(result.names),) * 2, np.nan)
        rows = [k for k, name in enumerate(result.names) if name in between.names]
        places = [between.names.index(result.names[k]) for k in rows]
        divergence[np.ix_(rows, rows)] = between.values[np.ix_(places, places)]
    return DeviceFacts(
        labelled=of_each(result.labelled, 0),
        unlabelled=of_each(result.unlabelled, 0),
        errors=of_each(result.errors, np.nan),
        divergence=divergence,
        measure="divergence" if between is None else f"divergence ({printable(between.method)})",
        unit="J",
    )


def _summary(result: Adaptation, devices: DeviceFacts) -> tuple[list[str], list[str]]:
    sentences, warnings = _plan_summary(result.plan, result.costs, devices)
    accuracies = _accuracies(result)
    accuracy = "No target was evaluated, so the accuracy is not known."
    if accuracies:
        accuracy = (
            f"The final models of the targets are right on {percent(float(np.mean(accuracies)))} "
            f"of the evaluation records of {count(len(accuracies), 'target')} on average, and on "
            f"{percent(min(accuracies))} at worst."
        )
    elif _is_evaluated(result):
        accuracy = "No target sent the accuracy of its model."
    sentences.insert(1, accuracy)
    absent = [*absences(result.excluded, "could be no source"), *absences(result.missing)]
    return sentences, [*warnings, *absent]


def _is_evaluated(result: Adaptation) -> bool:
    """Return whether a target has evaluation records, or failed in another way to tell of them."""
    return any(result.unevaluated.get(name) != "evaluation-absent" for name in result.accuracies)


def _accuracy(result: Adaptation) -> render.Content:
    """Return the accuracy at each target, and why it is not known at some."""
    plan = result.plan
    rows = [
        (name, value, int((plan.alpha[:, plan.names.index(name)] > 0).sum()),
         f"{reason(code)} ({printable(code)})" if code else "")
        for name, value in result.accuracies.items()
        for code in (result.unevaluated.get(name, ""),)
    ]  # fmt: skip
    columns = [
        render.names("target"), render.shares("accuracy", missing="-"), render.Column("sources"),
        render.texts("for an unknown reason"),
    ]  # fmt: skip
    chart = render.share_chart(
        "Accuracy of the combined model on the records of each target. Targets do "
        "not send their numbers of records, so no interval is known.",
        [(name, value, None, None) for name, value in result.accuracies.items()],
    )
    caption = f"Accuracy of combined models; rule: {printable(result.rule)}."
    return _is_evaluated(result) and render.section(
        "Accuracy at the targets",
        chart,
        render.Table(caption, columns, rows, fold=40, filled=True),
    )
