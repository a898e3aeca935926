"""Losses of tensors with labels are the distances of measures with labels."""

from __future__ import annotations

import numpy as np
import pytest

import silot

torch = pytest.importorskip("torch")


def test_labels_mean_what_a_distance_with_labels_means() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), rng.normal(0.5, size=(9, 3))
    a, b = rng.uniform(size=12), rng.uniform(size=9)
    a[0] = b[1] = 0.0
    kinds = np.arange(12) % 3, np.arange(9) % 2
    distance = silot.distance(
        silot.Measure(x, a, kinds[0]), silot.Measure(y, b, kinds[1]), labels=True
    )
    labels = torch.tensor(kinds[0]), torch.tensor(kinds[1])
    points = torch.tensor(x), torch.tensor(y)
    loss = silot.torch.labelled_wasserstein(*points, labels, torch.tensor(a), torch.tensor(b))
    assert float(loss) ** 0.5 == pytest.approx(distance.value, rel=1e-9)
