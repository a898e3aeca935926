"""Options of an adaptation, and the costs of a network from what its devices told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from ..adaptation import LinkCosts, Method, Mixing, Network, links
from ..adaptation.coverage import solve_coverage
from ..adaptation.matching import Matching
from ..errors import InputError, MismatchError
from ..federation.answer import Array
from ..learning import ModelSpec, Rule, Training
from ..results import LinkPlan
from ..results.divergences import Divergences
from ..transport._check import real
from ._adapt_devices import Devices, Trained
from ._adapt_options import Energy

# What a link of mean energy must lower the expected error by.
_LINK = 1e-3
# Of a parameter as it travels.
_BITS = 64
# Share of the energy of all links, about that of the paper's table I.
_BUDGET = 0.275


@dataclass(frozen=True)
class Choices:
    """Checked options of ``adapt``."""

    model: ModelSpec | str
    shape: tuple[int, ...] | None
    classes: tuple[str, ...] | None
    unlabelled: str
    training: Training
    folds: int
    minimum_labelled: int
    divergence: str
    divergence_options: Mapping[str, Any]
    objective: str
    mixing: Mixing
    mixing_scale: float
    method: str
    phi: tuple[float, ...] | None
    budget: float | Literal["auto"] | None
    bound: Mapping[str, Any]
    allow_unserved: float | None
    features: int
    bandwidth: float | None
    domain_weight: float
    energy: Energy
    rule: Rule
    dimensions: int
    sharpness: float
    prior: str
    time_limit: float
    gap: float
    seed: int

    def check(self) -> None:
        """Solve a network of two: whatever the solver has against the options, it says now."""
        if self.phi is not None and len(self.phi) != 3:
            raise MismatchError(
                f"phi has {len(self.phi)} entries; three are needed.", code="costs-shape"
            )
        toy = Network(
            devices=({"name": "a", "labelled": 9, "error": 0.1}, {"name": "b", "labelled": 0,
                     "unlabelled": 9}),
            divergence=[[0.0, 1.0], [1.0, 0.0]], kernel=[[1.0, 0.0], [0.0, 1.0]],
            model_disagreement=np.zeros((2, 2, 2)), phi=self.phi or (1.0, 5.0, 1.0),
            mixing_scale=self.mixing_scale, **self.bound,
        ).costs()  # fmt: skip
        real(self.gap, "gap", "option-gap")
        if not real(self.time_limit, "time_limit", "option-time-limit") > 0:
            raise InputError("time_limit must be positive.", code="option-time-limit")
        if real(self.domain_weight, "domain_weight", "option-matching") < 0:
            raise InputError("domain_weight is negative.", code="option-matching")
        if self.objective == "coverage":
            if self.allow_unserved is not None:
                raise InputError(
                    "objective='coverage' serves every target. Leave allow_unserved out.",
                    code="option-unserved",
                )
            classes = replace(toy, shares=np.ones((2, 1)), class_errors=np.ones((2, 2, 1)))
            solve_coverage(classes, budget=self.budget_of(2))
        else:
            self.solve(toy)

    def budget_of(self, sources: int) -> float | None:
        """Largest share of the energy of all links, when so many devices may be sources."""
        if isinstance(self.budget, str) and self.budget != "auto":
            raise InputError(
                f"budget is {self.budget!r}; give a share above 0, 'auto' or None.",
                code="option-budget",
            )
        if self.budget != "auto":
            return self.budget
        # A share of few links is less than two of them, and classes need more than one.
        return _BUDGET if sources > 3 else min(1.0, 2.0 / sources)

    def solve(self, costs: LinkCosts) -> LinkPlan:
        """Links by the paper's objective."""
        return links(
            costs,
            method=cast("Method", self.method),
            mixing=self.mixing,
            allow_unserved=self.allow_unserved,
            time_limit=self.time_limit,
            gap=self.gap,
            seed=self.seed,
        )


def costs_of(
    choices: Choices,
    devices: Devices,
    trained: Mapping[str, Trained],
    spec: ModelSpec,
    apart: Divergences | None,
    matching: Matching | None,
    disagreement: Array | None,
) -> LinkCosts:
    """Costs of the network, from what its devices told."""
    names = devices.names
    order = [] if apart is None else [apart.names.index(name) for name in names]
    half = np.zeros((len(names),) * 2)
    if apart is not None:
        half = apart.as_error()[np.ix_(order, order)]
    kernel = None
    if choices.mixing == "mmd" and apart is not None and apart.kernel is not None:
        kernel = apart.kernel[np.ix_(order, order)]
    rows: list[dict[str, Any]] = []
    for name in names:
        item = devices.counted[name]
        error = trained[name].error if name in trained else 1.0
        rows.append(
            {
                "name": name,
                "labelled": item.labelled,
                "unlabelled": item.unlabelled,
                "error": error if item.labelled else None,
                "power_dbm": choices.energy.powers[name],
            }
        )
    bound = Network(
        devices=tuple(rows),
        divergence=2.0 * half,
        rates_mbit=choices.energy.rates_of(names),
        model_bits=choices.energy.model_bits or float(_BITS * spec.size),
        kernel=kernel,
        mixing_scale=choices.mixing_scale,
        **choices.bound,
    ).costs()
    source, transfer = bound.source, bound.transfer
    if matching is not None:
        source = np.array([row["error"] if row["error"] is not None else 1.0 for row in rows])
        transfer = matching.transfer
    return LinkCosts(
        source,
        transfer,
        bound.energy,
        phi=choices.phi or default_phi(choices.objective, bound.energy),
        eligible=np.array([name in trained for name in names]),
        names=names,
        labelled=bound.labelled,
        disagreement=disagreement,
        kernel=bound.kernel,
        shares=None if matching is None else matching.shares,
        class_errors=None if matching is None else matching.errors,
        mixing_scale=choices.mixing_scale,
    )


def default_phi(objective: str, energy: Array) -> tuple[float, float, float]:
    """The paper's scales; for ``"coverage"``, energy in units of that of a mean link."""
    if objective != "coverage":
        return 1.0, 5.0, 1.0
    told = energy[np.isfinite(energy) & ~np.eye(len(energy), dtype=bool)]
    mean = float(told.mean()) if len(told) else 0.0
    return 0.0, 1.0, _LINK / mean if mean > 0 else 0.0


def energy_share(plan: LinkPlan, costs: LinkCosts) -> float:
    """Energy of the plan as a part of that of all links from eligible sources to its targets."""
    possible = np.isfinite(costs.links) & (plan.psi == 1)
    total = float(costs.energy[possible].sum())
    return plan.energy / total if total > 0 else 0.0
