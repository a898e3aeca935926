"""Validation records, and how far other records, or each of their own, are from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from silot_transport import Frame, bounded_coordinates, cost_matrix
from silot_transport._check import Array

from ._arrays import Codes, blocks, quantiles
from .columns import Tails

# Regularisation of the transport, as a share of the mean cost.
_EPSILON = 0.03
# Records that the mean cost is estimated from.
_SAMPLE = 400
# What the log of a share of records says at most, and how much a step of it counts for a class.
_LEAST, _WARMTH = -1e3, 0.3
# Nearest records that a record's place is judged by.
_NEAREST = 5
# The chance of a value below which it is named for how far out it is.
_FAR = 1e-3
# Added to parts before their logs are taken.
_FLOORS = np.array([0.02, 0.0, 1e-3, 1e-3])


class Odd(NamedTuple):
    """How odd records are: parts (n, 4), and for each column (n, d), squared."""

    parts: Array
    columns: Array


class Frames:
    r"""Validation records in two coordinates, and what follows from them.

    In *bounded* coordinates (``transport.bounded_coordinates``) a record has its entropic transport
    potential against the records, or against one class of them. In *standard* ones,
    :math:`z = \mathrm{arsinh}((x - m) / s)` with median ``m`` and quartile range ``s``, which heavy
    tails hardly stretch, it has its distance to its nearest records, and for every column the
    residual given all other columns, in units of what is normal:
    :math:`r_j^2 = (\Omega (z - \mu))_j^2 / \Omega_{jj}`, :math:`\Omega` the inverse of a covariance
    shrunk as by Ledoit and Wolf, 2004.

    Parameters
    ----------
    points, weights
        Validation records (m, d), two or more, and their masses, positive and summing to 1.
    """

    def __init__(self, points: Array, weights: Array) -> None:
        self.points, self.weights = points, weights
        self._log = np.log(weights)
        self._frame = Frame.of(points, weights)
        self._bounded = bounded_coordinates(points, self._frame)
        sample = self._bounded[:: -(-len(points) // _SAMPLE)]
        self._epsilon = _EPSILON * float(cost_matrix(sample, sample).mean()) or 1.0
        low, first, self._centre, third, high = quantiles(
            points, weights, np.array([0.1, 0.25, 0.5, 0.75, 0.9])
        )
        spread = self._frame.scale
        wide = np.where(high > low, (high - low) / 2.56, spread)
        self._unit = np.where(third > first, (third - first) / 1.35, wide)
        # What noise of the usual size is: spread, unless a few far records make it.
        self.noise = np.where(high > low, np.minimum(spread, (high - low) / 2.56), spread)
        self._z = self._arsinh(points)
        self._mean = weights @ self._z
        centred = self._z - self._mean
        self._precision = _Precision.of(centred, weights)
        # What the standard units of the experts are.
        self._deviation = np.sqrt(np.maximum(self._precision.variances, 1e-18))

    def _arsinh(self, points: Array) -> Array:
        return np.arcsinh((points - self._centre) / self._unit)

    def standard(self, points: Array) -> Array:
        """Records in standard coordinates of spread 1 (n, d)."""
        return (self._arsinh(points) - self._mean) / self._deviation

    def potentials(self, codes: Codes, classes: int, points: Array | None = None) -> Array:
        r"""Free entropic potentials against each class (n, C), in steps of a share of records.

        :math:`\log \sum_{i: y_i = k} b_i e^{-c(x, x_i) / \epsilon}`; of the records themselves,
        each left out, without ``points``.
        """
        rows = self._bounded if points is None else bounded_coordinates(points, self._frame)
        values = np.full((len(rows), classes), _LEAST)
        for here in blocks(len(rows), len(self._bounded)):
            reach = self._log - cost_matrix(rows[here], self._bounded) / self._epsilon
            if points is None:
                reach[np.arange(len(reach)), np.arange(here.start, here.stop)] = -np.inf
            for code in range(classes):
                of_class = codes == code
                if of_class.any():
                    values[here, code] = logsumexp(reach[:, of_class], axis=1)
        return _WARMTH * np.maximum(values, _LEAST)

    def nearest(self, points: Array) -> tuple[Codes, Array]:
        """Place of the nearest validation record of each (n,), and its squared distance."""
        places, apart = np.empty(len(points), dtype=np.int64), np.empty(len(points))
        for here in blocks(len(points), len(self._z)):
            costs = cost_matrix(self._arsinh(points[here]), self._z)
            places[here] = costs.argmin(axis=1)
            apart[here] = costs.min(axis=1)
        return places, apart

    @cached_property
    def places(self) -> Array:
        """Distinct validation records, in standard coordinates."""
        return np.unique(self._z / self._deviation, axis=0)

    def spacing(self) -> tuple[Array, Array, Array]:
        """Of each distinct validation record, three numbers about its nearest few.

        The distance to the nearest, the mean distance, and the mean log of the largest divided by
        each of the others.
        """
        z = self.places
        kept = min(_NEAREST, len(z) - 1)
        first, several, logs = np.empty(len(z)), np.empty(len(z)), np.empty(len(z))
        for here in blocks(len(z), len(z)):
            costs = cost_matrix(z[here], z)
            costs[np.arange(len(costs)), np.arange(here.start, here.stop)] = np.inf
            near = np.sqrt(np.sort(np.partition(costs, kept - 1, axis=1)[:, :kept], axis=1))
            first[here], several[here] = near[:, 0], near.mean(axis=1)
            logs[here] = np.log(near[:, -1:] / near[:, :-1]).mean(axis=1) if kept > 1 else 0.0
        return first, several, logs

    def around(self, points: Array) -> Array:
        """Mean distance (n,) to the nearest few distinct validation records."""
        z = self.places
        kept, distances = min(_NEAREST, len(z)), np.empty(len(points))
        for here in blocks(len(points), len(z)):
            costs = cost_matrix(self._arsinh(points[here]) / self._deviation, z)
            distances[here] = np.sqrt(np.partition(costs, kept - 1, axis=1)[:, :kept]).mean(axis=1)
        return distances

    @cached_property
    def tails(self) -> Tails:
        """Tails of each column."""
        return Tails.of(self.points)

    def far(self, points: Array) -> tuple[Array, Array]:
        """Chance (n,) that a clean record is as far out in some column, and how far in each (n, d).

        The column that is farthest counts, times how many there are (``Tails``). How far is in
        units of the quartile range, and 0 where it is nothing rare.
        """
        least, times = np.ones(len(points)), np.empty(points.shape)
        many = max(int(np.isfinite(self.tails.scale).any(axis=0).sum()), 1)
        for here in blocks(len(points), 4 * points.shape[1]):
            chances = self.tails.farthest(points[here])
            least[here] = np.minimum(many * chances.min(axis=1), 1.0)
            away = np.abs(points[here] - self._centre) / self._unit
            times[here] = np.where(chances < _FAR, away, 0.0)
        return least, times

    def odd(self, points: Array, excluded: Codes | None = None) -> Odd:
        """Return how odd records are, compared with all validation records.

        With ``excluded`` each record is compared with all of them but one, at that place (n,).
        """
        parts = np.empty((len(points), len(_FLOORS)))
        columns = np.empty(points.shape)
        for here in blocks(len(points), 2 * len(self._z)):
            without = None if excluded is None else excluded[here]
            parts[here], columns[here] = self._odd(points[here], without)
        return Odd(parts, columns)

    def _odd(self, points: Array, excluded: Codes | None) -> tuple[Array, Array]:
        rows, frame, mass_of_others = np.arange(len(points)), self._frame, 1.0
        z = self._arsinh(points)
        off = self._precision.times(z - self._mean)
        unit = np.broadcast_to(self._precision.diagonal, off.shape)
        if excluded is not None:
            frame = Frame(frame.mean, frame.scale, *self._without(excluded))
            # One record less in the covariance: Sherman and Morrison.
            mass = (1.0 - self._precision.shrunk) * self.weights[excluded]
            own = self._precision.times(self._z[excluded] - self._mean)
            lever = mass * ((self._z[excluded] - self._mean) * own).sum(axis=1)
            factor = mass / (1.0 - np.minimum(lever, 0.999))
            off = off + (factor * ((z - self._mean) * own).sum(axis=1))[:, None] * own
            unit = unit + factor[:, None] * own**2
            mass_of_others = 1.0 - self.weights[excluded]
        reach = self._log - cost_matrix(bounded_coordinates(points, frame), self._bounded) / (
            self._epsilon
        )
        near = cost_matrix(z, self._z)
        if excluded is not None:
            reach[rows, excluded], near[rows, excluded] = -np.inf, np.inf
        # In units of the mean cost.
        potential = -_EPSILON * (logsumexp(reach, axis=1) - np.log(mass_of_others))
        kept = min(_NEAREST, len(self._z) - (excluded is not None))
        closest = np.sqrt(np.partition(near, kept - 1, axis=1)[:, :kept]).mean(axis=1)
        columns = off**2 / unit
        parts = np.column_stack(
            [
                np.maximum(potential, 0.0),
                np.exp(np.log1p(columns).mean(axis=1)),
                closest,
                columns.max(axis=1),
            ]
        )
        return np.log(parts + _FLOORS), columns

    @cached_property
    def _ends(self) -> tuple[Array, Array, Codes, Array, Array, Codes]:
        """Least, second least and which the least is, column by column; and the largest alike."""
        order = np.sort(self.points, axis=0)
        return (
            order[0], order[1], self.points.argmin(axis=0),
            order[-1], order[-2], self.points.argmax(axis=0),
        )  # fmt: skip

    def _without(self, excluded: Codes) -> tuple[Array, Array]:
        """Range of the records without one (n, d): a record is not outside its own range."""
        low, low_next, lowest, high, high_next, highest = self._ends
        at = excluded[:, None]
        return np.where(at == lowest, low_next, low), np.where(at == highest, high_next, high)


@dataclass(frozen=True)
class _Precision:
    r"""Inverse of a covariance of d columns, shrunk towards a multiple of the identity.

    :math:`\Omega = (D + U U^\top)^{-1}`, with a diagonal ``D`` and as many columns of ``U`` as
    there are records: where these are fewer, only matrices of their size are inverted (Woodbury).
    """

    variances: Array
    """Of the shrunk covariance (d,)."""
    shrunk: float
    """How far it is shrunk."""
    diagonal: Array
    """Of the inverse (d,)."""
    _inverse: Array | None
    _floor: Array
    _sides: tuple[Array, Array]

    @classmethod
    def of(cls, centred: Array, weights: Array) -> _Precision:
        """Invert the covariance of centred records (m, d), shrunk as by Ledoit and Wolf, 2004."""
        size, width = centred.shape
        scaled = np.sqrt(weights)[:, None] * centred
        is_wide = width > size
        # One of the two has the same squares in all as the other.
        product = scaled @ scaled.T if is_wide else scaled.T @ scaled
        plain = (scaled**2).sum(axis=0)
        middle = float(plain.sum()) / width
        squares = float(np.sum(product**2))
        apart = squares - width * middle**2
        lengths = (centred**2).sum(axis=1)
        crossed = (
            ((centred @ scaled.T) ** 2).sum(axis=1)
            if is_wide
            else (np.einsum("ij,ij->i", centred @ product, centred))
        )
        noise = float(weights**2 @ (lengths**2 - 2.0 * crossed + squares))
        share = min(max(noise, 0.0) / apart, 1.0) if apart > 0 else 1.0
        variances = (1.0 - share) * plain + share * middle
        floor = share * middle + 1e-3 * (variances + 1e-9)
        if not is_wide:
            inverse = np.asarray(
                np.linalg.inv((1.0 - share) * product + np.diag(floor)), dtype=np.float64
            )
            sides = np.zeros((0, 0)), np.zeros((0, 0))
            return cls(variances, share, np.diag(inverse).copy(), inverse, floor, sides)
        reach = (1.0 - share) ** 0.5 * scaled / floor
        inner = np.eye(size) + (1.0 - share) ** 0.5 * scaled @ reach.T
        back = np.linalg.solve(inner, reach)
        diagonal = np.maximum(1.0 / floor - (reach * back).sum(axis=0), 1e-12 / floor)
        return cls(variances, share, diagonal, None, floor, (reach, back))

    def times(self, rows: Array) -> Array:
        """Multiply rows (n, d) by it."""
        if self._inverse is not None:
            return rows @ self._inverse
        reach, back = self._sides
        return rows / self._floor - (rows @ reach.T) @ back
