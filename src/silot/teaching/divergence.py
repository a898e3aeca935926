"""How far apart devices' data are, by a divergence of choice, with a bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import erf

from ..federation.result import Array, Billed, finite, finite_rows

Law = Literal["half", "root", "normal"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Divergences(Billed):
    r"""A divergence between every two devices.

    Attributes
    ----------
    names
        Devices that answered, in the order they were given.
    values
        Shape (N, N), symmetric, zero diagonal.
    method
        How they were found.
    unit
        What a value of 1 means, in words.
    law
        How ``as_error`` reads values: ``"half"`` of them, their part of ``"root"`` two, or as the
        gap of two ``"normal"`` laws.
    scale
        For ``"normal"``: standard deviation of a device's records, in the unit of the values.
    lower, upper
        Certified bounds, shape (N, N); ``None`` where the method certifies nothing.
    errors
        Shape (N, N) for ``"classifier"``, else ``None``: ``[i, j]`` is the share of device i's
        mass that the classifier of devices i and j takes for j's.
    kernel
        Shape (N, N) for ``"mmd"``, else ``None``: inner products of mean embeddings, positive
        semidefinite, for ``LinkCosts(kernel=...)``.
    details
        Of the method: numbers it chose, by name.
    status, converged
        What kind of numbers these are, in words, and whether nothing stopped early.
    seed
        Seed of the run.
    missing
        Devices without an answer, and why (a code).
    """

    view: ClassVar = "view:divergences"

    names: tuple[str, ...]
    values: Array
    method: str
    unit: str
    law: Law
    status: str
    seed: int
    scale: float | None = None
    lower: Array | None = None
    upper: Array | None = None
    errors: Array | None = None
    kernel: Array | None = None
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    history: tuple[Mapping[str, float], ...] = ()
    converged: bool = True
    missing: Mapping[str, str] = field(default_factory=dict[str, str])

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """The divergence of two devices."""
        a, b = pair
        return float(self.values[self.names.index(a), self.names.index(b)])

    def as_error(self) -> Array:
        r"""The divergences in units of error, from 0 to 1: ``½ d`` of the transfer cost (18).

        A model's error on two devices with one labelling function differs by their total
        variation at most. Every method is read as an estimate of it:

        =============  ==============================================================
        law            value v
        =============  ==============================================================
        ``"half"``     :math:`v / 2`, for ``"classifier"``: a classifier shows that much of it
        ``"root"``     :math:`v / \sqrt 2`, for ``"mmd"``: as the kernel is at most 1,
                       :math:`\mathrm{MMD} \le \sqrt 2\, \mathrm{TV}`
        ``"normal"``   :math:`2 \Phi(v / 2 s) - 1`, for distances, with s = ``scale``: the
                       total variation of two normal laws of standard deviation s on the
                       line, v apart
        =============  ==============================================================

        The first two never exceed the total variation of what was compared (up to the
        sampling error of the estimate); the third is a reading of a length, no bound.

        Returns
        -------
        numpy.ndarray
            Shape (N, N), symmetric, zero diagonal. It grows with the values.
        """
        if self.law == "half":
            return np.clip(0.5 * self.values, 0.0, 1.0)
        if self.law == "root":
            return np.clip(self.values / np.sqrt(2.0), 0.0, 1.0)
        scale = self.scale or 0.0
        if scale == 0.0:
            # Without any spread, devices that differ have nothing in common.
            return np.where(self.values > 0, 1.0, 0.0)
        return np.asarray(erf(self.values / (2.0 * np.sqrt(2.0) * scale)), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        tables = {
            name: None if table is None else finite_rows(table)
            for name, table in (
                ("lower", self.lower),
                ("upper", self.upper),
                ("errors", self.errors),
                ("kernel", self.kernel),
            )
        }
        return {
            "names": list(self.names),
            "method": self.method,
            "values": finite_rows(self.values),
            "as_error": finite_rows(self.as_error()),
            "unit": self.unit,
            **tables,
            "scale": None if self.scale is None else finite(self.scale),
            "status": self.status,
            "converged": self.converged,
            "details": {name: finite(value) for name, value in self.details.items()},
            "history": [dict(entry) for entry in self.history],
            "missing": dict(self.missing),
            **self._bill_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        return f"Divergences({len(self.names)} devices, {self.method}, {self.status.split(':')[0]})"
