"""Estimate the interpolation parameter t where it was kept secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from silot_transport import exact_plan

from ..distances.sides import is_drawn
from .inversion import Array, Interpolant, barycentric_image, project
from .time_limit import check_time

# Pairs of values in a vote: 24 MB for each array of them.
_MOST_PAIRS = 3_000_000
_LEAST_VOTES = 3
# Two votes agree within this. Votes of equal values agree to rounding, others are spread.
_WIDTH = 1e-9
# Largest expected number of agreements by chance of a vote that counts.
_CHANCE = 1e-4
# Seeds of a reference that are tried: users rarely choose larger ones.
_SEEDS = 2000
# Steps of the projection before the second vote, which needs most rows right and not all.
_FEW_STEPS = 60
# Relative error of a fit that rounding explains.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Parameter:
    """A value of ``t``, the way it was found, and whether it is exact."""

    t: float
    by: str
    exact: bool


def candidates(
    interpolant: Interpolant,
    others: Sequence[Interpolant] = (),
    seed: int = 0,
    *,
    drawn: bool = False,
) -> Iterator[Parameter]:
    """Yield values of ``t`` by every way that applies, the surest first.

    ``drawn`` says that the parameter may come from the seed of the reference.
    """
    image = interpolant.image
    for parameter in (
        by_mean(interpolant),
        by_scalar(interpolant),
        by_pairs(interpolant, image),
        by_two_references(interpolant, image, others),
        by_vote(interpolant, image, seed) or _second_vote(interpolant, image, seed),
        by_seed(interpolant) if drawn else None,
        by_crossing(interpolant, image),
        by_range(interpolant, image),
    ):
        if parameter is not None and 0.0 < parameter.t < 1.0:
            yield replace(parameter, t=plain(parameter.t)) if parameter.exact else parameter


def plain(t: float) -> float:
    """Round to the short decimal that a value exact up to rounding most likely stands for."""
    short = round(t, 6)
    return short if abs(t - short) <= 1e-10 else t


def common_mean(interpolants: Sequence[Interpolant]) -> Array | None:
    """Compute the mean of the records behind several interpolants with secret parameters.

    The means of an interpolant and of its reference lie on a line with the mean of the records,
    and two such lines meet in it. ``None`` where they do not meet in one point.
    """
    sent = next((one.mean for one in interpolants if one.mean is not None), None)
    if sent is not None or not interpolants:
        return sent
    d = interpolants[0].atoms.shape[1]
    # Least squares over the distances to all lines.
    normal, right = np.zeros((d, d)), np.zeros(d)
    for one in interpolants:
        base = one.reference_weights @ one.reference
        direction = one.weights @ one.atoms - base
        length = float(np.linalg.norm(direction))
        if length > 0:
            across = np.eye(d) - np.outer(direction, direction) / length**2
            normal, right = normal + across, right + across @ base
    values = np.linalg.eigvalsh(normal)
    # Parallel lines leave the place along them open.
    if d == 1 or values[0] <= 1e-9 * max(values[-1], 1e-300):
        return None
    return np.asarray(np.linalg.solve(normal, right), dtype=np.float64)


def solved_by_mean(interpolants: Sequence[Interpolant]) -> list[Interpolant]:
    """Return the same interpolants, with parameters where the mean of the records gives them."""
    mean = common_mean(interpolants)
    if mean is None:
        return list(interpolants)
    parameters = [by_mean(replace(one, mean=mean)) for one in interpolants]
    return [
        one if parameter is None else replace(one, t=plain(parameter.t))
        for one, parameter in zip(interpolants, parameters, strict=True)
    ]


def by_mean(interpolant: Interpolant) -> Parameter | None:
    r"""Interpolation is linear in means: :math:`\bar\eta = (1 - t) \bar x + t \bar\gamma`."""
    if interpolant.mean is None:
        return None
    centre = interpolant.reference_weights @ interpolant.reference
    moved = interpolant.weights @ interpolant.atoms - interpolant.mean
    direction = centre - interpolant.mean
    if float(direction @ direction) == 0.0:
        return None
    t = float(moved @ direction / (direction @ direction))
    misfit = float(np.abs(moved - t * direction).max())
    fits = misfit <= _ROUNDING * float(np.abs(direction).max())
    return Parameter(t, "the mean that was sent", True) if fits else None


def by_scalar(interpolant: Interpolant) -> Parameter | None:
    r"""On a geodesic :math:`W(\eta, \gamma) = (1 - t) W(\mu, \gamma)`."""
    on_geodesic = interpolant.is_geodesic or interpolant.form == "pairs"
    if not interpolant.distance or not on_geodesic:
        return None
    plan = exact_plan(
        interpolant.atoms, interpolant.reference, interpolant.weights,
        interpolant.reference_weights, p=interpolant.p,
    )  # fmt: skip
    t = 1.0 - plan.distance / interpolant.distance
    return Parameter(t, "the distance that was sent", True)


def by_pairs(interpolant: Interpolant, image: Array) -> Parameter | None:
    r"""Atoms of one record differ by :math:`t (\gamma_a - \gamma_b)`: collinear pairs give t."""
    if interpolant.form != "pairs":
        return None
    atoms = interpolant.atoms
    ratios: list[Array] = []
    size = float(np.abs(atoms).max())
    # The atoms of one record follow one another, and a record rarely has more than four.
    for step in range(1, min(4, len(image))):
        direction, moved = image[step:] - image[:-step], atoms[step:] - atoms[:-step]
        squares = np.einsum("ij,ij->i", direction, direction)
        apart = squares > 1e-12 * size**2
        t = np.einsum("ij,ij->i", moved, direction)[apart] / squares[apart]
        misfit = np.abs(moved[apart] - t[:, None] * direction[apart]).max(axis=1)
        ratios.append(t[misfit <= _ROUNDING * size])
    inside = np.concatenate(ratios)
    inside = inside[(inside > 0) & (inside < 1)]
    # In one dimension all pairs are collinear: there only agreement counts.
    line = image.shape[1] == 1
    if len(inside) == 0 or (len(inside) < 2 and line):
        return None
    return _agreed(inside, "atoms of one record on one line", least=3 if line else 1)


def by_two_references(
    interpolant: Interpolant, image: Array, others: Sequence[Interpolant]
) -> Parameter | None:
    r"""Two references with one t: :math:`\eta_1 - \eta_2 = t (T_1 - T_2)` row by row."""
    if interpolant.form != "rows":
        return None
    for other in others:
        comparable = other.form == "rows" and other.atoms.shape == interpolant.atoms.shape
        if not comparable or np.array_equal(other.reference, interpolant.reference):
            continue
        direction = image - barycentric_image(
            other.atoms, other.reference, other.weights, other.reference_weights
        )
        moved = interpolant.atoms - other.atoms
        # Small differences give ratios of rounding errors.
        far = np.abs(direction) > 1e-3 * np.abs(direction).max()
        parameter = _agreed(moved[far] / direction[far], "two references")
        if parameter is not None:
            return parameter
    return None


def by_vote(interpolant: Interpolant, image: Array, seed: int = 0) -> Parameter | None:
    r"""Equal raw values (constant columns, zeros, counts) of two records give t.

    There :math:`\eta_{ic} - \eta_{jc} = t (T_{ic} - T_{jc})`. Other values spread their votes,
    equal values agree to the last digits.
    """
    k = len(image)
    if interpolant.form == "cells" or k < 3:
        return None
    i, j, c = _pairs_of_values(k, image.shape[1], seed)
    atoms = interpolant.atoms
    direction, moved = image[i, c] - image[j, c], atoms[i, c] - atoms[j, c]
    far = np.abs(direction) > 1e-2 * np.abs(image - image.mean(axis=0)).max()
    # Columns of large numbers round too much to agree.
    rounding = 8.0 * np.finfo(np.float64).eps * np.abs(atoms).max(axis=0)
    far &= rounding[c] < 0.1 * _WIDTH * np.abs(direction)
    return _agreed(moved[far] / direction[far], "a vote over equal values", least=_LEAST_VOTES)


def _pairs_of_values(k: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs i < j of k atoms with a column c: all of them, or a random sample."""
    pairs = k * (k - 1) // 2
    if pairs * d <= _MOST_PAIRS:
        i, j = (np.repeat(side, d) for side in np.triu_indices(k, 1))
        return i, j, np.tile(np.arange(d), pairs)
    rng = np.random.default_rng([seed, 8])
    # A pair that is drawn twice would agree with itself.
    drawn = np.unique(rng.integers(k * k * d, size=_MOST_PAIRS))
    i, j, c = drawn // (k * d), drawn // d % k, drawn % d
    return i[i < j], j[i < j], c[i < j]


