"""What a network costs, and what a plan of it is to be good at: one object for each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import InputError, MismatchError
from ..federation.answer import Array
from ..options import Check, anything, none_or, number, option, word
from .costs import LinkCosts, checked_phi
from .coverage import solve_coverage
from .federated import ModelSpec
from .federated.modelling import Devices, Means, Trained
from .matching import Matching
from .network import Constants, Network
from .plan import LinkPlan
from .result import Divergences
from .solve import Links

# Of a parameter as it travels.
_BITS = 64
# The paper's scales.
PHI = (1.0, 5.0, 1.0)


@dataclass(frozen=True)
class Evidence:
    """What devices disclosed that costs are made of; what no option needs is ``None``."""

    devices: Devices
    classes: tuple[str, ...]
    trained: Mapping[str, Trained]
    spec: ModelSpec
    means: Mapping[str, Means]
    apart: Divergences | None
    matching: Matching | None

    @property
    def models(self) -> dict[str, Array]:
        """Trained parameters of the devices that take part."""
        present = self.devices.counted
        return {k: item.parameters for k, item in self.trained.items() if k in present}

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Labelled records of every device by class, (N, C)."""
        counted = self.devices.counted
        return np.stack([counted[name].by_class(self.classes) for name in self.devices.names])

    @property
    def records(self) -> list[int]:
        """Records of every device, labelled or not."""
        return [self.devices.counted[name].records for name in self.devices.names]

    def rows(self, powers: Mapping[str, float]) -> list[dict[str, Any]]:
        """Describe devices as a ``Network`` does."""
        rows: list[dict[str, Any]] = []
        for name in self.devices.names:
            item = self.devices.counted[name]
            error = self.trained[name].error if name in self.trained else 1.0
            rows.append(
                {
                    "name": name,
                    "labelled": item.labelled,
                    "unlabelled": item.unlabelled,
                    "error": error if item.labelled else None,
                    "power_dbm": powers[name],
                }
            )
        return rows


def _rates(value: Any, *_: str) -> float | Array:
    """Return one rate, or a table of the rates of all pairs."""
    try:
        table = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("rates are no numbers.", code="option-rates") from None
    if table.shape:
        return table
    return value if isinstance(value, float) else float(table)


