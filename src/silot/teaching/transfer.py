r"""Which models to combine at a device, from scores of every model where there are labels.

The Brier score of a mixture w of models is :math:`w^\top e - \tfrac12 w^\top D w`: e are the scores
of the models (halved), to be estimated where records have no labels, and D is how far their
predictions are apart at the device, which needs none. So averaging is worth what is measured.

What a model's score is at one place says little about another: scores vary between places beyond
what their records explain, and that variance V is part of what is minimised. A choice other than
the even mixture is made where it is better by a standard error.

What a target's records are made of follows from means of public random features: a source sends
that of its records class by class, a target that of its own, without labels. The target's mean is
explained as a mixture of the sources' class means, whose share of a class is :math:`w_{kc}`. That
estimates which classes the target has, and whose records of a class its own look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from ..errors import InputError
from ..federation.answer import Array

Counts = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

# Standard errors by which one source must name another's labels worse than guessing does, and the
# records of a class that this takes.
_CONTRARY, _FEWEST = 2.0, 3
# Score of a model of which nothing is known.
_UNKNOWN = 0.5
# Part of the score of class shares by which a model must be better than they are.
_LITTLE = 0.05
# Part of the scores at sources that counts alike at every device, whomever its records resemble.
_POOLED = 0.5
# Records of a device that a prediction from elsewhere is worth, at least and at most.
_STRENGTH = (2.0, 20.0)
# Standard errors by which a choice must be better than the even mixture.
_CAUTION = 1.0
# Weights below this are none.
_DUST = 0.02
# Variance that is added to every score, and most that places may differ beyond their records.
_FLOOR, _MOST_EXCESS = 1e-4, 10.0
_STEPS = 3000
_TINY = 1e-12
# Weight of the equation that shares sum to 1, beside features of norm 1.
_SUM = 100.0
# Makes the mixture unique where several explain a mean equally well.
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class ModelScores:
    """What one device reports on the models of S devices; of C classes."""

    counts: Array
    """Labelled records of each class (C,)."""
    errors: Array
    r"""Mean of :math:`|h_k - y|^2 / 2` by class (C, S)."""
    wrong: Array
    """Of the classes that a model and the records both have, the share it names wrong (S, C)."""
    apart: Array
    r"""Mean of :math:`|h_k - h_m|^2 / 2` over all records (S, S)."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The mixture of a device: weights over the sources, and what is expected of it."""

    weights: Array
    expected: Array
    """Score of each model (S,)."""
    spread: float
    """Standard error of the expected score of the mixture."""
    least: float
    """No mixture of these models has a lower expected score, errors of estimates left aside."""


# Cosine of the mean features of two sources below which their records have nothing in common.
_COMMON = 0.0


def have_common(means: Array, others: Array) -> npt.NDArray[np.bool_]:
    """Whether records have something in common, by the cosine of their mean features (S, T)."""
    lengths = np.outer(np.linalg.norm(means, axis=1), np.linalg.norm(others, axis=1))
    return means @ others.T >= _COMMON * lengths


def _compare(item: ModelScores, trained: Array, fewest: int) -> tuple[Array, Array, Array]:
    """Return by model (S,) the share of labels it names wrong, its standard error, and guessing's.

    Means over the classes that the records, ``fewest`` of each, and the model have; where these
    are fewer than two, the share is NaN.
    """
    rates = np.full((3, len(trained)), np.nan)
    for a, own in enumerate(trained):
        both = np.flatnonzero((own >= _FEWEST) & (item.counts >= fewest))
        if len(both) < 2:
            continue
        rate, records = item.wrong[a, both], item.counts[both]
        noise = np.maximum(rate * (1.0 - rate), 0.25 / records) / records
        rates[:, a] = rate.mean(), np.sqrt(noise.sum()) / len(both), 1.0 - 1.0 / len(both)
    return rates[0], rates[1], rates[2]


