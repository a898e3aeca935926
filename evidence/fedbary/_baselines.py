"""What others say of records and clients: LAVA, KNN-Shapley, leave-one-out, FedAvg games."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from evidence.common import Array, Labels
from evidence.fedbary._games import TrainingRound
from silot_transport import calibrated_gradient, cost_matrix

NEIGHBOURS = 10


def knn_shapley(x: Array, y: Labels, other: Array, labels: Labels, k: int = NEIGHBOURS) -> Array:
    """Exact Shapley values of records for a k-nearest-neighbour classifier (n,).

    Jia et al., *Efficient Task-Specific Data Valuation for Nearest Neighbor Algorithms*, 2019,
    theorem 1, averaged over the validation records.
    """
    n = len(x)
    order = np.argsort(cost_matrix(other, x), axis=1, kind="stable")
    right = (y[order] == labels[:, None]).astype(np.float64)
    places = np.arange(1, n)
    steps = (right[:, :-1] - right[:, 1:]) / k * np.minimum(k, places) / places
    last = right[:, -1:] / n
    values = np.concatenate([np.cumsum(steps[:, ::-1], axis=1)[:, ::-1] + last, last], axis=1)
    found = np.zeros(n)
    np.add.at(found, order.ravel(), values.ravel())
    return found / len(other)


def lava_published(x: Array, y: Labels, other: Array, labels: Labels) -> Array:
    """LAVA with the settings it was published with (n,).

    Entropic potentials of geomloss, not debiased, with blur² = .1, of the cost |x - x'|² / 2 and
    the entropic transport cost between the records of the two classes, with the same blur.
    """
    # Imported here: the other baselines need no torch.
    import torch
    from geomloss import SamplesLoss

    mine, own = np.unique(y, return_inverse=True)
    theirs, known = np.unique(labels, return_inverse=True)
    near, far = torch.tensor(x), torch.tensor(other)
    solver = partial(SamplesLoss, "sinkhorn", blur=0.1**0.5, debias=False, backend="tensorized")
    classes = solver()
    between = torch.tensor([
        [float(classes(near[own == k], far[known == l])) for l in range(len(theirs))]
        for k in range(len(mine))
    ])  # fmt: skip

    def cost(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        one, two = a[0, :, -1].long(), b[0, :, -1].long()
        # Classes of the validation records are numbered on, so sides can be told apart.
        if int(one.min()) >= len(mine):
            return cost(b, a).transpose(1, 2)
        apart = torch.cdist(a[:, :, :-1], b[:, :, :-1]) ** 2 / 2
        return apart + between[one][:, two - len(mine)]

    marked = [
        torch.cat([points, torch.tensor(codes)[:, None].double()], dim=1)
        for points, codes in ((near, own), (far, known + len(mine)))
    ]
    potential = solver(cost=cost, potentials=True)(*marked)[0]
    return calibrated_gradient(potential.reshape(-1).numpy(), np.full(len(x), 1.0 / len(x)))


def leave_one_out(
    x: Array, y: Labels, other: Array, labels: Labels, *, influence: bool = False
) -> Array:
    """What a least-squares classifier loses on validation records with each record (n,).

    The squared error with all records less that without one, in closed form; higher means more
    suspect. ``influence``: its first order in the record's weight (influence function).
    """
    kinds = np.unique(y)
    design, checks = (np.hstack([points, np.ones((len(points), 1))]) for points in (x, other))
    goal, truth = (1.0 * (codes[:, None] == kinds) for codes in (y, labels))
    inverse = np.linalg.inv(design.T @ design + np.eye(design.shape[1]))
    slopes = inverse @ design.T @ goal
    lever = design @ inverse
    part = 1.0 - (0.0 if influence else (lever * design).sum(axis=1))
    off, error = goal - design @ slopes, truth - checks @ slopes
    moved = checks @ lever.T / part
    changes = 2.0 * ((moved.T @ error) * off).sum(axis=1)
    return -(changes + (not influence) * (moved**2).sum(axis=0) * (off**2).sum(axis=1))


def accuracy(x: Array, y: Labels, other: Array, labels: Labels) -> float:
    """Accuracy of a logistic regression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=0.1, max_iter=200).fit(x, y)
    return float(np.mean(model.predict(other) == labels))


@dataclass
class Federated:
    """Multinomial logistic regression trained by federated averaging.

    ``clients``: records and labels by name. ``classes``: number of classes; labels are 0, 1, .
    ``test``: records and labels for the utility, which is accuracy. ``rounds, steps, rate``:
    rounds; steps of full-batch gradient descent in each; their length.
    """

    clients: dict[str, tuple[Array, Labels]]
    classes: int
    test: tuple[Array, Labels]
    rounds: int = 6
    steps: int = 5
    rate: float = 0.3
    history: list[TrainingRound] = field(default_factory=list)

    def train(self, names: Sequence[str]) -> Array:
        """Model (d + 1, C) of some clients; ``history`` keeps the rounds."""
        model = np.zeros((self.test[0].shape[1] + 1, self.classes))
        sizes = {name: float(len(self.clients[name][1])) for name in names}
        self.history = []
        for _ in range(self.rounds):
            updates = {name: self._local(model, *self.clients[name]) - model for name in names}
            step = TrainingRound(model, updates, sizes)
            self.history.append(step)
            model = model + step.step(frozenset(names))
        return model

    def utility(self, coalition: frozenset[str]) -> float:
        """Accuracy of the model that some clients train; of guessing for none."""
        if not coalition:
            return 1.0 / self.classes
        return self.worth(self.train(sorted(coalition)))

    def worth(self, model: Array) -> float:
        """Accuracy of a model."""
        if not model.any():
            return 1.0 / self.classes
        x, y = self.test
        return float(np.mean(np.argmax(x @ model[:-1] + model[-1], axis=1) == y))

    def _local(self, model: Array, x: Array, y: Labels) -> Array:
        model = model.copy()
        wanted = np.eye(self.classes)[y]
        for _ in range(self.steps):
            scores = x @ model[:-1] + model[-1]
            scores -= scores.max(axis=1, keepdims=True)
            chances = np.exp(scores)
            chances /= chances.sum(axis=1, keepdims=True)
            error = (chances - wanted) / len(y)
            model[:-1] -= self.rate * (x.T @ error)
            model[-1] -= self.rate * error.sum(axis=0)
        return model
