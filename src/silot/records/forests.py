"""A forest of trees as arrays: what travels, and is read only by arithmetic."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from silot_transport._check import Array

from ..errors import WireError
from ._arrays import Bytes, Codes

# Trees of each of the two kinds: some split at random places, some at the best ones.
TREES = 120
# Records drawn for a tree: more make it larger and hardly better.
_DRAWN = 2000
# Records and trees that are looked at together.
_TOGETHER = 1 << 17


@dataclass(frozen=True, repr=False)
class Forest:
    """Trees, one after the other."""

    feature: Codes
    """The feature that every node (N,) looks at, -1 at a leaf."""
    right: Codes
    """Where a record goes whose value is larger than the threshold; else it goes to the next node.
    """
    threshold: Array
    """Of every node (N,)."""
    shares: Bytes
    """Classes of the training records at every leaf, in parts of 255 (N, C); inner nodes have none.
    """
    roots: Codes
    """The first node of every tree (T,)."""

    @classmethod
    def fit(
        cls, points: Array, codes: Codes, weights: Array, classes: int, seed: int
    ) -> tuple[Self, Array]:
        """Grow trees; and the mean of those that did not see a record, for each record (n, C)."""
        from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

        own = np.zeros((len(points), classes))
        grown: list[tuple[Any, Any]] = []
        for kind in (ExtraTreesClassifier, RandomForestClassifier):
            model: Any = kind(
                TREES,
                bootstrap=True,
                oob_score=True,
                max_samples=min(_DRAWN, len(points)),
                random_state=seed % (1 << 32),
            )
            with warnings.catch_warnings():
                # That no tree left out a record of large weight: see below.
                warnings.filterwarnings("ignore", "Some inputs do not have OOB", UserWarning)
                model.fit(points, codes, sample_weight=weights * len(weights))
            own[:, model.classes_] += np.nan_to_num(model.oob_decision_function_, nan=0.0) / 2.0
            grown += [(tree.tree_, model.classes_) for tree in model.estimators_]
        # No tree may have left a record out: it knows nothing of it.
        none = own.sum(axis=1) == 0.0
        own[none] = 1.0 / classes
        sizes = [tree.node_count for tree, _ in grown]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        shares = np.zeros((sum(sizes), classes), dtype=np.uint8)
        feature, right = np.full(len(shares), -1), np.zeros(len(shares), dtype=np.int64)
        threshold = np.zeros(len(shares))
        for root, (tree, columns) in zip(roots.tolist(), grown, strict=True):
            here = slice(root, root + tree.node_count)
            inner = tree.children_right >= 0
            feature[here] = np.where(inner, tree.feature, -1)
            right[here] = np.where(inner, tree.children_right + root, 0)
            threshold[here] = np.where(inner, tree.threshold, 0.0)
            counts = tree.value[:, 0]
            parts = np.rint(255.0 * counts / counts.sum(axis=1, keepdims=True))
            shares[here, columns] = (parts * ~inner[:, None]).astype(np.uint8)
        return cls(feature.astype(np.int64), right, threshold, shares, roots), own

    def check(self, dimension: int, classes: int) -> None:
        """Raise where reading them would go astray or never end."""
        size = len(self.feature)
        parts = (self.feature, self.right, self.threshold)
        fits = all(part.shape == (size,) for part in parts) and self.roots.ndim == 1
        fits = fits and self.shares.shape == (size, classes) and len(self.roots) > 0
        if fits:
            here, inner = np.arange(size), self.feature >= 0
            fits = bool(
                np.isin(self.roots, here).all()
                and self.feature.max() < dimension
                # Every step goes on: a path of at most so many nodes ends.
                and (self.right[inner] > here[inner]).all()
                and (self.right[inner] < size).all()
                and not inner[-1]
                and (self.shares[~inner].max(axis=1) > 0).all()
            )
        if not fits:
            raise WireError("the forest is not valid.", code="question-fields")

    def deeper(self, most: int) -> bool:
        """Return whether some way from a root has more than this many steps; after ``check``."""
        nodes = np.unique(self.roots)
        for _ in range(most + 1):
            nodes = nodes[self.feature[nodes] >= 0]
            nodes = np.unique(np.concatenate([nodes + 1, self.right[nodes]]))
        return len(nodes) > 0

    def __call__(self, points: Array) -> Array:
        """Mean over all trees of the classes at a record's leaf (n, C)."""
        # As it was grown: with single precision.
        values = points.astype(np.float32)
        shares = np.empty((len(points), self.shares.shape[1]))
        step = max(_TOGETHER // (len(self.roots) * (1 + self.shares.shape[1] // 16)), 1)
        for k in range(0, len(points), step):
            shares[k : k + step] = self._leaves(values[k : k + step])
        return shares

    def _leaves(self, values: Any) -> Array:
        rows = len(values)
        nodes = np.tile(self.roots.astype(np.int32), rows)
        # Features are looked up in one long row.
        starts = np.repeat(np.arange(rows, dtype=np.int32) * values.shape[1], len(self.roots))
        flat, right = values.ravel(), self.right.astype(np.int32)
        feature, threshold = self.feature.astype(np.int32), self.threshold
        under = np.flatnonzero(feature[nodes] >= 0).astype(np.int32)
        at, start = nodes[under], starts[under]
        while len(under):
            is_below = flat[start + feature[at]] <= threshold[at]
            at = np.where(is_below, at + 1, right[at])
            nodes[under] = at
            on = feature[at] >= 0
            under, at, start = under[on], at[on], start[on]
        leaves = self.shares[nodes].astype(np.float32)
        leaves /= leaves.sum(axis=1, keepdims=True)
        return leaves.reshape(rows, len(self.roots), -1).mean(axis=1, dtype=np.float64)
