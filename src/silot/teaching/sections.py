"""What a page says of a plan, in sentences, tables and drawings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..federation.result import Array
from ..render import Block, Cell, Column, Details, Facts, Heading, Table, textual
from ..render.words import (
    MISSING_NUMBER,
    count,
    decimals,
    listed,
    number,
    percent,
    printable,
)
from .costs import LinkCosts
from .plan import LinkPlan

if TYPE_CHECKING:
    from .network_figure import Layout

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


def plan_summary(
    plan: LinkPlan, costs: LinkCosts, known: DeviceFacts
) -> tuple[list[str], list[str]]:
    """The plan in a few sentences, and warnings."""
    sources, targets = len(plan.sources), len(plan.targets)
    links = int((plan.alpha > 0).sum())
    train = listed([printable(name) for name in plan.sources], 6) if sources else "none"
    sentences = [
        f"Of {count(len(plan.names), 'device')}, {count(sources, 'device')} "
        f"{'trains' if sources == 1 else 'train'} ({train}) and {targets:,} "
        f"{'receives' if targets == 1 else 'receive'} a model, over {count(links, 'link')}."
    ]
    useful = np.isfinite(costs.links) & (plan.psi == 1)
    everything = np.where(useful, costs.energy, 0.0).sum()
    if links and everything > 0:
        sentences.append(
            f"The links take {quantity(plan.energy, known.unit)} of energy, "
            f"{percent(plan.energy / everything)} of what all links to these targets would take."
        )
    return [*sentences, _objective(plan)], _warnings(plan)


def _objective(plan: LinkPlan) -> str:
    costs = f"The plan costs {number(plan.objective)}"
    if plan.optimal:
        return f"{costs}, and it is proven that no plan costs less."
    if np.isfinite(plan.lower_bound):
        return f"{costs}; no plan costs less than {number(plan.lower_bound)} (gap {gap(plan)})."
    return f"{costs}; how much less another plan could cost is not known."


def _warnings(plan: LinkPlan) -> list[str]:
    warnings = [] if plan.optimal else [f"Not proven optimal: {printable(plan.status, 400)}"]
    if plan.unserved:
        names = listed([printable(name) for name in plan.unserved])
        verb = "is" if len(plan.unserved) == 1 else "are"
        warnings.append(f"{names} {verb} served by nobody: no model reaches them.")
    return warnings


def network_blocks(plan: LinkPlan, costs: LinkCosts, known: DeviceFacts) -> list[Block]:
    """Who teaches whom, as a drawing and a table."""
    # Slow to import: it draws.
    from .network_figure import layout, network_figure

    drawn = network_figure(plan, costs.energy, layout(plan), known.unit)
    blocks: list[Block] = [Heading("Who teaches whom", "network", "Network"), drawn]
    return [*blocks, links_table(plan, costs, known)] if plan.links else blocks


def plan_blocks(plan: LinkPlan, costs: LinkCosts, known: DeviceFacts) -> list[Block]:
    """Devices, what the plan costs, and what pairs of devices cost."""
    # Slow to import: they draw.
    from .figures import history_figure, pair_figure, terms_figure
    from .network_figure import layout

    placed = layout(plan)
    order = placed.order
    pairs = np.ix_(order, order)
    names = [plan.names[k] for k in order]
    open_pairs = np.isfinite(costs.links)
    transfer = np.where(open_pairs, costs.transfer, np.nan)[pairs]
    energy = np.where(open_pairs, costs.energy, np.nan)[pairs]
    linked = plan.alpha[pairs]
    history, details = history_figure(plan), _details(plan.details)
    blocks: list[Block | None] = [
        Heading("Devices", "devices", "Devices"),
        devices_table(plan, costs, known, placed),
        Heading("What the plan costs", "objective", "Objective"),
        terms_figure(plan),
        Facts(_facts(plan, known)),
        history,
        None if details is None else Details("What the method says of itself", [details]),
        Heading("What pairs of devices cost", "costs", "Costs of pairs"),
        pair_figure(
            names,
            transfer,
            what="transfer cost T",
            caption="Cost of using the model of a row's device at a column's, before any scale; "
            "S, in colours of its own, is the cost of training at a device.",
            links=linked,
            strip=np.where(costs.eligible, costs.source, np.nan)[order],
        ),
        pair_figure(
            names,
            energy,
            what=f"energy of a link ({known.unit})" if known.unit else "energy of a link",
            caption="Energy of sending one model from a row's device to a column's.",
            links=linked,
        ),
    ]
    tables = _pair_tables(names, transfer, energy, known)
    if tables:
        blocks.append(Details("The same as tables", tables))
    if known.divergence is not None:
        values = known.divergence[pairs].copy()
        np.fill_diagonal(values, np.nan)
        blocks += [
            Heading("Divergences between devices", "divergence", "Divergences"),
            pair_figure(
                names,
                values,
                what=known.measure,
                caption="How far apart the records of two devices are.",
                links=linked,
                ends=("device", "device"),
            ),
        ]
    return [block for block in blocks if block is not None]


def terms_blocks() -> list[Block]:
    """What the words mean."""
    rows = (
        ("source", "A device that trains a model on its own labelled records."),
        (
            "target",
            "A device that receives models of sources and combines them with the weights of its "
            "links, which sum to 1.",
        ),
        (
            "objective",
            "The scaled sum of training costs at sources, transfer costs over links, and energy "
            "of links. Costs of training and transfer are bounds on errors or stand-ins for them: "
            "a smaller objective promises no accuracy.",
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
    return [Heading("How to read this", "terms", "How to read this"), Facts(rows)]


def links_table(plan: LinkPlan, costs: LinkCosts, known: DeviceFacts) -> Table:
    """Every link, the heaviest of each target first."""
    columns = (
        textual("target"),
        textual("source"),
        Column("weight"),
        Column("transfer cost T"),
        Column(f"energy ({known.unit})" if known.unit else "energy"),
    )
    rows: list[tuple[Cell, ...]] = []
    for j, name in enumerate(plan.names):
        for i in np.argsort(-plan.alpha[:, j], kind="stable").tolist():
            weight = float(plan.alpha[i, j])
            if weight > 0:
                rows.append(
                    (
                        Cell(printable(name)),
                        Cell(printable(plan.names[i])),
                        Cell(decimals(weight, 3), bar=weight),
                        Cell(number(float(costs.transfer[i, j]))),
                        Cell(number(float(costs.energy[i, j]))),
                    )
                )
    return Table("Links of the plan, target by target.", columns, rows, fold=40)


def devices_table(plan: LinkPlan, costs: LinkCosts, known: DeviceFacts, placed: Layout) -> Table:
    """Every device with its role and what is known of it."""
    columns = [textual("device"), textual("role")]
    columns += [textual("may train")]
    columns += [Column("labelled")] if known.labelled is not None else []
    columns += [Column("unlabelled")] if known.unlabelled is not None else []
    columns += [Column("error")] if known.errors is not None else []
    columns += [Column("training cost S"), Column("links")]
    rows: list[tuple[Cell, ...]] = []
    for k in placed.order:
        left_out = plan.names[k] in plan.unserved
        cells = [
            Cell(printable(plan.names[k])),
            Cell(role(plan, k), warn=left_out),
            Cell("yes" if costs.eligible[k] else "no"),
        ]
        counts = [each for each in (known.labelled, known.unlabelled) if each is not None]
        cells += [Cell(f"{int(each[k]):,}") for each in counts]
        if known.errors is not None:
            cells.append(Cell(decimals(float(known.errors[k]), 3)))
        cost = number(float(costs.source[k])) if costs.eligible[k] else MISSING_NUMBER
        linked = (plan.alpha[k] > 0).sum() + (plan.alpha[:, k] > 0).sum()
        rows.append((*cells, Cell(cost), Cell(f"{linked}")))
    return Table("Devices, in the order of the drawing.", tuple(columns), rows, fold=40)


def role(plan: LinkPlan, k: int) -> str:
    """What a device does."""
    if plan.psi[k] == 0:
        return "source"
    return "target, unserved" if plan.names[k] in plan.unserved else "target"


def quantity(value: float, unit: str) -> str:
    """A number with its unit, if it has one."""
    return f"{number(value)} {unit}".strip()


def gap(plan: LinkPlan) -> str:
    """How far from the bound, as a percentage of the objective."""
    if not np.isfinite(plan.gap):
        return "not known"
    # Less than solvers can tell is none.
    return f"{100 * plan.gap:.2g} %" if plan.gap > 1e-9 else "0"


def _pair_tables(
    names: list[str], transfer: Array, energy: Array, known: DeviceFacts
) -> list[Table]:
    if len(names) > _TABLED_PAIRS:
        return []
    shown = [printable(name, 28) for name in names]
    columns = (textual("source"), *(Column(name) for name in shown))
    tables: list[Table] = []
    unit = f" ({known.unit})" if known.unit else ""
    for title, values in (("Transfer cost T", transfer), (f"Energy of a link{unit}", energy)):
        rows = [
            (Cell(name), *(Cell(number(float(value))) for value in row))
            for name, row in zip(shown, values, strict=True)
        ]
        tables.append(Table(f"{title}; columns are targets.", columns, rows))
    return tables


def _facts(plan: LinkPlan, known: DeviceFacts) -> list[tuple[str, str]]:
    bound = number(plan.lower_bound) if np.isfinite(plan.lower_bound) else "none"
    facts = [
        ("objective", number(plan.objective)),
        ("lower bound", bound),
        ("gap", gap(plan)),
        ("status", printable(plan.status, 400)),
        ("method", f"{printable(plan.method)}, mixing objective: {printable(plan.mixing)}"),
        ("time of the solver", f"{plan.seconds:.2f} s"),
    ]
    if known.phi is not None:
        scales = ", ".join(f"{value:g}" for value in known.phi)
        facts.append(("scales", f"{scales} (training, transfer, energy)"))
    return facts


def _details(details: Mapping[str, float]) -> Table | None:
    if not details:
        return None
    rows = [
        (Cell(printable(name.replace("_", " "))), Cell(number(float(value))))
        for name, value in sorted(details.items())
    ]
    return Table("What the method says of itself.", (textual(""), Column("value")), rows)
