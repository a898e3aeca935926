"""What a report says of a plan, in tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..adaptation.costs import LinkCosts
from ..results import LinkPlan
from ..results._run import Array
from ._figures import Picture
from ._link_figures import history_figure, pair_figure, terms_figure
from ._network_figure import Layout, layout, network_figure
from ._sections import Cell, Column, Summary, Table
from ._words import MISSING_NUMBER, count, decimals, listed, number, percent, printable

_TABLED_PAIRS = 12


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of devices beside their costs; arrays are in the order of the plan."""

    labelled: Array | None = None
    unlabelled: Array | None = None
    errors: Array | None = None
    divergence: Array | None = None
    measure: str = "divergence"
    unit: str = ""
    phi: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class PlanParts:
    """Everything about a plan that a template shows."""

    network: Picture
    links: Table | None
    devices: Table
    transfer: Picture
    energy: Picture
    divergence: Picture | None
    pairs: list[Table]
    terms: Picture
    facts: list[tuple[str, str]]
    history: Picture | None
    details: Table | None


def plan_summary(plan: LinkPlan, costs: LinkCosts, known: Known) -> Summary:
    """The plan in a few sentences."""
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
    worth = f"The plan costs {number(plan.objective)}"
    if plan.optimal:
        sentences.append(f"{worth}, and it is proven that no plan costs less.")
    elif np.isfinite(plan.lower_bound):
        sentences.append(
            f"{worth}; no plan costs less than {number(plan.lower_bound)} (gap {gap(plan)})."
        )
    else:
        sentences.append(f"{worth}; how much less another plan could cost is not known.")
    warnings = [] if plan.optimal else [f"Not proven optimal: {printable(plan.status, 400)}"]
    if plan.unserved:
        names = listed([printable(name) for name in plan.unserved])
        verb = "is" if len(plan.unserved) == 1 else "are"
        warnings.append(f"{names} {verb} served by nobody: no model reaches them.")
    return Summary(sentences, warnings)


def plan_parts(plan: LinkPlan, costs: LinkCosts, known: Known) -> PlanParts:
    """Figures and tables of a plan."""
    placed = layout(plan)
    order = placed.order
    pairs = np.ix_(order, order)
    names = [plan.names[k] for k in order]
    open_pairs = np.isfinite(costs.links)
    transfer = np.where(open_pairs, costs.transfer, np.nan)[pairs]
    energy = np.where(open_pairs, costs.energy, np.nan)[pairs]
    strip = np.where(costs.eligible, costs.source, np.nan)[order]
    linked = plan.alpha[pairs]
    divergence = None
    if known.divergence is not None:
        values = known.divergence[pairs].copy()
        np.fill_diagonal(values, np.nan)
        divergence = pair_figure(
            names,
            values,
            what=known.measure,
            caption="How far apart the records of two devices are.",
            links=linked,
            ends=("device", "device"),
        )
    return PlanParts(
        network=network_figure(plan, costs.energy, placed, known.unit),
        links=links_table(plan, costs, known) if plan.links else None,
        devices=devices_table(plan, costs, known, placed),
        transfer=pair_figure(
            names,
            transfer,
            what="transfer cost T",
            caption="Cost of using the model of a row's device at a column's, before any scale; "
            "S, in colours of its own, is the cost of training at a device.",
            links=linked,
            strip=strip,
        ),
        energy=pair_figure(
            names,
            energy,
            what=f"energy of a link ({known.unit})" if known.unit else "energy of a link",
            caption="Energy of sending one model from a row's device to a column's.",
            links=linked,
        ),
        divergence=divergence,
        pairs=_pair_tables(names, transfer, energy, known),
        terms=terms_figure(plan),
        facts=_facts(plan, known),
        history=history_figure(plan),
        details=_details(plan.details),
    )


def links_table(plan: LinkPlan, costs: LinkCosts, known: Known) -> Table:
    """Every link, the heaviest of each target first."""
    columns = (
        Column("target", numeric=False),
        Column("source", numeric=False),
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


def devices_table(plan: LinkPlan, costs: LinkCosts, known: Known, placed: Layout) -> Table:
    """Every device with its role and what is known of it."""
    columns = [Column("device", numeric=False), Column("role", numeric=False)]
    columns += [Column("may train", numeric=False)]
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


def _pair_tables(names: list[str], transfer: Array, energy: Array, known: Known) -> list[Table]:
    if len(names) > _TABLED_PAIRS:
        return []
    shown = [printable(name, 28) for name in names]
    columns = (Column("source", numeric=False), *(Column(name) for name in shown))
    tables: list[Table] = []
    unit = f" ({known.unit})" if known.unit else ""
    for title, values in (("Transfer cost T", transfer), (f"Energy of a link{unit}", energy)):
        rows = [
            (Cell(name), *(Cell(number(float(value))) for value in row))
            for name, row in zip(shown, values, strict=True)
        ]
        tables.append(Table(f"{title}; columns are targets.", columns, rows))
    return tables


def _facts(plan: LinkPlan, known: Known) -> list[tuple[str, str]]:
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
    return Table("What the method says of itself.", (Column("", False), Column("value")), rows)