def _find_pairs(scores: Sequence[ModelScores], trained: Array) -> npt.NDArray[np.bool_]:
    """Return which two sources contradict one another (S, S): either model the other's labels."""
    worse = np.zeros((len(scores), len(scores)), dtype=bool)
    for b, item in enumerate(scores):
        wrong, error, guessed = _compare(item, trained, _FEWEST)
        worse[:, b] = wrong > guessed + _CONTRARY * error
    np.fill_diagonal(worse, val=False)
    return worse | worse.T


def find_contrary(
    scores: Sequence[ModelScores], trained: Array, means: Array | None = None
) -> list[int]:
    """Find sources whose models contradict the labels of others, among the classes both have.

    Of two that contradict one another each is a suspect; who contradicts most leaves first, of
    equals whoever has fewer labels, until no pair contradicts. ``trained`` are labelled records by
    source and class (S, C). Where two sources have nothing in common by their mean features
    ``means`` (S, D), and each agrees with another source, mistakes are those of other records.
    """
    size = len(scores)
    near = np.ones((size, size), dtype=bool) if means is None else have_common(means, means)
    pairs, labels = _find_pairs(scores, trained), trained.sum(axis=1)
    # Two kinds of records, each with sources that agree, are two kinds, and nobody is contrary.
    has_ally = (near & ~pairs & ~np.eye(size, dtype=bool)).any(axis=1)
    pairs &= near | ~np.outer(has_ally, has_ally)
    kept = list(range(size))
    while pairs[np.ix_(kept, kept)].any():
        load = pairs[np.ix_(kept, kept)].sum(axis=1)
        kept.remove(max(kept, key=lambda k: (load[kept.index(k)], -labels[k])))
    return [k for k in range(size) if k not in kept]


def find_allies(
    scores: Sequence[ModelScores],
    trained: Array,
    means: Array | None,
    labels: ModelScores,
    own: int = -1,
) -> list[int]:
    """Find sources that contradict neither the ``labels`` of a device nor one another.

    Where most sources are contrary, a vote of all names the others; a device's labels decide for
    it: against models that name them worse than guessing does, by two standard errors, or than a
    model that contradicts these does. Empty where they contradict nobody, or everybody but its
    ``own`` model.
    """
    wrong, error, guessed = _compare(labels, trained, 1)
    against = wrong > guessed + _CONTRARY * error
    both = _CONTRARY * np.hypot(error, error[:, None])
    is_better = _find_pairs(scores, trained) & (wrong[:, None] < wrong - both)
    against |= (wrong > guessed) & is_better.any(axis=0)
    allies = [k for k in range(len(scores)) if k != own and not against[k]]
    if len(allies) in (0, len(scores) - (own >= 0)):
        return []
    grid = np.ix_(allies, allies)
    among = [
        ModelScores(item.counts, item.errors[:, allies], item.wrong[allies], item.apart[grid])
        for item in (scores[k] for k in allies)
    ]
    contrary = find_contrary(among, trained[allies], None if means is None else means[allies])
    return [k for place, k in enumerate(allies) if place not in contrary]


def find_weak(scores: Sequence[ModelScores], contrary: Sequence[int]) -> list[int]:
    """Find sources whose models score no better than class shares do, at home and elsewhere.

    None where nobody else would remain.
    """
    sources = [k for k in range(len(scores)) if k not in contrary]

    def excess(model: int, places: Sequence[int]) -> float:
        counts = np.sum([scores[place].counts for place in places], axis=0)
        errors = [scores[place].counts @ scores[place].errors[:, model] for place in places]
        shares = counts / max(float(counts.sum()), 1.0)
        guessed = (1.0 - _LITTLE) * (1.0 - float(shares @ shares)) / 2.0
        return float(sum(errors)) / max(float(counts.sum()), 1.0) - guessed

    def guesses(k: int) -> bool:
        """Return whether a model names its own classes, on records left out, as chance does.

        A model that is too sure of itself has a bad score, and still knows something.
        """
        own = np.tile(scores[k].counts, (len(scores), 1))
        wrong, error, guessed = (rates[k] for rates in _compare(scores[k], own, _FEWEST))
        # It is NaN of one class, of which there is nothing to know.
        return not wrong <= guessed - _CONTRARY * error

    weak = [
        k
        for k in sources
        if guesses(k)
        and excess(k, [k]) >= 0.0
        and excess(k, [j for j in sources if j != k] or [k]) >= 0.0
    ]
    return weak if len(weak) < len(sources) else []


