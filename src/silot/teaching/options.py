"""Options of an adaptation, checked before any question is sent; what devices' answers cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from ..federation.answer import Array
from ..learning import KINDS, RULES, Kind, ModelSpec, Rule, Training
from ..transport._check import real, whole
from .costs import MIXINGS, LinkCosts, Mixing
from .coverage import solve_coverage
from .devices import Devices, Trained
from .divergence import Divergences
from .divergences import divergence_named
from .matching import Matching
from .network import Network
from .plan import LinkPlan
from .solve import Method, links

Objective = Literal["coverage", "matched", "bound"]
Prior = Literal["auto", "source", "matched"]

# What a link of mean energy must lower the expected error by.
_LINK = 1e-3
# Of a parameter as it travels.
_BITS = 64
# Share of the energy of all links, about that of the paper's table I.
_BUDGET = 0.275


@dataclass(frozen=True)
class Energy:
    """What sending a model costs: rates of all pairs, powers of all devices, size of a model."""

    rates: float | Array
    powers: Mapping[str, float]
    model_bits: float | None
    order: tuple[str, ...]

    def rates_of(self, names: Sequence[str]) -> float | Array:
        """Rates between some devices."""
        if not isinstance(self.rates, np.ndarray):
            return self.rates
        places = [self.order.index(name) for name in names]
        return self.rates[np.ix_(places, places)]


def energy_options(
    holders: tuple[str, ...],
    rates: npt.ArrayLike,
    powers: float | Mapping[str, float],
    model_bits: float | None,
) -> Energy:
    """Check rates (one number, or a row and a column for each holder) and powers in dBm."""
    try:
        table = np.asarray(rates, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("rates are no numbers.", code="option-rates") from None
    size = len(holders)
    if table.shape not in ((), (size, size)):
        raise MismatchError(
            f"rates have shape {table.shape}; one number or {(size, size)} is needed.",
            code="costs-shape",
        )
    told = table if table.shape == () else table[~np.eye(size, dtype=bool)]
    if not np.isfinite(told).all() or (told < 0).any() or (table.shape == () and table == 0):
        raise InputError("rates must be positive; a rate of 0 bars a link.", code="option-rates")
    if isinstance(powers, Mapping):
        strange = sorted(set(powers) - set(holders))
        if strange or len(powers) < size:
            raise MismatchError(
                f"powers are of {len(powers)} devices; one of each holder is needed.",
                code="device-names",
            )
        by_name = {name: real(powers[name], "power", "option-power") for name in holders}
    else:
        by_name = dict.fromkeys(holders, real(powers, "the power in dBm", "option-power"))
    if model_bits is not None and not real(model_bits, "model_bits", "option-model-bits") > 0:
        raise InputError("model_bits must be positive.", code="option-model-bits")
    return Energy(float(table) if table.shape == () else table, by_name, model_bits, holders)


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
    return replace(
        bound,
        source=source,
        transfer=transfer,
        phi=choices.phi or default_phi(choices.objective, bound.energy),
        eligible=np.array([name in trained for name in names]),
        disagreement=disagreement,
        shares=None if matching is None else matching.shares,
        class_errors=None if matching is None else matching.errors,
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


def check_choices(
    objective: str,
    mixing: str,
    rule: str,
    prior: str,
    divergence: str,
    options: Mapping[str, Any] | None,
) -> None:
    """Raise unless every name is known, and they go together."""
    for value, known, name, code in (
        (objective, get_args(Objective), "objective", "option-objective"),
        (mixing, MIXINGS, "mixing", "option-mixing"),
        (rule, RULES, "rule", "option-rule"),
        (prior, get_args(Prior), "prior", "option-prior"),
    ):
        if value not in known:
            raise InputError(f"{name} is {value!r}; give one of {', '.join(known)}.", code=code)
    if objective == "coverage" and mixing != "none":
        raise InputError(
            "objective='coverage' has its own reason to mix sources. Leave mixing out, or give "
            "objective='matched'.",
            code="option-mixing",
        )
    if prior != "source" and (objective == "bound" or rule == "parameter"):
        raise InputError(
            f"prior={prior!r} needs the class proportions that objective='coverage' or 'matched' "
            "estimates, and a rule other than 'parameter'.",
            code="option-prior",
        )
    if mixing == "mmd" and divergence != "mmd":
        raise InputError(
            "mixing='mmd' needs divergence='mmd', which tells the kernel.", code="option-mixing"
        )
    if divergence == "none" and options:
        raise InputError(
            "divergence_options are given, and no divergence. Give divergence='mmd'.",
            code="option-divergence",
        )
    if divergence != "none":
        divergence_named(divergence)
    elif objective == "bound":
        raise InputError(
            "objective='bound' needs a divergence. Give divergence='mmd'.", code="option-divergence"
        )


def check_use(objective: str, **chosen: bool) -> None:
    """Raise where an option was chosen that the objective has no use for."""
    useless: dict[str, tuple[str, ...]] = {
        "coverage": ("method", "constants", "delta", "unlabelled_error"),
        "matched": ("budget", "constants", "delta", "unlabelled_error"),
        "bound": ("budget",),
    }
    for name in useless[objective]:
        if chosen[name]:
            users = " or ".join(kind for kind, without in useless.items() if name not in without)
            raise InputError(
                f"objective={objective!r} has no use for {name}. Leave it out, or give "
                f"objective={users}.",
                code="option-objective",
            )


def check_phi(phi: Sequence[float]) -> tuple[float, ...]:
    """Scales of the objective as a tuple; how many there are is checked with the others."""
    if isinstance(phi, str) or not isinstance(phi, Sequence | np.ndarray):
        raise InputError(f"phi is {phi!r}; three numbers are needed.", code="costs-type")
    return tuple(real(value, "phi", "costs-type") for value in phi)


def check_model(model: ModelSpec | str, shape: Sequence[int] | None) -> ModelSpec | str:
    """A description, or the kind of one to be made when the records are known."""
    if isinstance(model, ModelSpec):
        if shape is not None:
            raise InputError("a ModelSpec has a shape: leave shape out.", code="model-shape")
        return model
    if model not in KINDS:
        raise InputError(
            f"model is {model!r}; give one of {', '.join(KINDS)}, or a ModelSpec(...).",
            code="model-kind",
        )
    if (model == "cnn") == (shape is None):
        raise InputError(
            "a cnn needs the shape of its images (shape, such as 28x28), and other models take "
            f"none; model is {model!r} and shape {shape}.",
            code="model-kind",
        )
    if shape is not None:
        # Checks the shape; the number of classes is not known yet.
        ModelSpec(cast("Kind", model), tuple(shape), 2)
    return model


def check_training(options: Training, folds: int) -> Training:
    """Check what training at devices would raise there."""
    whole(folds, "folds", "option-folds", least=0, most=100)
    if folds == 1:
        raise InputError("folds is 1; give 0 for none, or two or more.", code="option-folds")
    whole(options.get("iterations"), "iterations", "option-iterations", least=1, most=1_000_000)
    whole(options.get("batch"), "batch", "option-batch")
    whole(options.get("seed"), "seed", "option-seed", least=0, most=1 << 62)
    rate = real(options.get("rate"), "rate", "option-rate")
    momentum = real(options.get("momentum"), "momentum", "option-momentum")
    passes = real(options.get("passes"), "passes", "option-passes")
    if not (rate > 0 and 0 <= momentum < 1 and passes >= 0):
        raise InputError(
            "rate > 0, 0 <= momentum < 1 and passes >= 0 are needed.", code="option-training"
        )
    return options


def check_classes(classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of classes: two or more different texts."""
    if classes is None:
        return None
    names = tuple(classes)
    texts: list[Any] = [name for name in names if isinstance(name, str)]
    if isinstance(classes, str) or len(set(texts)) != len(names) or len(names) < 2:
        raise InputError("classes must be two or more different texts.", code="option-classes")
    return names
