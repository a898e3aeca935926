"""What attacks work on: interpolants with all that was known about them, and guesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from silot_transport import exact_plan

Array = npt.NDArray[np.float64]
Form = Literal["rows", "pairs", "cells"]

NO_PARAMETER = "the interpolation parameter was not seen"


class InapplicableError(Exception):
    """An attack does not apply: what the messages lack for it, in words."""


@dataclass(frozen=True)
class Evidence:
    """An interpolant of a target's records towards a known reference.

    Attributes
    ----------
    atoms, weights
        Shapes (k, d) and (k,).
    reference, reference_weights
        Shapes (S, d) and (S,), all weights positive.
    t
        Parameter, ``None`` where the viewpoint was not told it.
    form
        ``"rows"``: one atom a record, in the records' order; ``"pairs"``: one atom for every
        record and atom of the reference that are coupled; ``"cells"``: one atom for every atom
        of the reference, the mean of the records that go to it.
    p
        Order of the plan behind it.
    round
        Exchange it came with.
    source
        How it was obtained: ``"message"``, or the name of the attack that made it.
    whole
        Whether the holder said that no atom is a mixture (``None``: it said nothing).
    group, mass
        Class of the records, and their mass.
    ordered
        Whether atoms of form ``"rows"`` are in the order of the records.
    distance
        ``W_p`` of the records and the reference, where it was told.
    mean
        Mean of the records, where it was told.
    """

    atoms: Array = field(repr=False)
    weights: Array = field(repr=False)
    reference: Array = field(repr=False)
    reference_weights: Array = field(repr=False)
    t: float | None
    form: Form
    p: int = 2
    round: int = 0
    source: str = "message"
    whole: bool | None = None
    group: int = 0
    mass: float = 1.0
    ordered: bool = True
    distance: float | None = None
    mean: Array | None = field(default=None, repr=False)

    @property
    def means(self) -> Array:
        """Means of the records behind the atoms, of form ``"cells"``."""
        t = self.t or 0.0
        return (self.atoms - t * self.reference) / (1.0 - t)

    @property
    def image(self) -> Array:
        """``barycentric_image`` of the atoms."""
        return barycentric_image(
            self.atoms, self.reference, self.weights, self.reference_weights, self.p
        )


@dataclass(frozen=True)
class Guess:
    """What an attack found.

    Attributes
    ----------
    rows
        Guessed records (k, d).
    ordered
        Whether row i stands for the i-th record of positive weight.
    certified
        Whether the messages themselves prove the rows; ``None`` where there is no such check.
    note
        What to add to the verdict.
    sure
        Which rows are proven, where not all are (k,).
    """

    rows: Array = field(repr=False)
    ordered: bool = False
    certified: bool | None = None
    note: str = ""
    sure: npt.NDArray[np.bool_] | None = field(default=None, repr=False)


def barycentric_image(
    points: Array, reference: Array, weights: Array, reference_weights: Array, p: int = 2
) -> Array:
    """Mean of the reference's atoms that an optimal plan sends each point to (n, d)."""
    plan = exact_plan(points, reference, weights, reference_weights, p=p)
    return np.asarray(plan.plan @ reference) / weights[:, None]


def normal(weights: Array) -> Array:
    """Weights that sum to one."""
    return weights / np.sum(weights)


def merged_rows(rows: Array, weights: Array, records: int | None) -> Array:
    """Rows that are one record several times over as one, repeated as its mass says."""
    scale = float(np.abs(rows - rows.mean(axis=0)).max()) or 1.0
    keys = np.rint((rows - rows.mean(axis=0)) / (1e-7 * scale))
    _, first, codes = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(codes.ravel(), weights)
    if records is None:
        return rows[first]
    counts = np.maximum(np.rint(mass / weights.sum() * records).astype(int), 1)
    return np.repeat(rows[first], counts, axis=0) if counts.sum() <= 4 * records else rows[first]