@dataclass(frozen=True, eq=False)
class Target:
    """What is known of the records of one device, beside its own scores."""

    apart: Array
    """Of the models at its records (S, S)."""
    shares: Array | None = None
    """Estimated shares of the classes (C,); those of the sources where there are none."""
    origin: Array | None = None
    """Whose records of a class its own resemble (S, C), summing to 1."""
    excess: float = 1.0
    """How far its records are from all mixtures of the sources', over what sampling explains."""
    near: npt.NDArray[np.bool_] | None = None
    """Sources whose records have something in common with its own (S,)."""
    own: int = -1
    """Its own model among the sources', if it has one."""
    labels: ModelScores | None = None
    """ModelScores at its own labelled records, its own model held out."""


def choose_mixture(target: Target, scores: Sequence[ModelScores], kept: Sequence[int]) -> Choice:
    """Choose the mixture of least expected Brier score at a device.

    ``scores`` are of every source at its own records, own models held out; ``kept`` are the sources
    that are not contrary to one another.
    """
    size = len(scores)
    members = {*kept, *([target.own] if target.own >= 0 else [])}
    used = [k for k in range(size) if k in members]
    places = np.isin(np.arange(size), kept) & (np.arange(size) != target.own)
    counts = np.stack([item.counts for item in scores]) * places[:, None]
    if target.near is not None and counts[target.near].any(axis=1).sum() > 1:
        counts = counts * target.near[:, None]
    if used and not counts.any():
        # Its own labels are all there are.
        counts = np.stack([item.counts for item in scores]) * (np.arange(size) == used[0])[:, None]
    if not used or not counts.any():
        # Nobody scored any model, or no model may come here: all that may count alike.
        weights = np.isin(np.arange(size), used) / max(len(used), 1)
        return Choice(weights, np.full(size, _UNKNOWN), _UNKNOWN, 0.0)
    weight = _weigh_places(counts, target)
    errors = np.stack([item.errors for item in scores])  # (S where scored, C, S models)
    expected = np.einsum("lc,lck->k", weight, errors)
    place = weight.sum(axis=1)
    at = np.einsum("lc,lck->lk", weight, errors) / np.maximum(place, 1e-12)[:, None]
    # What all models have in common at a place decides nothing.
    off = (at - expected) - (at - expected).mean(axis=1, keepdims=True)
    sampling = expected * (1.0 - expected) * (weight**2 / np.maximum(counts, 1.0)).sum() + _FLOOR
    beyond = min(max(target.excess, 1.0), _MOST_EXCESS)
    variance = beyond * np.einsum("l,lk,lm->km", place, off, off) + np.diag(sampling)
    if target.labels is not None and target.labels.counts.any():
        between = (place[:, None] * (at - expected) ** 2).sum(axis=0) + sampling
        expected, variance = _learn(target.labels, expected, between)
    apart = target.apart
    grid = np.ix_(used, used)
    weights, even = np.zeros(size), np.zeros(size)
    weights[used], _ = minimise(expected[used], (variance - apart)[grid])
    best, gap = minimise(expected[used], -apart[grid])
    least = _score(best, expected[used], apart[grid]) - gap
    even[list(kept) or used] = 1.0 / len(list(kept) or used)
    gain = _score(even, expected, apart) - _score(weights, expected, apart)
    if gain < _CAUTION * np.sqrt((weights - even) @ variance @ (weights - even)):
        weights = even
    weights = np.where(weights < _DUST, 0.0, weights)
    weights /= weights.sum()
    return Choice(
        weights=weights,
        expected=expected,
        spread=float(np.sqrt(weights @ variance @ weights)),
        least=least,
    )


