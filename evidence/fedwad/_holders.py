"""Holders of two classes each: of five pairs that recur, or of pairs drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence.common import Array, Context, Labels, stream
from silot import Measure

DIMENSION, PUBLIC = 32, 2000
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
STRUCTURES = ("strong", "none", "same")
SETTING = (
    f"Features: {DIMENSION} principal components of {PUBLIC} public records that no holder has "
    "(the paper: pixels of MNIST, the code of a random autoencoder of CIFAR-10). Nothing was tuned "
    "on Fashion-MNIST. Holders of two classes: of five pairs of classes, groups of random size, "
    "two holders or more each (strong structure), or of a pair drawn for each holder (none)"
)


@dataclass(frozen=True)
class Pictures:
    """Records on the principal components of public ones, which no holder has."""

    points: Array
    labels: Labels
    public: Measure

    @classmethod
    def of(cls, context: Context, name: str) -> Pictures:
        """The training images of a data set."""
        images, labels = context.images(name)
        points = images.reshape(len(images), -1) / 255.0
        order = stream(4, 19).permutation(len(points))
        some, left = points[order[:PUBLIC]], order[PUBLIC:]
        mean = some.mean(axis=0)
        axes = np.linalg.svd(some - mean, full_matrices=False)[2][:DIMENSION].T
        public = Measure((some - mean) @ axes, labels=labels[order[:PUBLIC]].astype(str))
        return cls((points[left] - mean) @ axes, labels[left], public)

    def dealt(
        self, holders: int, records: int, structure: str, seed: int
    ) -> tuple[dict[str, Measure], list[int]]:
        """Holders by name, no record twice, and the true group of each.

        ``strong``: five groups of random size, two holders or more each, a pair of classes a group.
        ``none``: a pair of the ten classes drawn for each. ``same``: all classes at all.
        """
        rng = stream(seed, 20, STRUCTURES.index(structure), holders)
        truth = [0] * holders
        if structure == "strong":
            sizes = 2 + rng.multinomial(holders - 10, np.full(5, 0.2))
            truth = np.repeat(np.arange(5), sizes).tolist()
            kinds = [PAIRS[group] for group in truth]
        elif structure == "none":
            kinds = [tuple(rng.choice(10, 2, replace=False).tolist()) for _ in range(holders)]
        else:
            kinds = [tuple(range(10))] * holders
        left = {k: rng.permutation(np.flatnonzero(self.labels == k)).tolist() for k in range(10)}
        # A class that many hold must last for all of them.
        wanted = [sum(k in own for own in kinds) / len(kinds[0]) for k in range(10)]
        most = min(len(left[k]) / times for k, times in enumerate(wanted) if times)
        found: dict[str, Measure] = {}
        for place, own in enumerate(kinds):
            each = int(min(records, most)) // len(own)
            rows = [left[k].pop() for k in own for _ in range(each)]
            found[f"h{place:03}"] = Measure(self.points[rows], labels=self.labels[rows].astype(str))
        return found, truth
