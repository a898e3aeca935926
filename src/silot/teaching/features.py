"""Divergences from one aggregate of every device: mean features, and projected quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ..data.measure import Embedding
from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol, Steps
from ..learning.features import effective_columns
from ..transport._check import flag, real, whole
from ..transport.sliced import line_costs
from .between import Devices, Width, ask_width, odd, symmetric, within
from .divergence import Divergences
from .questions.divergences import (
    MOST_DIRECTIONS,
    MOST_FEATURES,
    MOST_SEED,
    MeanFeatures,
    ProjectedQuantiles,
)

# Numbers an answer may have are few where records are few; with none at all there is no answer.
_FEWEST_FEATURES = 2
# Features have norm 1, and their means no more.
_NORM = 1.0 + 1e-9
_ROUNDING = 1e-12


def mmd(
    holders: Sequence[str],
    *,
    features: int | None = None,
    bandwidth: float | None = None,
    standardise: bool = False,
    least: int = 5,
    seed: int = 0,
    quorum: int = 2,
    embedding: Embedding = "none",
) -> Protocol[Divergences]:
    r"""Maximum mean discrepancy with a Gaussian kernel, by random Fourier features.

    .. math:: \mathrm{MMD}^2(\mu, \nu) = \mathbb{E} k(x, x') + \mathbb{E} k(y, y')
        - 2\, \mathbb{E} k(x, y), \quad k(x, y) = e^{-|x - y|^2 / 2 h^2}

    Every device tells the mean of its features, corrected so that the square has the right
    expectation whatever the number of records: it is 0 on average for devices of one law.

    Parameters
    ----------
    holders
        Devices.
    features
        Random features, an even number. Default: 2048, or fewer where the records of a device
        hold fewer than ``least`` numbers for each.
    bandwidth
        Bandwidth h. Default: the root mean squared distance of two records of all devices
        together, from the means and variances they tell.
    standardise
        Whether columns are divided by their standard deviation over all devices together: for
        tables, whose columns have units of their own.
    least
        Fewest numbers of the records behind each number told; 1 lifts the limit. A device's
        policy may want more.
    seed
        Of the features, public.
    quorum
        Fewest devices that must answer.
    embedding
        Label coordinates added to the records.

    Returns
    -------
    Protocol[Divergences]
        Discloses aggregates. ``kernel`` has the inner products of the means (not corrected,
        positive semidefinite).

    Raises
    ------
    InputError
        Options out of range.

    Notes
    -----
    Rahimi and Recht, *Random Features for Large-Scale Kernel Machines*, 2007; Gretton et al.,
    *A Kernel Two-Sample Test*, 2012 (eq. 3, here with weights). The error of the features is
    about ``features ** -0.5`` of the kernel's. Means of as many features as there are numbers in
    the records determine these; ``least`` keeps away from that, and is no guarantee.
    """
    devices = Devices.of(
        holders, quorum, whole(seed, "seed", "option-seed", least=0, most=MOST_SEED)
    )
    count = None if features is None else _even(features)
    width = None if bandwidth is None else _positive(bandwidth, "bandwidth", "option-bandwidth")
    fewest = whole(least, "least", "option-least")
    by_column = flag(standardise, "standardise", "option-standardise")

    def start() -> Steps[Divergences]:
        run = devices.fresh()
        told = yield from ask_width(run, embedding)
        scale, columns, pooled = np.zeros(0), float(told.dimension), told.pooled
        if by_column:
            scale = np.sqrt(pooled)
            # Of a constant only rounding varies.
            scale = np.where(scale > _ROUNDING * np.abs(told.centre), scale, 1.0)
            pooled = pooled / scale**2
            columns = min(effective_columns(each / scale**2) for each in told.variances.values())
        chosen = count or _affordable(told, fewest, 2048, columns) // 2 * 2
        h = width or (2.0 * float(pooled.sum())) ** 0.5 or 1.0
        question = MeanFeatures(
            features=max(chosen, _FEWEST_FEATURES),
            bandwidth=h,
            seed=run.seed,
            least=fewest,
            scale=scale,
            embedding=embedding,
        )
        answers = yield from run.ask(dict.fromkeys(told.names, question))
        return _mmd_result(run, answers, question)

    return Protocol(
        "mmd",
        devices.names,
        Disclosure.AGGREGATE,
        start,
        {
            "features": count,
            "bandwidth": width,
            "standardise": by_column,
            "least": fewest,
            "seed": devices.seed,
        },
        expected_rounds=2,
    )


def _mmd_result(run: Devices, answers: dict[str, Answer], question: MeanFeatures) -> Divergences:
    told = run.read(answers, lambda _, answer: _read_mean(answer, question.features))
    names = tuple(told)
    means = np.array([mean for mean, _ in told.values()])
    squares = np.array([square for _, square in told.values()])
    norms = (means**2).sum(axis=1)
    # A device of one record has no pair of different records: it is compared as it is.
    several = squares < 1.0 - 1e-9
    rest = np.where(several, 1.0 - squares, 1.0)
    norms = np.where(several, (norms - squares) / rest, norms)
    pairs = {
        (i, j): max(0.0, float(norms[i] + norms[j] - 2.0 * means[i] @ means[j])) ** 0.5
        for i, j in combinations(range(len(names)), 2)
    }
    kernel = means @ means.T
    return Divergences(
        names=names,
        values=symmetric(len(names), pairs),
        method="mmd",
        unit="1 is the distance of two mean embeddings; records so far apart that the kernel "
        "vanishes are sqrt(2) apart",
        law="root",
        kernel=0.5 * (kernel + kernel.T),
        status=f"estimate: {question.features} random features, bandwidth "
        f"{question.bandwidth:.4g}; unbiased in the square" + run.note,
        seed=run.seed,
        details={"features": question.features, "bandwidth": question.bandwidth},
        missing=run.codes,
    )


def _read_mean(answer: Answer, features: int) -> tuple[Array, float]:
    """Mean of the features of a device, and the sum of its squared weights."""
    mean = answer.array("mean", ndim=1, columns=features)
    squares = answer.number("squares")
    # Before it is squared.
    within(mean, _NORM)
    if float(np.linalg.norm(mean)) > _NORM or not 0 < squares <= _NORM:
        raise odd("a mean longer than any feature, or squares of no weights")
    return mean, squares


def sliced(
    holders: Sequence[str],
    *,
    directions: int = 64,
    quantiles: int = 32,
    least: int = 5,
    seed: int = 0,
    quorum: int = 2,
    embedding: Embedding = "none",
) -> Protocol[Divergences]:
    r"""Sliced Wasserstein distance from quantiles of random public projections.

    .. math:: \mathrm{SW}^2(\mu, \nu) = \frac{1}{L} \sum_{l=1}^L W_2^2(u_l^T \mu, u_l^T \nu)

    with quantile functions averaged over equal steps, which makes it a lower bound of the exact
    value for the same directions, equal to it for shifts. Weights and unequal numbers of records
    are exact.

    Parameters
    ----------
    holders
        Devices.
    directions
        Projections L; fewer where the records hold fewer than ``least`` numbers for each number
        told.
    quantiles
        Steps of the quantile functions; fewer where a step would hold less than ``least``
        records.
    least
        Fewest records behind a quantile; 1 lifts the limit, and with as many quantiles as
        records tells their projections.
    seed
        Of the directions, public.
    quorum
        Fewest devices that must answer.
    embedding
        Label coordinates added to the records.

    Returns
    -------
    Protocol[Divergences]
        Discloses aggregates. A shift by s is ``|s| / sqrt(d)`` apart, on average over directions
        and exactly when L is a multiple of the dimension d.

    Raises
    ------
    InputError
        Options out of range.

    Notes
    -----
    Bonneel et al., *Sliced and Radon Wasserstein Barycenters of Measures*, 2015. Quantiles of
    few records are these records' coordinates; ``least`` keeps away from that and is no
    guarantee.
    """
    devices = Devices.of(holders, quorum, seed)
    most_directions = whole(directions, "directions", "option-count", most=MOST_DIRECTIONS)
    most_steps = whole(quantiles, "quantiles", "option-count", most=MOST_FEATURES)
    fewest = whole(least, "least", "option-least")

    def start() -> Steps[Divergences]:
        run = devices.fresh()
        told = yield from ask_width(run, embedding)
        wanted = most_directions * most_steps
        affordable = _affordable(told, fewest, wanted, told.dimension)
        # Where not all can be told, directions and quantiles give way alike.
        steps = int(most_steps * (affordable / wanted) ** 0.5)
        steps = max(min(steps, told.records // fewest), 1)
        question = ProjectedQuantiles(
            directions=max(min(most_directions, affordable // steps), 1),
            quantiles=steps,
            seed=run.seed,
            least=fewest,
            embedding=embedding,
        )
        answers = yield from run.ask(dict.fromkeys(told.names, question))
        return _sliced_result(run, answers, question, told)

    return Protocol(
        "sliced",
        devices.names,
        Disclosure.AGGREGATE,
        start,
        {
            "directions": most_directions,
            "quantiles": most_steps,
            "least": fewest,
            "seed": devices.seed,
        },
        expected_rounds=2,
    )


def _sliced_result(
    run: Devices, answers: dict[str, Answer], question: ProjectedQuantiles, told: Width
) -> Divergences:
    told_tables = run.read(answers, lambda _, answer: _read_quantiles(answer, question))
    names, tables = tuple(told_tables), list(told_tables.values())
    pairs = {
        (i, j): float(line_costs(tables[i], tables[j], None, None, 2).mean()) ** 0.5
        for i, j in combinations(range(len(names)), 2)
    }
    steps = min(table.shape[1] for table in tables)
    return Divergences(
        names=names,
        values=symmetric(len(names), pairs),
        method="sliced",
        unit="the unit of the features: root mean squared distance along a random direction",
        law="normal",
        scale=(told.within / told.dimension) ** 0.5,
        status=f"estimate: {question.directions} directions, {steps} quantiles each" + run.note,
        seed=run.seed,
        details={"directions": question.directions, "quantiles": steps},
        missing=run.codes,
    )


def _read_quantiles(answer: Answer, question: ProjectedQuantiles) -> Array:
    table = within(answer.array("quantiles", ndim=2))
    if len(table) != question.directions or table.shape[1] > question.quantiles:
        raise odd(f"quantiles of shape {table.shape} for {question.directions} directions")
    return table


def _affordable(told: Width, least: int, wanted: int, columns: float) -> int:
    """How many numbers a device may tell so that ``least`` of its own stand behind each."""
    return wanted if least == 1 else min(wanted, int(told.records * columns) // least)


def _even(features: int) -> int:
    count = whole(features, "features", "option-count", least=2, most=MOST_FEATURES)
    if count % 2:
        raise InputError(
            f"features is {features}; they come in pairs, so an even number is needed.",
            code="option-count",
        )
    return count


def _positive(value: float, name: str, code: str) -> float:
    number = real(value, name, code)
    if number <= 0:
        raise InputError(f"{name} is {value!r}; a number above 0 is needed.", code=code)
    return number