def _weigh_places(counts: Array, target: Target) -> Array:
    """Weigh the scores of each class at each source (S, C), by whom the records resemble."""
    even = counts / np.maximum(counts.sum(axis=0), 1.0)
    shares = counts.sum(axis=0) / counts.sum()
    of = even
    if target.origin is not None:
        total = target.origin.sum(axis=0)
        of = np.where(total > 0, target.origin / np.maximum(total, 1e-12), even) * (counts > 0)
        of = of / np.maximum(of.sum(axis=0), 1e-12)
    if target.shares is not None:
        shares = target.shares
    weight = shares * ((1.0 - _POOLED) * of + _POOLED * even)
    total = float(weight.sum())
    return weight / total if total > 0 else counts / counts.sum()


def _learn(labels: ModelScores, expected: Array, between: Array) -> tuple[Array, Array]:
    """Combine predicted scores with those at a device's own labels; their variance, too."""
    records = float(labels.counts.sum())
    measured = np.einsum("c,ck->k", labels.counts / records, labels.errors)
    size = np.maximum(expected * (1.0 - expected), 1e-6)
    strength = np.clip(size / between, *_STRENGTH)
    # Labels that refute a prediction leave little of it.
    is_refuted = np.abs(measured - expected) > 2.0 * np.sqrt(size / records + between)
    strength = np.where(is_refuted, _STRENGTH[0], strength)
    mean = (strength * expected + records * measured) / (strength + records)
    return mean, np.diag(mean * (1.0 - mean) / (strength + records) + _FLOOR)


def minimise(linear: Array, matrix: Array) -> tuple[Array, float]:
    r"""Minimise :math:`w^\top l + \tfrac12 w^\top Q w` over the simplex, and bound what is left.

    Projected gradients; of a convex function no point is lower by more than :math:`\max_k
    \nabla^\top (w - e_k)` (Frank and Wolfe, 1956).
    """
    w = np.full(len(linear), 1.0 / len(linear))
    step = 1.0 / (float(np.abs(matrix).sum(axis=1).max()) + 1e-9)
    gap = np.inf
    for _ in range(_STEPS):
        slope = linear + matrix @ w
        gap = float(slope @ w - slope.min())
        if gap < 1e-9:
            break
        w = _project(w - step * slope)
    return w, gap


def _project(v: Array) -> Array:
    """Find the nearest point of the simplex (Held, Wolfe and Crowder, 1974)."""
    ordered = np.sort(v)[::-1]
    level = (np.cumsum(ordered) - 1.0) / np.arange(1, len(v) + 1)
    return np.maximum(v - level[np.flatnonzero(ordered > level)[-1]], 0.0)


def within_budget(
    choices: Sequence[Choice], targets: Sequence[Target], energy: Array, budget: float
) -> list[Array]:
    """Drop links until those that remain take no more than a share of the energy of all.

    Links go in the order of what the expected score rises by for their energy; each device keeps
    one. ``energy`` is (S, N): of the link of each source to each device, 0 to itself.
    """
    weights = [choice.weights.copy() for choice in choices]
    allowed = budget * float(energy.sum())
    spent = sum(float(energy[w > 0, j].sum()) for j, w in enumerate(weights))

    def without(j: int, k: int) -> tuple[float, Array]:
        w = np.where(np.arange(len(weights[j])) == k, 0.0, weights[j])
        w /= w.sum()
        fixed = choices[j].expected, targets[j].apart
        return (_score(w, *fixed) - _score(weights[j], *fixed)) / energy[k, j], w

    while spent > allowed:
        options = [
            (*without(j, k), j, k)
            for j, w in enumerate(weights)
            if np.count_nonzero(w) > 1
            for k in np.flatnonzero((w > 0) & (energy[:, j] > 0)).tolist()
        ]
        if not options:
            break
        _, w, j, k = min(options, key=lambda item: (item[0], item[2], item[3]))
        spent -= float(energy[k, j])
        weights[j] = w
    return weights


