"""The interpolation parameter, where it was kept secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from silot_transport import exact_plan

from ..distances.sides import is_drawn
from ._clock import look
from ._evidence import Array, Evidence, barycentric_image
from ._inversion import project

_MOST_PAIRS = 3_000_000
_LEAST_VOTES = 3
_WIDTH = 1e-9
_CHANCE = 1e-4
_SEEDS = 2000
_FEW_STEPS = 60


@dataclass(frozen=True)
class Parameter:
    """A value of ``t``, how it was found, and whether it is exact."""

    t: float
    by: str
    exact: bool


def candidates(
    evidence: Evidence, others: Sequence[Evidence] = (), seed: int = 0, *, drawn: bool = False
) -> Iterator[Parameter]:
    """Values of ``t`` by every way that applies, the surest first.

    ``drawn`` says that the parameter may come from the seed of the reference.
    """
    image = evidence.image
    for found in (
        by_mean(evidence),
        by_scalar(evidence),
        by_pairs(evidence, image),
        by_two_references(evidence, image, others),
        by_vote(evidence, image, seed) or _second_vote(evidence, image, seed),
        by_seed(evidence) if drawn else None,
        by_crossing(evidence, image),
        by_range(evidence, image),
    ):
        if found is not None and 0.0 < found.t < 1.0:
            yield replace(found, t=plain(found.t)) if found.exact else found


def plain(t: float) -> float:
    """The short decimal that a value found to rounding most likely stands for."""
    short = round(t, 6)
    return short if abs(t - short) <= 1e-10 else t


def common_mean(evidence: Sequence[Evidence]) -> Array | None:
    """Mean of the records behind several interpolants with secret parameters.

    The means of an interpolant and of its reference are on a line with the mean of the records;
    two such lines meet in it.
    """
    told = next((one.mean for one in evidence if one.mean is not None), None)
    if told is not None or not evidence:
        return told
    d = evidence[0].atoms.shape[1]
    normal, right = np.zeros((d, d)), np.zeros(d)
    for one in evidence:
        base = one.reference_weights @ one.reference
        way = one.weights @ one.atoms - base
        length = float(np.linalg.norm(way))
        if length > 0:
            across = np.eye(d) - np.outer(way, way) / length**2
            normal, right = normal + across, right + across @ base
    values = np.linalg.eigvalsh(normal)
    if d == 1 or values[0] <= 1e-9 * max(values[-1], 1e-300):
        return None
    return np.asarray(np.linalg.solve(normal, right), dtype=np.float64)


def solved_by_mean(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The same interpolants, with parameters where the mean of the records tells them."""
    mean = common_mean(evidence)
    told = [None if mean is None else by_mean(replace(one, mean=mean)) for one in evidence]
    return [
        one if found is None else replace(one, t=plain(found.t))
        for one, found in zip(evidence, told, strict=True)
    ]


def by_mean(evidence: Evidence) -> Parameter | None:
    r"""Interpolation is linear in means: :math:`\bar\eta = (1 - t) \bar x + t \bar\gamma`."""
    if evidence.mean is None:
        return None
    centre = evidence.reference_weights @ evidence.reference
    there, way = evidence.weights @ evidence.atoms - evidence.mean, centre - evidence.mean
    if float(way @ way) == 0.0:
        return None
    t = float(there @ way / (way @ way))
    fits = float(np.abs(there - t * way).max()) <= 1e-9 * float(np.abs(way).max())
    return Parameter(t, "the mean that was told", True) if fits else None


def by_scalar(evidence: Evidence) -> Parameter | None:
    r"""On a geodesic :math:`W(\eta, \gamma) = (1 - t) W(\mu, \gamma)`."""
    if not evidence.distance or not (evidence.whole or evidence.form == "pairs"):
        return None
    plan = exact_plan(
        evidence.atoms, evidence.reference, evidence.weights, evidence.reference_weights,
        p=evidence.p,
    )  # fmt: skip
    return Parameter(1.0 - plan.distance / evidence.distance, "the distance that was told", True)


def by_pairs(evidence: Evidence, image: Array) -> Parameter | None:
    r"""Atoms of one record differ by :math:`t (\gamma_a - \gamma_b)`: collinear pairs give t."""
    if evidence.form != "pairs":
        return None
    ratios: list[Array] = []
    size = float(np.abs(evidence.atoms).max())
    # A record's atoms follow one another.
    for step in range(1, min(4, len(image))):
        way, moved = image[step:] - image[:-step], evidence.atoms[step:] - evidence.atoms[:-step]
        squares = np.einsum("ij,ij->i", way, way)
        apart = squares > 1e-12 * size**2
        t = np.einsum("ij,ij->i", moved, way)[apart] / squares[apart]
        rest = np.abs(moved[apart] - t[:, None] * way[apart]).max(axis=1)
        ratios.append(t[rest <= 1e-9 * size])
    found = np.concatenate(ratios)
    found = found[(found > 0) & (found < 1)]
    if (len(found) < 2 and image.shape[1] == 1) or len(found) == 0:
        return None
    return _agreed(found, "atoms of one record on one line", least=1 if image.shape[1] > 1 else 3)


