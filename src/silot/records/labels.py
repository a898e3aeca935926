"""How likely each class is for a record: experts of four kinds, pooled."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.optimize import minimize

from silot_transport import cost_matrix
from silot_transport._check import Array

from ..errors import WireError
from ._arrays import Codes, blocks, log_votes, normed
from .forests import Forest
from .frames import Frames

# What a class is that no tree voted for, in votes of a hundred.
_UNSEEN = 0.5
# The kernel's width in median distances, and how far it is shrunk.
_WIDTHS, _SHRINKS = (0.3, 1.0, 3.0), (0.03, 0.1, 0.3, 1.0, 3.0)
_STEEP = 4.0
# Records that the kernel and the folds are made of at most.
_CENTRES = 1000
_FOLDS, _STRENGTHS, _COMPONENTS = 5, (0.01, 0.1, 1.0), 64
_RIDGE = 0.02


@dataclass(frozen=True)
class Experts:
    """Four models of the classes, and how much each counts."""

    forest: Forest = field(repr=False)
    """Extremely randomised trees and random forests."""
    centres: Array = field(repr=False)
    """Centres (k, d) of kernel ridge regression, in standard units."""
    pull: Array = field(repr=False)
    """Coefficients of the centres (k, C)."""
    base: Array = field(repr=False)
    """What the regression is without them (C,)."""
    width: float
    """Rate of the kernel."""
    slopes: Array = field(repr=False)
    """Of logistic regression in clipped standard units (d, C)."""
    heights: Array = field(repr=False)
    """Of the same regression (C,)."""
    codes: Codes = field(repr=False)
    """Classes (m,) of the frame's records, for their entropic transport potentials."""
    pool: Array
    """Weights of the four."""

    @classmethod
    def fit(
        cls,
        points: Array,
        codes: Codes,
        weights: Array,
        classes: int,
        frames: Frames,
        chosen: Codes,
        seed: int,
    ) -> tuple[Self, Array]:
        r"""Fit experts and their pool; and log shares by those who did not see the record.

        All records grow the trees; the others are of the chosen ones, which the frame has.

        .. math:: \log p(k | x) = \sum_j w_j S_j(x, k) - \text{const}, \quad w_j \ge 0

        by log loss, the scores :math:`S_j` of validation records out of bag, left out, or of folds
        they were not in.
        """
        rng = np.random.default_rng([seed, 11])
        # Trees hardly mind a monotone turn of columns, and single precision holds these.
        forest, voted = Forest.fit(frames.standard(points), codes, weights, classes, seed)
        voted, codes, weights = voted[chosen], codes[chosen], frames.weights
        near = frames.potentials(codes, classes)
        z = frames.standard(frames.points)
        kernel = _Kernel.fit(z, codes, weights, classes, rng)
        linear = _Linear.fit(z, codes, weights, classes, rng)
        own = np.stack([log_votes(voted, _UNSEEN), near, _STEEP * kernel.own, linear.own])
        pool = _pooled(own, codes, weights)
        experts = cls(
            forest, kernel.centres, kernel.pull, kernel.base, kernel.width,
            linear.slopes, linear.heights, codes, pool,
        )  # fmt: skip
        return experts, normed(np.tensordot(pool, own, 1))

    @property
    def classes(self) -> int:
        """How many classes they know."""
        return len(self.base)

    def check(self, dimension: int, records: int) -> None:
        """Raise where fields do not fit together."""
        count = self.base.shape[0] if self.base.ndim == 1 else 0
        fits = (
            count > 0
            and self.centres.ndim == 2
            and self.centres.shape[1] == dimension
            and self.pull.shape == (len(self.centres), count)
            and self.slopes.shape == (dimension, count)
            and self.heights.shape == (count,)
            and self.codes.shape == (records,)
            and 0 <= self.codes.min() <= self.codes.max() < count
            and self.pool.shape == (4,)
            and all(
                np.isfinite(part).all()
                for part in (self.centres, self.pull, self.base, self.slopes, self.heights)
            )
            and np.isfinite(self.pool).all()
            and 0.0 < self.width < np.inf
        )
        if not fits:
            raise WireError("the experts do not fit together.", code="question-fields")
        self.forest.check(dimension, count)

    def __call__(self, points: Array, frames: Frames) -> Array:
        """Log shares of the classes for every record (n, C)."""
        shares = np.empty((len(points), self.classes))
        for here in blocks(len(points), len(self.codes) + len(self.centres)):
            rows = points[here]
            z = frames.standard(rows)
            regression = np.exp(-self.width * cost_matrix(z, self.centres)) @ self.pull + self.base
            scores = np.stack(
                [
                    log_votes(self.forest(z), _UNSEEN),
                    frames.potentials(self.codes, self.classes, rows),
                    _STEEP * regression,
                    normed(np.clip(z, -5.0, 5.0) @ self.slopes + self.heights),
                ]
            )
            shares[here] = normed(np.tensordot(self.pool, scores, 1))
        return shares


