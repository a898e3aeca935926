"""Who teaches whom: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import MismatchError
from ..federation.result import Array
from ..federation.view import facts
from ..render import Block, Column, Heading, Paragraph, Table, plain_table, textual
from ..render.words import short_number
from .costs import LinkCosts
from .network import Network
from .plan import LinkPlan
from .sections import (
    DeviceFacts,
    gap,
    network_blocks,
    plan_blocks,
    plan_summary,
    role,
    terms_blocks,
)


def plan_sections(
    plan: LinkPlan,
    training: Array,
    transfer: Array,
    energy: Array,
    columns: Mapping[str, Sequence[str]],
) -> list[Block]:
    """Devices with what else is known of them, and links; ``training`` is NaN where barred."""
    blocks: list[Block] = [_devices(plan, training, columns), Paragraph("")]
    if plan.links:
        blocks += [_links(plan, transfer, energy), Paragraph("")]
    return blocks


def links_sections(
    plan: LinkPlan, costs: LinkCosts | None = None, *, network: Network | None = None
) -> list[Block]:
    """A plan, with the devices and links where their costs are at hand."""
    if costs is None:
        return [facts(plan_rows(plan))]
    columns: dict[str, list[str]] = {}
    if network is not None:
        errors = [device.error for device in network.devices]
        columns = {
            "labelled": [str(device.labelled) for device in network.devices],
            "unlabelled": [str(device.unlabelled) for device in network.devices],
            "error": ["-" if error is None else f"{error:.3f}" for error in errors],
        }
    training = np.where(costs.eligible, costs.source, np.nan)
    tables = plan_sections(plan, training, costs.transfer, costs.energy, columns)
    return [*tables, facts(plan_rows(plan))]


def _devices(plan: LinkPlan, training: Array, columns: Mapping[str, Sequence[str]]) -> Table:
    rows: list[list[str]] = []
    # Sources first, each kind in the order given.
    for k in sorted(range(len(plan.names)), key=lambda k: int(plan.psi[k])):
        linked = int((plan.alpha[k] > 0).sum() + (plan.alpha[:, k] > 0).sum())
        cost = "-" if np.isnan(training[k]) else short_number(float(training[k]))
        doing = role(plan, k).removeprefix("target, ")
        others = [values[k] for values in columns.values()]
        rows.append([plan.names[k], doing, *others, cost, str(linked)])
    heads = map(Column, (*columns, "S", "links"))
    return plain_table([textual("device", "fold"), textual("role", "cut"), *heads], rows)


def _links(plan: LinkPlan, transfer: Array, energy: Array) -> Table:
    place = {name: k for k, name in enumerate(plan.names)}
    rows: list[list[str]] = []
    for source, target, weight in sorted(plan.links, key=lambda link: place[link[1]]):
        pair = place[source], place[target]
        prices = (short_number(float(costs[pair])) for costs in (transfer, energy))
        rows.append([source, target, f"{weight:.3f}", *prices])
    heads = map(Column, ("weight", "T", "energy J"))
    return plain_table([textual("source", "fold"), textual("target", "fold"), *heads], rows)


def plan_rows(plan: LinkPlan) -> dict[str, str]:
    """What a plan costs, in words."""
    terms = plan.terms
    parts = [
        f"sources {short_number(terms.source)}",
        f"transfer {short_number(terms.transfer)}",
        f"energy {short_number(terms.energy)}",
    ]
    if terms.mixing:
        parts.append(f"mixing {short_number(terms.mixing)}")
    if plan.unserved:
        parts.append(f"unserved {short_number(terms.unserved)}")
    rows = {
        "objective": f"{short_number(plan.objective)}: {', '.join(parts)}",
        "lower bound": short_number(plan.lower_bound),
        "gap": gap(plan),
        "energy": f"{short_number(plan.energy)} J on {len(plan.links)} link(s)",
    }
    if plan.unserved:
        rows["unserved"] = ", ".join(plan.unserved)
    return rows | {
        "method": f"{plan.method}, mixing {plan.mixing}, {plan.seconds:.2f} s",
        "status": plan.status,
    }


def links_page(plan: LinkPlan, costs: LinkCosts, *, network: Network | None = None) -> list[Block]:
    """The page of a plan; the same plan gives the same page.

    Parameters
    ----------
    plan
        Who teaches whom.
    costs
        The costs the plan was made for.
    network
        The devices the costs were made from. It adds counts of records, errors and divergences,
        and energy is then in joule.

    Raises
    ------
    MismatchError
        ``report-links``: plan, costs and network are not of the same devices.
    """
    _check(plan, costs)
    known = DeviceFacts(phi=costs.phi) if network is None else _known(network, plan, costs)
    sentences, warnings = plan_summary(plan, costs, known)
    return [
        Heading("Who can teach whom", level=1),
        Paragraph(" ".join(sentences), "lead"),
        *(Paragraph(line, "warning") for line in warnings),
        *network_blocks(plan, costs, known),
        *plan_blocks(plan, costs, known),
        *terms_blocks(),
    ]


def _known(network: Network, plan: LinkPlan, costs: LinkCosts) -> DeviceFacts:
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


def _check(plan: LinkPlan, costs: LinkCosts) -> None:
    if plan.names != costs.names:
        raise MismatchError(
            f"the plan is of {len(plan.names)} devices and the costs of {costs.size}, or they are "
            "not the same devices in the same order. Give the costs the plan was made for.",
            code="report-links",
        )