def by_two_references(
    evidence: Evidence, image: Array, others: Sequence[Evidence]
) -> Parameter | None:
    r"""Two references, one t: :math:`\eta_1 - \eta_2 = t (T_1 - T_2)` row by row."""
    if evidence.form != "rows":
        return None
    for other in others:
        same = other.form == "rows" and other.atoms.shape == evidence.atoms.shape
        if not same or np.array_equal(other.reference, evidence.reference):
            continue
        way = image - barycentric_image(
            other.atoms, other.reference, other.weights, other.reference_weights
        )
        moved = evidence.atoms - other.atoms
        far = np.abs(way) > 1e-3 * np.abs(way).max()
        found = _agreed(moved[far] / way[far], "two references")
        if found is not None:
            return found
    return None


def by_vote(evidence: Evidence, image: Array, seed: int = 0) -> Parameter | None:
    r"""Equal raw values (constant columns, zeros, counts) of two records give t.

    There :math:`\eta_{ic} - \eta_{jc} = t (T_{ic} - T_{jc})`. Chance spreads its votes, equal
    values agree to the last digits.
    """
    rng = np.random.default_rng([seed, 8])
    k, d = image.shape
    if evidence.form == "cells" or k < 3:
        return None
    pairs = k * (k - 1) // 2
    if pairs * d <= _MOST_PAIRS:
        i, j = (np.repeat(side, d) for side in np.triu_indices(k, 1))
        c = np.tile(np.arange(d), pairs)
    else:
        # A pair that is drawn twice would agree with itself.
        drawn = np.unique(rng.integers(k * k * d, size=_MOST_PAIRS))
        i, j, c = drawn // (k * d), drawn // d % k, drawn % d
        i, j, c = i[i < j], j[i < j], c[i < j]
    way, moved = image[i, c] - image[j, c], evidence.atoms[i, c] - evidence.atoms[j, c]
    far = np.abs(way) > 1e-2 * np.abs(image - image.mean(axis=0)).max()
    # Columns of large numbers round too much to agree.
    rounding = 8.0 * np.finfo(np.float64).eps * np.abs(evidence.atoms).max(axis=0)
    far &= rounding[c] < 0.1 * _WIDTH * np.abs(way)
    return _agreed(moved[far] / way[far], "a vote over equal values", least=_LEAST_VOTES)


def _second_vote(evidence: Evidence, image: Array, seed: int) -> Parameter | None:
    """Vote again on the image that the crossing bound leads to: more of its rows are right."""
    near = by_crossing(evidence, image)
    if evidence.form != "rows" or evidence.p != 2 or near is None or not 0.0 < near.t < 1.0:
        return None
    for t in (near.t, 0.95 * near.t, 1.1 * near.t):
        if t < 1.0:
            found = by_vote(evidence, project(evidence, t, steps=_FEW_STEPS).image, seed)
            if found is not None:
                return found
    return None


def by_seed(evidence: Evidence) -> Parameter | None:
    """The buyer of ``pooled`` draws its t from the public seed behind the reference."""
    seed = seed_of_reference(evidence.reference)
    if seed is None:
        return None
    t = float(np.random.default_rng([seed, 2]).uniform(0.2, 0.8))
    return Parameter(t, "the public seed of the reference", False)


def seed_of_reference(reference: Array) -> int | None:
    """The small seed that draws this reference, found by trying."""
    for seed in range(_SEEDS):
        look()
        if is_drawn(reference, seed):
            return seed
    return None


def by_crossing(evidence: Evidence, image: Array) -> Parameter | None:
    r"""Records may not cross: :math:`t \le \langle \Delta\eta, \Delta T \rangle / |\Delta T|^2`.

    The bound is a little above the parameter, for some pair of records all but crosses.
    """
    if evidence.form == "cells" or len(image) < 3:
        return None
    atoms = evidence.atoms - evidence.atoms.mean(axis=0)
    near = image - image.mean(axis=0)
    cross, squares = atoms @ near.T, near @ near.T
    along = np.diag(cross)[:, None] + np.diag(cross) - cross - cross.T
    length = np.diag(squares)[:, None] + np.diag(squares) - 2.0 * squares
    apart = length > 1e-9 * length.max()
    return Parameter(float((along[apart] / length[apart]).min()), "the crossing bound", False)


def by_range(evidence: Evidence, image: Array) -> Parameter | None:
    """The largest t for which no value falls below zero, where most columns start there."""
    if evidence.form == "cells":
        return None
    positive = image > 1e-3 * np.abs(image).max()
    bounds = evidence.atoms[positive] / image[positive]
    if len(bounds) == 0:
        return None
    return Parameter(float(bounds.min()), "the range of values (zero or more)", False)


def _agreed(ratios: Array, by: str, least: int = 3) -> Parameter | None:
    """The value in (0, 1) on which more ratios agree than chance lets them."""
    ratios = np.sort(ratios[(ratios > 1e-4) & (ratios < 1.0 - 1e-4)])
    if len(ratios) < least:
        return None
    votes = np.searchsorted(ratios, ratios + _WIDTH) - np.arange(len(ratios))
    start = int(votes.argmax())
    agreed = int(votes[start])
    # Votes by chance in so narrow a place, from how dense they are around it.
    around = np.searchsorted(ratios, [ratios[start] - 0.01, ratios[start] + 0.01])
    expected = max(int(around[1] - around[0]) - agreed, 1) * _WIDTH / 0.02
    chance = len(ratios) * expected ** (agreed - 1)
    if agreed < least or (agreed > 1 and chance > _CHANCE):
        return None
    return Parameter(float(np.median(ratios[start : start + agreed])), by, True)
