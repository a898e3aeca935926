"""Divergences from one aggregate of every device: mean features, and projected quantiles."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import numpy as np

from silot_transport._check import whole
from silot_transport.bounds import line_costs

from ..data.measure import Embedding
from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Steps
from ..options import Check, count, none_or, number, option, truth, word
from .between import Devices, Divergence, Width, ask_width, odd, symmetric, within
from .divergence import Divergences
from .federated.features import effective_columns
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


def _even(features: Any, name: str, code: str) -> int:
    number = whole(features, name, code, least=2, most=MOST_FEATURES)
    if number % 2:
        raise InputError(
            f"features is {features}; they come in pairs, so an even number is needed.",
            code=code,
        )
    return number


class Features(Divergence):
    """A divergence from one aggregate of every device."""

    disclosure = Disclosure.AGGREGATE

    least: int = option(
        "Fewest numbers of the records behind each number told (``sliced``: records behind a "
        "quantile); 1 lifts the limit. A device's policy may want more.",
        count(),
        default=5,
    )
    embedding: Embedding = option(
        "Label coordinates added to the records.", word(*get_args(Embedding)), default="none"
    )

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 2

    def parameters(self) -> dict[str, Scalar]:
        own = [name for name in self.takes() if name not in ("least", "embedding")]
        return {name: getattr(self, name) for name in (*own, "least", "seed")}

    def affordable(self, told: Width, wanted: int, columns: float) -> int:
        """How many numbers a device may tell so that ``least`` of its own stand behind each."""
        if self.least == 1:
            return wanted
        return min(wanted, int(told.records * columns) // self.least)


class Mmd(Features):
    r"""Maximum mean discrepancy with a Gaussian kernel, by random Fourier features.

    .. math:: \mathrm{MMD}^2(\mu, \nu) = \mathbb{E} k(x, x') + \mathbb{E} k(y, y')
        - 2\, \mathbb{E} k(x, y), \quad k(x, y) = e^{-|x - y|^2 / 2 h^2}

    Every device tells the mean of its features, corrected so that the square has the right
    expectation whatever the number of records: it is 0 on average for devices of one law.

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

    name = "mmd"
    sends = "mean and variances of the features, and the mean of random features"
    needs = "two rounds; 2048 numbers a device"
    guarantees = (
        "an estimate whose square is right on average for every number of records; kernel matrix "
        "for mixing='mmd'"
    )
    privacy = (
        "none: exact means; fewer numbers are told than the records have, which is a fence and no "
        "guarantee"
    )

    seed: int = option("Of the features, public.", count(0, MOST_SEED), default=0)
    features: int | None = option(
        "Random features, an even number. Default: 2048, or fewer where the records of a device "
        "hold fewer than ``least`` numbers for each.",
        none_or(Check(_even, int, "int, 2 or more")),
        default=None,
        code="option-count",
    )
    bandwidth: float | None = option(
        "Bandwidth h. Default: the root mean squared distance of two records of all devices "
        "together, from the means and variances they tell.",
        none_or(number(above=0)),
        default=None,
    )
    standardise: bool = option(
        "Whether columns are divided by their standard deviation over all devices together: for "
        "tables, whose columns have units of their own.",
        truth(),
        default=False,
    )

    def steps(self, run: Devices) -> Steps[Divergences]:
        told = yield from ask_width(run, self.embedding)
        scale, columns, pooled = np.zeros(0), float(told.dimension), told.pooled
        if self.standardise:
            scale = np.sqrt(pooled)
            # Of a constant only rounding varies.
            scale = np.where(scale > _ROUNDING * np.abs(told.centre), scale, 1.0)
            pooled = pooled / scale**2
            columns = min(effective_columns(each / scale**2) for each in told.variances.values())
        features = self.features or self.affordable(told, 2048, columns) // 2 * 2
        bandwidth = self.bandwidth or (2.0 * float(pooled.sum())) ** 0.5 or 1.0
        question = MeanFeatures(
            features=max(features, _FEWEST_FEATURES),
            bandwidth=bandwidth,
            seed=run.seed,
            least=self.least,
            scale=scale,
            embedding=self.embedding,
        )
        answers = yield from run.ask(dict.fromkeys(told.names, question))
        return _mmd_result(run, answers, question)


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


class Sliced(Features):
    r"""Sliced Wasserstein distance from quantiles of random public projections.

    .. math:: \mathrm{SW}^2(\mu, \nu) = \frac{1}{L} \sum_{l=1}^L W_2^2(u_l^T \mu, u_l^T \nu)

    with quantile functions averaged over equal steps, which makes it a lower bound of the exact
    value for the same directions, equal to it for shifts. Weights and unequal numbers of records
    are exact.

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
    guarantee: with ``least=1`` as many quantiles as records tell their projections.
    """

    name = "sliced"
    sends = "mean and variances of the features, and quantiles of random projections"
    needs = "two rounds; 2048 numbers a device"
    guarantees = "an estimate, below the sliced distance of the same directions; exact for shifts"
    privacy = "none: exact means of at least five records each, which is a fence and no guarantee"

    directions: int = option(
        "Projections L; fewer where the records hold fewer than ``least`` numbers for each number "
        "told.",
        count(1, MOST_DIRECTIONS),
        default=64,
        code="option-count",
    )
    quantiles: int = option(
        "Steps of the quantile functions; fewer where a step would hold less than ``least`` "
        "records.",
        count(1, MOST_FEATURES),
        default=32,
        code="option-count",
    )

    def steps(self, run: Devices) -> Steps[Divergences]:
        told = yield from ask_width(run, self.embedding)
        wanted = self.directions * self.quantiles
        affordable = self.affordable(told, wanted, told.dimension)
        # Where not all can be told, directions and quantiles give way alike.
        steps = int(self.quantiles * (affordable / wanted) ** 0.5)
        steps = max(min(steps, told.records // self.least), 1)
        question = ProjectedQuantiles(
            directions=max(min(self.directions, affordable // steps), 1),
            quantiles=steps,
            seed=run.seed,
            least=self.least,
            embedding=self.embedding,
        )
        answers = yield from run.ask(dict.fromkeys(told.names, question))
        return _sliced_result(run, answers, question, told)


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