def _second_vote(interpolant: Interpolant, image: Array, seed: int) -> Parameter | None:
    """Vote again on the image that the crossing bound leads to: more of its rows are right."""
    near = by_crossing(interpolant, image)
    projectable = interpolant.form == "rows" and interpolant.p == 2
    if not projectable or near is None or not 0.0 < near.t < 1.0:
        return None
    # The bound is close above t as a rule, and far from it at times: two values beside it.
    for t in (near.t, 0.95 * near.t, 1.1 * near.t):
        if t < 1.0:
            better = project(interpolant, t, steps=_FEW_STEPS).image
            parameter = by_vote(interpolant, better, seed)
            if parameter is not None:
                return parameter
    return None


def by_seed(interpolant: Interpolant) -> Parameter | None:
    """The buyer of ``pooled`` draws its t from the public seed of the reference."""
    seed = seed_of_reference(interpolant.reference)
    if seed is None:
        return None
    t = float(np.random.default_rng([seed, 2]).uniform(0.2, 0.8))
    return Parameter(t, "the public seed of the reference", False)


def seed_of_reference(reference: Array) -> int | None:
    """Find the small seed that draws this reference by trying; ``None`` where there is none."""
    for seed in range(_SEEDS):
        check_time()
        if is_drawn(reference, seed):
            return seed
    return None


