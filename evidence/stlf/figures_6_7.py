"""ST-LF, figures 6 and 7: links and energy as the price of energy rises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import silot
from evidence.common import Context
from evidence.report import Claim, Judged, Report, Table, verdict
from evidence.stlf._devices import SINGLE, Pools, device_network
from evidence.stlf.table_1 import adapted
from silot.teaching import PublishedSolver
from silot.teaching.costs import LinkCosts
from silot.teaching.gp import GeometricProgram

FALLS = Claim(
    "energy and transmissions fall step by step as phi_E rises", "13 to 20 transmissions saved"
)

SEEDS = (range(100, 103), range(100, 105))  # as usual, and with --full
PRICES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
AUTHORS = "stored runs"
SOLVERS = (AUTHORS, "as printed", "corrected", "exact")
# Weights below this are links the published solver has given up.
_LINK = 0.01


@dataclass(frozen=True)
class Use:
    """What a plan uses."""

    links: int
    energy: float
    sources: int
    phantom: int


QUICK = {"SEEDS": (range(100, 101),), "PRICES": (0.0, 1000.0), "SINGLE": SINGLE[:1]}


def run(context: Context) -> Report:
    pools = Pools(context)
    seeds = context.size(SEEDS)
    rows: list[list[str]] = []
    found: dict[tuple[str, str, float], list[Use]] = {}
    for setting in SINGLE:
        for seed in seeds:
            known = adapted(
                device_network(setting, seed, pools), objective="bound", divergence="mmd",
                constants="natural",
            )  # fmt: skip
            for price in PRICES:
                costs = LinkCosts(
                    known.source, known.transfer, known.link_energy,
                    phi=(1.0, 5.0, price), names=known.names,
                    eligible=[name in known.parameters for name in known.names],
                )  # fmt: skip
                for solver in SOLVERS:
                    found.setdefault((setting, solver, price), []).append(_use(costs, solver))
        context.say(setting)
        for solver in SOLVERS:
            free = [use.energy for use in found[setting, solver, 0.0]]
            cells = []
            for price in PRICES:
                uses = found[setting, solver, price]
                share = 100 * np.mean([u.energy / f for u, f in zip(uses, free, strict=True)])
                means = np.mean([(u.links, u.sources, u.phantom) for u in uses], axis=0)
                cells.append(" / ".join([f"{share:.0f}", *map("{:.1f}".format, means)]))
            rows.append([setting, solver, *cells])
    table = Table(
        "Energy in per cent of that at phi_E = 0 / links / sources that send / phantom links, mean "
        "over seeds; columns are phi_E.",
        ["setting", "solver", *(f"{price:g}" for price in PRICES)],
        rows,
    )
    return Report(
        title="ST-LF, figures 6 and 7: links as the price of energy rises",
        about="Energy, links and sources of the plan of ten devices as the scale of energy in "
        "the objective, phi_E, rises: the solver of the authors' stored runs, by which claims are "
        "judged, Algorithm 2 as printed, the same with the missing constraint, and proven optima.",
        claims=judged([table]),
        setup=[
            f"Networks of table I (`stlf-table-1`), settings {', '.join(SINGLE)}, seeds {seeds[0]} "
            f"to {seeds[-1]}; costs by (17) and (18) with natural logarithms, divergence MMD; "
            "phi_S = 1, phi_T = 5.",
            "Stored runs (`method='st-lf'`) and as printed (Algorithm 2 without alpha_ij <= 1 - "
            "psi_i): before any rounding; a link "
            f"is a weight above {_LINK}, phantom when its origin is a target (psi >= .5). "
            "Corrected: with the constraint, rounded by best response. Exact: one source each. ",
        ],
        tables=[table],
    )


def _use(costs: LinkCosts, solver: str) -> Use:
    if solver in SOLVERS[:2]:
        if solver == AUTHORS:
            published = PublishedSolver().run(costs)
            psi, alpha = published.psi[-1], published.alpha
        else:
            relaxed = GeometricProgram(missing_constraint=False).relax(costs)
            psi, alpha = relaxed.psi, relaxed.alpha
        linked = alpha > _LINK
        senders = linked.any(axis=1)
        targets = psi >= 0.5
        energy = float(costs.energy[linked].sum())
        phantom = int(linked[targets].sum())
        return Use(int(linked.sum()), energy, int((senders & ~targets).sum()), phantom)
    plan = silot.teaching.links(costs, method="gp" if solver == "corrected" else "exact")
    senders = (plan.alpha > 0).any(axis=1)
    return Use(len(plan.links), plan.energy, int(senders.sum()), 0)


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the rows, means over settings."""
    cells = [
        (solver, [list(map(float, cell.split(" / "))) for cell in prices])
        for _, solver, *prices in tables[0].rows
    ]
    # By solver: prices (rows) by energy, links, sources and phantom links.
    means = {way: np.mean([of for name, of in cells if name == way], axis=0) for way in SOLVERS}
    links = {way: values[:, 1].tolist() for way, values in means.items()}
    rows = [means[AUTHORS][:, column].tolist() for column in (0, 1)]
    falls = [all(b <= 1.01 * a for a, b in pairwise(row)) for row in rows]
    less = [row[-1] < row[0] for row in rows]
    sources = {way: means[way][:, 2] for way in (AUTHORS, "exact")}
    return [
        FALLS.judged(
            "; ".join(f"{way} {row[0]:.1f} to {row[-1]:.1f} links" for way, row in links.items()),
            verdict(all(falls) and all(less), partly=any(less)),
            "The optimum has one link a target at every price: the objective has no reason to mix.",
        ),
        Claim("for phi_E of 1000 and more all devices become targets", "yes").judged(
            f"stored runs keep {sources[AUTHORS][-1]:.1f} sources that send, the proven optimum "
            f"{sources['exact'][-1]:.1f}; phantom links of the stored runs "
            f"{means[AUTHORS][-1, 3]:.1f}, as printed {means['as printed'][-1, 3]:.1f}",
            verdict(sources[AUTHORS][-1] == 0, partly=sources[AUTHORS][-1] < sources[AUTHORS][0]),
            "A phantom link is one of a target, which no constraint of the paper forbids and no "
            "device can do.",
        ),
    ]