def _pooled(own: Array, codes: Codes, weights: Array) -> Array:
    """Weights of the experts with the least log loss."""
    every = np.arange(len(codes))
    count = len(own)

    def loss(pool: Array) -> tuple[float, Array]:
        scores = np.tensordot(pool, own, 1)
        shares = normed(scores)
        slope = ((np.exp(shares) * own).sum(axis=2) - own[:, every, codes]) @ weights
        value = -float(weights @ shares[every, codes])
        ridge = _RIDGE / count
        return value + 0.5 * ridge * float(pool @ pool), slope + ridge * pool

    start = np.full(count, 1.0 / count)
    return np.asarray(minimize(loss, start, jac=True, bounds=[(0.0, None)] * count).x)


@dataclass(frozen=True)
class _Kernel:
    centres: Array
    pull: Array
    base: Array
    width: float
    own: Array

    @classmethod
    def fit(
        cls, z: Array, codes: Codes, weights: Array, classes: int, rng: np.random.Generator
    ) -> Self:
        """Weighted kernel ridge regression of the classes; its leave-one-out error chooses."""
        chosen = np.arange(len(z))
        if len(z) > _CENTRES:
            chosen = np.sort(rng.choice(len(z), _CENTRES, replace=False, p=weights))
        masses = weights[chosen] / weights[chosen].sum()
        root = np.sqrt(masses * len(masses))
        target = np.eye(classes)[codes[chosen]]
        base = masses @ target
        apart = cost_matrix(z[chosen], z[chosen])
        positive = apart[apart > 0]
        unit = float(np.median(positive)) if len(positive) else 1.0
        least, best = np.inf, None
        for width in _WIDTHS:
            kernel = np.exp(-width * apart / unit)
            values, vectors = np.linalg.eigh(root[:, None] * kernel * root)
            for shrink in _SHRINKS:
                inverse = (vectors / (np.maximum(values, 0.0) + shrink)) @ vectors.T
                pull = root[:, None] * (inverse @ (root[:, None] * (target - base)))
                own = target - pull / (root**2 * np.diag(inverse))[:, None]
                error = float(masses @ ((own - target) ** 2).sum(axis=1))
                if error < least:
                    least, best = error, (pull, own, width / unit)
        assert best is not None
        pull, own, rate = best
        scores = np.empty((len(z), classes))
        for here in blocks(len(z), len(chosen)):
            scores[here] = np.exp(-rate * cost_matrix(z[here], z[chosen])) @ pull + base
        scores[chosen] = own
        return cls(z[chosen], pull, base, rate, scores)


@dataclass(frozen=True)
class _Linear:
    slopes: Array
    heights: Array
    own: Array

    @classmethod
    def fit(
        cls, z: Array, codes: Codes, weights: Array, classes: int, rng: np.random.Generator
    ) -> Self:
        """Logistic regression; the log loss of folds chooses how strong it is."""
        from sklearn.decomposition import PCA

        clipped = np.clip(z, -5.0, 5.0)
        if z.shape[1] > _COMPONENTS:
            # Labels have no say in it, so folds stay honest.
            kept = min(_COMPONENTS, len(z) - 1)
            turn = np.asarray(PCA(kept, svd_solver="full").fit(clipped).components_).T
        else:
            turn = np.eye(z.shape[1])
        columns, fold = clipped @ turn, rng.permutation(len(z)) % _FOLDS
        least, strength, own = np.inf, _STRENGTHS[0], np.full((len(z), classes), 1.0 / classes)
        for candidate in _STRENGTHS:
            shares = np.full((len(z), classes), 1.0 / classes)
            for k in range(_FOLDS):
                inside, out = fold != k, fold == k
                if out.any() and inside.any():
                    model = _Fitted.of(
                        columns[inside], codes[inside], weights[inside], classes, candidate
                    )
                    shares[out] = np.exp(normed(columns[out] @ model.slopes + model.heights))
            loss = -float(weights @ np.log(np.maximum(shares[np.arange(len(z)), codes], 1e-4)))
            if loss < least:
                least, strength, own = loss, candidate, shares
        model = _Fitted.of(columns, codes, weights, classes, strength)
        return cls(turn @ model.slopes, model.heights, np.log(np.maximum(own, 1e-4)))


@dataclass(frozen=True)
class _Fitted:
    slopes: Array
    heights: Array

    @classmethod
    def of(
        cls, columns: Array, codes: Codes, weights: Array, classes: int, strength: float
    ) -> Self:
        """One logistic model; classes it has not seen get next to nothing."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        present = np.unique(codes)
        slopes = np.zeros((columns.shape[1], classes))
        heights = np.full(classes, np.log(1e-4))
        if len(present) == 1:
            heights[present] = 0.0
            return cls(slopes, heights)
        model = LogisticRegression(C=strength, max_iter=300)
        with warnings.catch_warnings():
            # The folds judge what it is good for, converged or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(columns, codes, sample_weight=weights / weights.mean())
        coefficients, offsets = np.asarray(model.coef_), np.asarray(model.intercept_)
        if len(present) == 2:
            coefficients = np.vstack([-0.5 * coefficients, 0.5 * coefficients])
            offsets = np.concatenate([-0.5 * offsets, 0.5 * offsets])
        slopes[:, present] = coefficients.T
        heights[present] = offsets
        if len(present) < classes:
            heights[[k for k in range(classes) if k not in set(present.tolist())]] += offsets.min()
        return cls(slopes, heights)