def by_crossing(interpolant: Interpolant, image: Array) -> Parameter | None:
    r"""Records may not cross: :math:`t \le \langle \Delta\eta, \Delta T \rangle / |\Delta T|^2`.

    The bound lies a little above the parameter, because some pair of records nearly crosses.
    """
    if interpolant.form == "cells" or len(image) < 3:
        return None
    atoms = interpolant.atoms - interpolant.atoms.mean(axis=0)
    near = image - image.mean(axis=0)
    cross, squares = atoms @ near.T, near @ near.T
    along = np.diag(cross)[:, None] + np.diag(cross) - cross - cross.T
    length = np.diag(squares)[:, None] + np.diag(squares) - 2.0 * squares
    apart = length > 1e-9 * length.max()
    return Parameter(float((along[apart] / length[apart]).min()), "the crossing bound", False)


def by_range(interpolant: Interpolant, image: Array) -> Parameter | None:
    """Return the largest t for which no value falls below zero, where most columns start."""
    if interpolant.form == "cells":
        return None
    positive = image > 1e-3 * np.abs(image).max()
    bounds = interpolant.atoms[positive] / image[positive]
    if len(bounds) == 0:
        return None
    return Parameter(float(bounds.min()), "the range of values (zero or more)", False)


def _agreed(ratios: Array, by: str, least: int = 3) -> Parameter | None:
    """Return the value in (0, 1) on which more ratios agree than chance explains."""
    ratios = np.sort(ratios[(ratios > 1e-4) & (ratios < 1.0 - 1e-4)])
    if len(ratios) < least:
        return None
    votes = np.searchsorted(ratios, ratios + _WIDTH) - np.arange(len(ratios))
    start = int(votes.argmax())
    agreed = int(votes[start])
    # Votes expected by chance in so narrow a place, from how dense they are around it.
    around = np.searchsorted(ratios, [ratios[start] - 0.01, ratios[start] + 0.01])
    expected = max(int(around[1] - around[0]) - agreed, 1) * _WIDTH / 0.02
    chance = len(ratios) * expected ** (agreed - 1)
    if agreed < least or (agreed > 1 and chance > _CHANCE):
        return None
    return Parameter(float(np.median(ratios[start : start + agreed])), by, True)
