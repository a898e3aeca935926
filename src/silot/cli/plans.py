"""Options about plans, and the tables a plan is shown in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from ..results import LinkPlan
from ..results._run import Array
from ..results.adaptation import Adaptation
from .console import OUT, bill_rows, number


class LinkMethod(StrEnum):
    """How a plan is found."""

    exact = "exact"
    gp = "gp"
    st_lf = "st-lf"


class MixingChoice(StrEnum):
    """What mixing several sources adds to the objective."""

    none = "none"
    variance = "variance"
    ambiguity = "ambiguity"
    mmd = "mmd"


class ObjectiveChoice(StrEnum):
    """What a plan is to be good at."""

    coverage = "coverage"
    matched = "matched"
    bound = "bound"


class ConstantsChoice(StrEnum):
    """Rademacher constants of the bounds."""

    none = "none"
    natural = "natural"
    log10 = "log10"


MethodOption = Annotated[
    LinkMethod,
    typer.Option(
        "--method", "-m", help="Proven optimum, the paper's own solver, or all as published."
    ),
]
MixingOption = Annotated[
    MixingChoice, typer.Option(help="What mixing several sources adds to the objective.")
]
PhiOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option(help="Scales of training, transfer and energy.", metavar="S T E"),
]
ConstantsOption = Annotated[
    ConstantsChoice | None, typer.Option(help="Constants of the error bounds.")
]
UnservedOption = Annotated[
    float | None, typer.Option(min=0, help="Let targets go unserved, at this cost each.")
]
TimeOption = Annotated[float, typer.Option(help="Most seconds of the solver.")]
GapOption = Annotated[
    float, typer.Option(min=0, help="Relative gap to the bound that is good enough.")
]
ReportOption = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]


def show_plan(
    plan: LinkPlan,
    training: Array,
    transfer: Array,
    energy: Array,
    columns: Mapping[str, Sequence[str]],
) -> None:
    """Devices with what else is known of them, and links; ``training`` is NaN where barred."""
    OUT.print(_devices_table(plan, training, columns), highlight=False)
    if plan.links:
        OUT.print()
        OUT.print(_links_table(plan, transfer, energy), highlight=False)
    OUT.print()


def assumed_energy(given: Path | None, found: Adaptation) -> dict[str, str]:
    """What energies rest on, where no file says what sending a model takes."""
    if given is not None:
        return {}
    size = f"{found.spec.size} parameters of 64 bits"
    return {"assumed": f"{size}, 74 Mbit/s and 24 dBm on every link; give --network FILE"}


def models_bill(found: Adaptation) -> dict[str, str]:
    """What a run on data cost and disclosed, in words."""
    rows = bill_rows(found)
    if found.told_models:
        rows["disclosed"] = "record: parameters of models, which records may be computed back from"
    return rows


def show_adaptation(found: Adaptation) -> None:
    """The same of a run on data, with accuracies where targets told them."""
    names = found.names
    errors = [found.errors.get(name) for name in names]
    columns = {
        "labelled": [str(found.labelled[name]) for name in names],
        "unlabelled": [str(found.unlabelled[name]) for name in names],
        "error": ["-" if error is None else f"{error:.3f}" for error in errors],
    }
    told = [found.accuracies.get(name) for name in names]
    if any(value is not None for value in told):
        columns["accuracy"] = ["" if value is None else f"{100 * value:.1f} %" for value in told]
    trains = np.array([error is not None for error in errors])
    training = np.where(trains, found.source, np.nan)
    show_plan(found.plan, training, found.transfer, found.link_energy, columns)


def _devices_table(plan: LinkPlan, training: Array, columns: Mapping[str, Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("device", overflow="fold")
    table.add_column("role", no_wrap=True)
    for title in (*columns, "S", "links"):
        table.add_column(title, justify="right", no_wrap=True)
    # Sources first, each kind in the order given.
    for k in sorted(range(len(plan.names)), key=lambda k: int(plan.psi[k])):
        name = plan.names[k]
        role = "source" if plan.psi[k] == 0 else "unserved" if name in plan.unserved else "target"
        links = int((plan.alpha[k] > 0).sum() + (plan.alpha[:, k] > 0).sum())
        table.add_row(
            escape(name),
            role,
            *(values[k] for values in columns.values()),
            "-" if np.isnan(training[k]) else number(float(training[k])),
            str(links),
        )
    return table


def _links_table(plan: LinkPlan, transfer: Array, energy: Array) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("source", overflow="fold")
    table.add_column("target", overflow="fold")
    for title in ("weight", "T", "energy J"):
        table.add_column(title, justify="right", no_wrap=True)
    place = {name: k for k, name in enumerate(plan.names)}
    for source, target, weight in sorted(plan.links, key=lambda link: place[link[1]]):
        pair = place[source], place[target]
        table.add_row(
            escape(source),
            escape(target),
            f"{weight:.3f}",
            number(float(transfer[pair])),
            number(float(energy[pair])),
        )
    return table


def plan_rows(plan: LinkPlan) -> dict[str, str]:
    """What a plan costs, in words."""
    terms = plan.terms
    parts = [
        f"sources {number(terms.source)}",
        f"transfer {number(terms.transfer)}",
        f"energy {number(terms.energy)}",
    ]
    if terms.mixing:
        parts.append(f"mixing {number(terms.mixing)}")
    if plan.unserved:
        parts.append(f"unserved {number(terms.unserved)}")
    rows = {
        "objective": f"{number(plan.objective)}: {', '.join(parts)}",
        "lower bound": number(plan.lower_bound),
        "gap": _gap(plan.gap),
        "energy": f"{number(plan.energy)} J on {len(plan.links)} link(s)",
    }
    if plan.unserved:
        rows["unserved"] = ", ".join(plan.unserved)
    return rows | {
        "method": f"{plan.method}, mixing {plan.mixing}, {plan.seconds:.2f} s",
        "status": plan.status,
    }


def _gap(gap: float) -> str:
    if math.isinf(gap):
        return "not known"
    # Less than solvers can tell is none.
    return f"{100 * gap:.2g} %" if gap > 1e-9 else "0"