class Costs(Links):
    """What a network costs, and how its links are chosen at these costs."""

    phi: Sequence[float] | None = option(
        "Scales of source errors, target errors and energy (joule). By default (1, 5, 1), the "
        'paper\'s; for ``"coverage"`` (0, 1, .001 a mean link): all that may are sources, and a '
        "link must lower the expected error of a target by .001.",
        none_or(
            Check(
                checked_phi,
                tuple[float, float, float],  # type: ignore[arg-type]
                "three floats",
                metavar="S T E",
            )
        ),
        default=None,
        brief="Scales of training, transfer and energy.",
    )
    constants: Constants | None = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("{'none', 'natural', 'log10'}, or None", get_args(Constants)),
        default=None,
        brief="Constants of the error bounds.",
    )
    delta: float = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("float, between 0 and 1"),
        default=0.1,
    )
    unlabelled_error: float | None = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("float, from 0 to 1, or None"),
        default=1.0,
    )
    mixing_scale: float = option(
        "Factor of what mixing adds, as of ``LinkCosts``.",
        anything("float, 0 or more"),
        default=1.0,
    )
    rates: npt.ArrayLike = option(
        "Mbit/s of all pairs: one number, or a row and a column for each holder in the order "
        "given.",
        Check(_rates, None, "float or array (N, N)"),
        default=74.0,
    )
    powers: float | Mapping[str, float] = option(
        "dBm of all devices: one number, or by name.",
        anything("float, or mapping of names to floats"),
        default=24.0,
    )
    model_bits: float | None = option(
        "Bits of a model: by default those of its parameters as they travel, 64 each (the "
        "paper's: 1e9).",
        none_or(number(above=0)),
        default=None,
        flag=False,
    )

    def check_holders(self, names: tuple[str, ...]) -> None:
        """Raise where rates and powers are not of these devices."""
        rates, size = np.asarray(self.rates), len(names)
        if rates.shape not in ((), (size, size)):
            raise MismatchError(
                f"rates have shape {rates.shape}; one number or {(size, size)} is needed.",
                code="costs-shape",
            )
        pairs = rates if rates.shape == () else rates[~np.eye(size, dtype=bool)]
        if not np.isfinite(pairs).all() or (pairs < 0).any() or (rates.shape == () and rates == 0):
            raise InputError(
                "rates must be positive; a rate of 0 bars a link.", code="option-rates"
            )
        self._powers_of(names)

    def _powers_of(self, names: tuple[str, ...]) -> dict[str, float]:
        if not isinstance(self.powers, Mapping):
            return dict.fromkeys(names, real(self.powers, "the power in dBm", "option-power"))
        strange = sorted(set(self.powers) - set(names))
        if strange or len(self.powers) < len(names):
            raise MismatchError(
                f"powers are of {len(self.powers)} devices; one of each holder is needed.",
                code="device-names",
            )
        return {name: real(self.powers[name], "power", "option-power") for name in names}

    def toy(self) -> LinkCosts:
        """Compute costs of a network of two, which raises at once what a network refuses."""
        return Network(
            devices=({"name": "a", "labelled": 9, "error": 0.1}, {"name": "b", "labelled": 0,
                     "unlabelled": 9}),
            divergence=[[0.0, 1.0], [1.0, 0.0]], phi=self.phi or PHI, **self._bound,
        ).costs()  # fmt: skip

    @property
    def _bound(self) -> dict[str, Any]:
        return self.values("constants", "delta", "unlabelled_error", "mixing_scale")

    def costs_of(self, evidence: Evidence, holders: tuple[str, ...]) -> LinkCosts:
        """Compute costs of the network by eq. 17 and 18, or by errors where these are estimated.

        ``holders`` are in the order of the rows and columns of ``rates``.
        """
        names = evidence.devices.names
        half = self._pair_costs(evidence.apart, names)
        rows, rates = evidence.rows(self._powers_of(holders)), self.rates
        if isinstance(rates, np.ndarray):
            rates = rates[np.ix_(*[[holders.index(name) for name in names]] * 2)]
        bound = Network(
            devices=tuple(rows),
            divergence=2.0 * half,
            rates_mbit=rates,
            model_bits=self.model_bits or float(_BITS * evidence.spec.size),
            **self._bound,
        ).costs()
        bound = replace(
            bound,
            phi=self.phi or self.default_phi(bound.energy),
            eligible=np.array([name in evidence.trained for name in names]),
        )
        matching = evidence.matching
        if matching is None:
            return bound
        return replace(
            bound,
            source=np.array([1.0 if row["error"] is None else row["error"] for row in rows]),
            transfer=matching.transfer,
            shares=matching.shares,
            class_errors=matching.errors,
        )

    def default_phi(self, energy: Array) -> tuple[float, float, float]:
        """Return the scales where ``phi`` is ``None``: the paper's."""
        return PHI

    def _pair_costs(self, apart: Divergences | None, names: tuple[str, ...]) -> Array:
        """Return half of the divergences as errors."""
        if apart is None:
            return np.zeros((len(names),) * 2)
        return apart.as_error()[np.ix_(*[[apart.names.index(name) for name in names]] * 2)]


def energy_share(plan: LinkPlan, costs: LinkCosts) -> float:
    """Compute the plan's energy as a share of that of all links from sources to its targets."""
    possible = np.isfinite(costs.links) & (plan.psi == 1)
    total = float(costs.energy[possible].sum())
    return plan.energy / total if total > 0 else 0.0


Objective = Literal["coverage", "matched", "bound"]

# What a link of mean energy must lower the expected error by.
_LINK = 1e-3
# Share of the energy of all links, about that of the paper's table I.
_BUDGET = 0.275


