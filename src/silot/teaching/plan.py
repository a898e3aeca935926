"""Who teaches whom: the plan of a network, what it costs, and how far from the best it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..federation.result import Array, finite, finite_rows
from ..render.shown import Shown

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LinkTerms:
    r"""The parts of a plan's objective, each already multiplied by its scale; they sum to it.

    Attributes
    ----------
    source
        :math:`\phi_S \sum_i (1 - \psi_i) S_i`.
    transfer
        :math:`\phi_T \sum_{ij} \alpha_{ij} T_{ij}`.
    energy
        :math:`\phi_E \sum_{ij} K_{ij} [\alpha_{ij} > 0]`.
    mixing
        :math:`\phi_T` times what mixing several sources adds to the targets' costs; negative
        where it helps (``"ambiguity"``).
    unserved
        Cost of the targets that nobody serves.
    """

    source: float
    transfer: float
    energy: float
    mixing: float = 0.0
    unserved: float = 0.0

    @property
    def total(self) -> float:
        """The objective."""
        return self.source + self.transfer + self.energy + self.mixing + self.unserved


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkPlan(Shown):
    r"""Which devices train, which receive, and over which links with which weights.

    Attributes
    ----------
    names
        Devices, in the order of all arrays.
    psi
        Shape (N,): 0 for a source, 1 for a target.
    alpha
        Shape (N, N): ``alpha[i, j]`` is the weight of source i's model at target j. Columns of
        served targets sum to 1, all others are 0, and only rows of sources are not 0.
    objective, terms
        The exact objective, and its parts.
    lower_bound
        No plan can have a smaller objective. ``-inf`` when the method proves nothing.
    gap
        ``(objective - lower_bound) / max(1, abs(objective))``.
    status
        In words: proven optimal, or what stopped it and what to change.
    optimal
        Whether the gap is within the tolerance that was asked for.
    seconds
        Time of the solver.
    method, mixing
        What was solved, and with which objective.
    energy
        Energy of all links together, in the units of ``LinkCosts.energy`` (joule from
        ``Network.costs``), not multiplied by any scale.
    unserved
        Targets that nobody serves (only with ``allow_unserved``).
    history
        Of an iterative method: one entry an iteration, by name.
    details
        Of a method: numbers about how it got there.
    """

    view: ClassVar = "links_view:links"

    names: tuple[str, ...]
    psi: npt.NDArray[np.int64]
    alpha: Array
    objective: float
    terms: LinkTerms
    lower_bound: float
    gap: float
    status: str
    optimal: bool
    seconds: float
    method: str
    mixing: str = "none"
    energy: float = 0.0
    unserved: tuple[str, ...] = ()
    history: tuple[Mapping[str, float], ...] = ()
    details: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the devices that train."""
        return tuple(name for name, kind in zip(self.names, self.psi, strict=True) if kind == 0)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the devices that receive."""
        return tuple(name for name, kind in zip(self.names, self.psi, strict=True) if kind == 1)

    @property
    def links(self) -> tuple[tuple[str, str, float], ...]:
        """Every link as (source, target, weight)."""
        rows, columns = np.nonzero(self.alpha)
        return tuple(
            (self.names[i], self.names[j], float(self.alpha[i, j]))
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "names": list(self.names),
            "psi": self.psi.tolist(),
            "alpha": finite_rows(self.alpha),
            "sources": list(self.sources),
            "targets": list(self.targets),
            "links": [
                {"source": source, "target": target, "weight": weight}
                for source, target, weight in self.links
            ],
            "objective": finite(self.objective),
            "terms": {
                name: finite(float(getattr(self.terms, name)))
                for name in ("source", "transfer", "energy", "mixing", "unserved")
            },
            "lower_bound": finite(self.lower_bound),
            "gap": finite(self.gap),
            "status": self.status,
            "optimal": self.optimal,
            "seconds": self.seconds,
            "method": self.method,
            "mixing": self.mixing,
            "energy": finite(self.energy),
            "unserved": list(self.unserved),
            "history": [dict(entry) for entry in self.history],
            "details": {name: finite(value) for name, value in self.details.items()},
        }
