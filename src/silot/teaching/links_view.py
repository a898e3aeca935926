"""What is shown of a plan: who teaches whom, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import render
from ..errors import MismatchError
from ..federation.result import Array
from ..render.words import count, listed, number, percent, printable, short_number
from .costs import LinkCosts
from .figures import history_figure, pair_figure
from .network import Network
from .network_figure import layout, network_figure
from .plan import LinkPlan

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
        return [render.on_terminal(render.facts(plan_rows(plan))), refuse]
    if plan.names != costs.names:
        _refuse(f"the plan is of {len(plan.names)} devices and the costs of {costs.size}, or they "
                "are not the same devices in the same order")  # fmt: skip
    devices = DeviceFacts(phi=costs.phi) if network is None else _of_network(network, plan, costs)
    sentences, warnings = plan_summary(plan, costs, devices)
    return [
        render.Headline("Who can teach whom", " ".join(sentences), warnings),
        plan_sections(plan, costs, devices),
        terms_section(),
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


def plan_rows(plan: LinkPlan, unit: str = "J") -> dict[str, str]:
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
        "gap": gap(plan),
        "energy": f"{short_number(plan.energy)} {unit} on {len(plan.links)} link(s)",
    }
    if plan.unserved:
        rows["unserved"] = ", ".join(plan.unserved)
    return rows | {
        "method": f"{plan.method}, {plan.seconds:.2f} s",
        "status": plan.status,
    }


def plan_summary(
    plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts
) -> tuple[list[str], list[str]]:
    """Return the plan in a few sentences, and warnings."""
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
        sentences.append(f"{cost}; no plan costs less than {bound} (gap {gap(plan)}).")
    else:
        sentences.append(f"{cost}; it is not known how much less another plan could cost.")
    is_proven = plan.optimal or plan.method == "transfer"
    warnings = [] if is_proven else [f"Not proven optimal: {printable(plan.status, 400)}"]
    if plan.unserved:
        unserved = listed([printable(name) for name in plan.unserved])
        verb = "is" if len(plan.unserved) == 1 else "are"
        warnings.append(f"{unserved} {verb} not served: no model reaches them.")
    return sentences, warnings


def plan_sections(plan: LinkPlan, costs: LinkCosts, devices: DeviceFacts) -> render.Content:
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
            render.facts(plan_rows(plan, devices.unit or "units"), page=_scales(devices)),
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
            divergence_figure(ordered, devices.divergence[pairs], devices.measure, linked),
        ),
    ]


def divergence_figure(
    ordered: Sequence[str], values: Array, measure: str, links: Array | None = None
) -> render.Content:
    """Return the heat map of divergences."""
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


def terms_section() -> render.Content:
    """Return what the words mean."""
    words = render.Details("Terms", [render.Facts(_TERMS)])
    return render.section("How to read this", words)


_TERMS = (
    ("source", "A device that trains a model on its own labelled records."),
    (
        "target",
        "A device that receives models of sources and combines them with the weights of its "
        "links, which sum to 1.",
    ),
    (
        "objective",
        "The scaled sum of training costs at sources, transfer costs over links, and "
        "energy of links. Costs of training and transfer are bounds on errors or "
        "estimates of them: a smaller objective does not promise a better accuracy.",
    ),
    (
        "lower bound, gap",
        "No plan for these costs has an objective below the lower bound. The gap is the "
        "objective's distance to it, as a part of the objective where that is above 1.",
    ),
    (
        "energy",
        "Energy of sending models directly from sources to targets, by the model of the "
        "network: the size of a model over the rate of a link, times the power of the sender.",
    ),
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
    """Return every device with its role and what is known of it."""

    def value(values: Array | None, k: int) -> object:
        if values is None:
            return ""
        return None if np.isnan(values[k]) else float(values[k])

    rows = [
        (
            plan.names[k],
            render.Cell(role(plan, k), warn=plan.names[k] in plan.unserved),
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


def role(plan: LinkPlan, k: int) -> str:
    """Return what a device does."""
    if plan.psi[k] == 0:
        return "source"
    if plan.names[k] in plan.sources:
        return "both"
    return "target, unserved" if plan.names[k] in plan.unserved else "target"


def gap(plan: LinkPlan) -> str:
    """Return how far a plan is from its bound, as a percentage of the objective."""
    if not np.isfinite(plan.gap):
        return "not known"
    # Less than solvers can tell is none.
    return f"{100 * plan.gap:.2g} %" if plan.gap > 1e-9 else "0"
