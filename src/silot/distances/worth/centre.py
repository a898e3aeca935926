"""What FedBary knows between rounds: the barycenter and every holder's coupling to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...errors import WireError
from ...federation.answer import Answer, Array
from ..questions.labelled import Codes


@dataclass(frozen=True)
class Coupling:
    """A coupling of one holder's records with the atoms, as much of it as the holder told.

    Attributes
    ----------
    means
        Mean of the records that go to each atom (S, d).
    scatter
        Transport cost from the records to those means, class by class (C,).
    masses
        Mass of each class (C,).
    optimal
        Whether the plan behind it was proven optimal.
    """

    means: Array = field(repr=False)
    scatter: Array = field(repr=False)
    masses: Array
    optimal: bool

    @classmethod
    def of(cls, answer: Answer, atoms: Array, codes: Codes, t: float) -> Coupling:
        """Read an answer to ``InterpolateByClass`` about ``atoms``."""
        moved = answer.array("atoms", ndim=2, columns=atoms.shape[1])
        scatter, masses = answer.array("scatter", ndim=1), answer.array("masses", ndim=1)
        _check(moved, atoms, scatter, masses, int(codes.max()) + 1)
        return cls((moved - t * atoms) / (1.0 - t), scatter, masses, answer.flag("optimal"))

    def costs(self, atoms: Array, weights: Array, codes: Codes) -> Array:
        """Transport cost of the coupling to ``atoms``, class by class (C,)."""
        spread = np.einsum("ij,ij->i", self.means - atoms, self.means - atoms)
        within = weights / np.bincount(codes, weights, minlength=len(self.masses))[codes]
        return self.scatter + np.bincount(codes, within * spread, minlength=len(self.masses))

    def better_of(self, other: Coupling, atoms: Array, weights: Array, codes: Codes) -> Coupling:
        """The cheaper of two couplings to ``atoms``, class by class."""
        first, second = (one.costs(atoms, weights, codes) for one in (self, other))
        take = second < first
        return Coupling(
            np.where(take[codes][:, None], other.means, self.means),
            np.where(take, other.scatter, self.scatter),
            self.masses,
            self.optimal and other.optimal,
        )


def _check(moved: Array, atoms: Array, scatter: Array, masses: Array, classes: int) -> None:
    """Check that the shapes and masses of an answer fit the question."""
    fits = moved.shape == atoms.shape and scatter.shape == masses.shape == (classes,)
    if not fits or masses.min() < 0 or masses.sum() > 1 + 1e-6 or scatter.min() < 0:
        raise WireError(
            "the answer does not fit the atoms it was asked about. The holder runs other code, "
            "or a broken one.",
            code="answer-malformed",
        )


@dataclass
class Centre:
    r"""The barycenter so far.

    The objective is :math:`\sum_i \lambda_i \sum_c m_{ic} C_{ic}`, with the class masses
    :math:`m_{ic}` and the costs :math:`C_{ic}` of the couplings at hand: an upper bound of the
    objective with optimal couplings, that no step raises.
    """

    atoms: Array
    weights: Array
    codes: Codes
    shares: dict[str, float]
    couplings: dict[str, Coupling] = field(default_factory=dict[str, Coupling])
    history: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])

    def drop(self, name: str) -> None:
        """Go on without a holder."""
        self.couplings.pop(name, None)
        self.shares.pop(name)
        total = sum(self.shares.values())
        for other in self.shares:
            self.shares[other] /= total

    def take(self, name: str, found: Coupling) -> None:
        """Keep the better of a new coupling and the one at hand."""
        known = self.couplings.get(name)
        self.couplings[name] = (
            found if known is None else known.better_of(found, self.atoms, self.weights, self.codes)
        )

    @property
    def coupled(self) -> dict[str, float]:
        """Shares of the holders that told a coupling, by name; they sum to 1."""
        if self.couplings.keys() == self.shares.keys():
            return self.shares
        total = sum(self.shares[name] for name in sorted(self.couplings))
        return {name: self.shares[name] / total for name in self.couplings}

    @property
    def objective(self) -> float:
        """Weighted cost of all couplings."""
        return self.objective_at(self.atoms)

    def objective_at(self, atoms: Array) -> float:
        """Weighted cost of all couplings, with the atoms elsewhere."""
        total = 0.0
        for name, share in sorted(self.coupled.items()):
            coupling = self.couplings[name]
            costs = coupling.costs(atoms, self.weights, self.codes)
            total += share * float(coupling.masses @ costs)
        return total

    def move(self) -> None:
        """Put every atom at the weighted mean of what goes to it: the best for these couplings."""
        pull = np.zeros(len(self.atoms))
        total = np.zeros_like(self.atoms)
        for name, share in sorted(self.coupled.items()):
            coupling = self.couplings[name]
            mass = share * coupling.masses[self.codes]
            pull += mass
            total += mass[:, None] * coupling.means
        held = pull > 0
        self.atoms = np.where(held[:, None], total / np.where(held, pull, 1.0)[:, None], self.atoms)

    def note(self, k: int) -> None:
        """Add to the history what is known after a round."""
        holders = float(len(self.couplings))
        self.history.append({"round": float(k), "objective": self.objective, "holders": holders})

    def reference(self, name: str, place: float) -> Array:
        """The holder's reference: at ``place`` of the way from the barycenter to its records."""
        coupling = self.couplings.get(name)
        if coupling is None or place == 0:
            return self.atoms
        return (1.0 - place) * self.atoms + place * coupling.means

    @property
    def lower(self) -> float:
        """Lower bound of the objective of every measure, from the holders' class means."""
        total = 0.0
        largest = 0.0
        classes = int(self.codes.max()) + 1
        inside = np.zeros((classes, len(self.atoms)))
        inside[self.codes, np.arange(len(self.atoms))] = self.weights
        inside /= inside.sum(axis=1, keepdims=True)
        names = sorted(self.shares)
        means = np.stack([inside @ self.couplings[name].means for name in names])
        mass = np.stack([self.shares[name] * self.couplings[name].masses for name in names])
        for code in range(classes):
            if mass[:, code].sum() <= 0:
                continue
            centre = mass[:, code] @ means[:, code] / mass[:, code].sum()
            total += float(mass[:, code] @ np.sum((means[:, code] - centre) ** 2, axis=1))
            largest = max(largest, float(np.abs(means[:, code]).max()))
        rounding = 1e-12 * total + (1e-13 * largest) ** 2 * self.atoms.shape[1]
        return max(total - rounding, 0.0)