class Choosing(Costs):
    """What a plan is to be good at."""

    objective: Objective | None = option(
        '``"coverage"``, the default: every class of a target by a source that knows it, within '
        '``budget`` (``adaptation.solve_coverage``). ``"matched"``: the paper\'s objective with '
        'expected errors of ``adaptation.match`` for :math:`T_{ij}`. ``"bound"``: the paper\'s '
        "objective with its eq. 17 and 18.",
        none_or(word(*get_args(Objective))),
        default=None,
        brief="Every class of a target taught, errors matched, or the paper's bound. Default: "
        "coverage, or bound with --method st-lf.",
    )
    budget: float | Literal["auto"] | None = option(
        'For ``"coverage"``: largest share of the energy of all links; one link a target is '
        'always allowed. ``None`` for no limit. ``"auto"`` is .275, about what the paper\'s plans '
        "use, or two links a target where no more than three devices can be sources.",
        anything("float, 'auto' or None", float),
        default="auto",
        brief="For coverage: share of the energy of all links. Default: 0.275, or two links a "
        "target where three devices or fewer have labels.",
    )

    def fit(self) -> None:
        super().fit()
        self.aim.check(self)

    @property
    def aim(self) -> Aim:
        """The objective as an object; ``"coverage"`` where none was given."""
        return AIMS[self.objective or "coverage"]

    def default_phi(self, energy: Array) -> tuple[float, float, float]:
        return self.aim.phi(energy)

    def budget_of(self, sources: int) -> float | None:
        """Return the largest share of the energy of all links, where so many may be sources."""
        if isinstance(self.budget, str) and self.budget != "auto":
            raise InputError(
                f"budget is {self.budget!r}; give a share above 0, 'auto' or None.",
                code="option-budget",
            )
        if self.budget != "auto":
            return self.budget
        # A share of few links is less than two of them, and classes need more than one.
        return _BUDGET if sources > 3 else min(1.0, 2.0 / sources)


class Aim:
    """An objective: here the paper's, with expected errors in place of bounds."""

    name: ClassVar[str] = "matched"
    estimates: ClassVar[bool] = True
    """Whether class proportions and errors at targets are estimated."""
    useless: ClassVar[tuple[str, ...]] = ("budget", "constants", "delta", "unlabelled_error")

    def check(self, options: Choosing) -> None:
        """Raise where options are out of range, or the objective has no use for them."""
        for name in self.useless:
            if getattr(options, name) not in _UNUSED[name]:
                users = " or ".join(k for k, aim in AIMS.items() if name not in aim.useless)
                raise InputError(
                    f"objective={self.name!r} has no use for {name}. Leave it out, or give "
                    f"objective={users}.",
                    code="option-objective",
                )
        self.try_out(options)

    def try_out(self, options: Choosing) -> None:
        """Solve a network of two, which raises at once what the solver refuses."""
        self.solve(options, options.toy())

    def phi(self, energy: Array) -> tuple[float, float, float]:
        """Return the scales where ``phi`` is ``None``: the paper's."""
        return PHI

    def solve(self, options: Choosing, costs: LinkCosts) -> LinkPlan:
        """Solve for the plan that is best at these costs."""
        return options.solve(costs)


class Coverage(Aim):
    """Every class of a target by a source that knows it; energy counts in that of a mean link."""

    name = "coverage"
    useless = ("method", "constants", "delta", "unlabelled_error")

    def check(self, options: Choosing) -> None:
        if options.mixing != "none":
            raise InputError(
                "objective='coverage' has its own reason to mix sources. Leave mixing out, or give "
                "objective='matched'.",
                code="option-mixing",
            )
        super().check(options)

    def try_out(self, options: Choosing) -> None:
        toy = options.toy()
        if options.allow_unserved is not None:
            raise InputError(
                "objective='coverage' serves every target. Leave allow_unserved out.",
                code="option-unserved",
            )
        shares, errors = np.ones((2, 1)), np.ones((2, 2, 1))
        solve_coverage(
            replace(toy, shares=shares, class_errors=errors), budget=options.budget_of(2)
        )

    def phi(self, energy: Array) -> tuple[float, float, float]:
        finite = energy[np.isfinite(energy) & ~np.eye(len(energy), dtype=bool)]
        mean = float(finite.mean()) if len(finite) else 0.0
        return 0.0, 1.0, _LINK / mean if mean > 0 else 0.0

    def solve(self, options: Choosing, costs: LinkCosts) -> LinkPlan:
        return solve_coverage(
            costs,
            budget=options.budget_of(int(costs.eligible.sum())),
            time_limit=options.time_limit,
            gap=options.gap,
        )


class Bound(Aim):
    """The paper's objective, with its bounds."""

    name = "bound"
    estimates = False
    useless = ("budget",)


AIMS: dict[str, Aim] = {aim.name: aim for aim in (Coverage(), Aim(), Bound())}

# Values that say nothing.
_UNUSED: dict[str, tuple[object, ...]] = {
    "method": ("exact",),
    "budget": ("auto",),
    "constants": (None, "none"),
    "delta": (0.1,),
    "unlabelled_error": (1.0,),
}
