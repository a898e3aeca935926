"""What a network costs, and what a plan of it is to be good at: one object for each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import InputError, MismatchError
from ..federation.answer import Array
from ..options import Check, anything, none_or, number, option, word
from .costs import LinkCosts, checked_phi
from .federated import ModelSpec
from .federated.modelling import Devices, Means, Trained
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
        'For ``"bound"``: scales of source errors, target errors and energy (joule). By default '
        "(1, 5, 1), the paper's.",
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
        return self.values("constants", "delta", "unlabelled_error")

    def costs_of(self, evidence: Evidence, holders: tuple[str, ...]) -> LinkCosts:
        """Compute costs of the network by eq. 17 and 18, or by errors where these are estimated.

        ``holders`` are in the order of the rows and columns of ``rates``.
        """
        names = evidence.devices.names
        half = self._pair_costs(evidence.apart, names)
        rows, rates = evidence.rows(self._powers_of(holders)), self.rates
        if isinstance(rates, np.ndarray):
            rates = rates[np.ix_(*[[holders.index(name) for name in names]] * 2)]
        costs = Network(
            devices=tuple(rows),
            divergence=2.0 * half,
            rates_mbit=rates,
            model_bits=self.model_bits or float(_BITS * evidence.spec.size),
            **self._bound,
        ).costs()
        return replace(
            costs,
            phi=self.phi or PHI,
            eligible=np.array([name in evidence.trained for name in names]),
        )

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


Objective = Literal["transfer", "bound"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)


class Choosing(Costs):
    """What a plan is to be good at."""

    objective: Objective | None = option(
        '``"transfer"``, the default: every device gets the mixture of least expected Brier score, '
        "from scores of every model where there are labels (``silot.teaching.transfer``). "
        '``"bound"``: the paper\'s objective with its eq. 17 and 18.',
        none_or(word(*OBJECTIVES)),
        default=None,
        brief="Mixtures of least expected error, or the paper's bound. Default: transfer, or bound "
        "with --method st-lf.",
    )
    budget: float | None = option(
        'For ``"transfer"``: largest share of the energy of all links; every device keeps one. '
        "``None`` for no limit.",
        none_or(number(above=0)),
        default=None,
        brief="For transfer: most energy of links, as a share of that of all. Default: no limit.",
    )

    def fit(self) -> None:
        super().fit()
        for name in _OF_BOUND if self.by_transfer else ("budget",):
            if getattr(self, name) not in _UNUSED[name]:
                raise InputError(
                    f"objective={self.objective or 'transfer'!r} has no use for {name}. Leave it "
                    f"out, or give objective={'bound' if self.by_transfer else 'transfer'!r}.",
                    code="option-objective",
                )
        if not self.by_transfer:
            # A network of two, which raises at once what the solver refuses.
            self.solve(self.toy())

    @property
    def by_transfer(self) -> bool:
        """Whether links follow from scores of models, and not from the paper's bound."""
        return self.objective in (None, "transfer")


# Options of the paper's objective alone, and values that say nothing.
_OF_BOUND = (
    "method", "allow_unserved", "phi", "constants", "delta", "unlabelled_error", "gap",
)  # fmt: skip
_UNUSED: dict[str, tuple[object, ...]] = {
    "method": ("exact",),
    "allow_unserved": (None,),
    "phi": (None,),
    "gap": (0.0,),
    "budget": (None,),
    "constants": (None, "none"),
    "delta": (0.1,),
    "unlabelled_error": (1.0,),
}