def _score(w: Array, expected: Array, apart: Array) -> float:
    """Compute the expected Brier score of a mixture, halved."""
    return float(w @ expected - 0.5 * w @ apart @ w)


@dataclass(frozen=True, eq=False)
class Explained:
    """The records of one device as a mixture of the classes of sources."""

    origin: Array
    """Share of each class of each source (S, C); they sum to 1, but for classes without a mean."""
    shares: Array
    """Estimated class proportions (C,)."""
    excess: float
    """The square of what the mixture leaves unexplained, over what sampling explains."""
    even_excess: float
    """The same of all labelled records of the sources, in the proportions that they have."""


def explain_records(
    mean: Array, records: int, class_means: Array, counts: npt.NDArray[Any], labelled: Array
) -> Explained:
    r"""Explain the records of a device by the classes of sources.

    .. math:: w = \arg\min_{w \in \Delta} \Big|\mu - \sum_{kc} w_{kc} m_{kc}\Big|^2
        + 10^{-3} |w|^2, \quad \pi_c = \sum_k w_{kc}

    ``class_means`` (S, C, D) are those of ``counts`` (S, C) labelled records, 0 for none. A class
    that is too small everywhere to have a mean has the share that it has of the ``labelled``
    records (S, C).
    """
    rows, columns = np.nonzero(counts > 0)
    if len(rows) == 0:
        raise InputError(
            "no device sends the mean of any class: classes are too small for so many "
            "features. Give fewer features, or more labels.",
            code="labels-absent",
        )
    parts, behind = class_means[rows, columns].T, counts[rows, columns]
    weights = mixture(parts, mean)
    origin = np.zeros(counts.shape)
    origin[rows, columns] = weights
    is_blind = ~(counts > 0).any(axis=0)
    blind = np.where(is_blind, labelled.sum(axis=0) / labelled.sum(), 0.0)
    return Explained(
        origin=origin,
        shares=(1.0 - blind.sum()) * origin.sum(axis=0) + blind,
        excess=excess(mean, records, parts, behind, weights),
        even_excess=excess(mean, records, parts, behind, behind / behind.sum()),
    )


def mixture(parts: Array, mean: Array) -> Array:
    """Return the shares of the columns of ``parts`` that make up ``mean``."""
    count = parts.shape[1]
    system = np.vstack([parts, np.full((1, count), _SUM), _RIDGE**0.5 * np.eye(count)])
    wanted = np.concatenate([mean, [_SUM], np.zeros(count)])
    weights = np.asarray(nnls(system, wanted, maxiter=100 * count)[0], dtype=np.float64)
    # The weighted equation makes shares sum to 1 nearly; now they do.
    return weights / weights.sum()


def excess(mean: Array, records: int, parts: Array, counts: Counts, weights: Array) -> float:
    r"""Compute how far a mixture of means is from a mean, over what sampling explains.

    .. math::
        \frac{|\mu - \sum_k w_k m_k|^2}
        {(1 - |\mu|^2) / (n - 1) + \sum_k w_k^2 (1 - |m_k|^2) / (n_k - 1)}

    About 1, or less where the weights were fitted, if the records are of the distributions that are
    mixed; the more, the less so. ``parts`` (D, K) are means of features of norm 1, as columns.
    """
    chance = _chance(mean, records) + weights**2 @ _chance(parts, counts)
    return float(np.sum((mean - parts @ weights) ** 2) / max(float(chance), _TINY))


def _chance(means: Array, counts: npt.ArrayLike) -> Array:
    """Mean square by which means of this many features of norm 1 are off."""
    spread = np.maximum(1.0 - np.sum(means**2, axis=0), 0.0)
    # Of one record there is no telling how far its mean is off.
    return np.where(np.asarray(counts) > 1, spread / np.maximum(np.asarray(counts) - 1, 1), 1.0)
