"""Debiased Sinkhorn divergences of tensors with their gradients, against geomloss."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from evidence.common import Context
from evidence.speed._timing import show
from silot_transport.torch import sinkhorn_divergence

SIZES, FULL, FEATURES = (500, 1000), (500, 1000, 2000, 5000), 16
BLUR = 0.5
# Their one setting of accuracy, and ours.
SCALINGS, TOLERANCES = (0.5, 0.9, 0.99), (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
Loss = Callable[[Tensor, Tensor], Tensor]
QUICK = {"SIZES": (200,)}


def run(context: Context) -> None:
    if find_spec("geomloss") is None:
        print("speed torch: geomloss is not installed, so there is nothing to compare with.")
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = [row for n in (FULL if context.full else SIZES) for row in compared(n)]
    torch.set_num_threads(threads)
    show(
        f"value and gradient, d = {FEATURES}, float32: geomloss, and silot at equal error or less",
        ("n = m", "scaling", "its error", "its time", "silot's error", "time", "geomloss /"),
        rows,
    )


def compared(n: int) -> list[tuple[str, ...]]:
    """For each accuracy of theirs, the fastest setting of ours that is at least as accurate."""
    from geomloss import SamplesLoss

    source = torch.Generator().manual_seed(n)
    x, y = (torch.randn(n, FEATURES, generator=source) for _ in range(2))
    y = 0.8 * y + 0.5
    wide = x.double(), y.double()
    truth = measured(ours(1e-10), *wide)[1]
    found = [measured(ours(each), x, y) for each in TOLERANCES]
    errors = [error(slope, truth) for _, slope in found]
    rows: list[tuple[str, ...]] = []
    for scaling in SCALINGS:
        loss = SamplesLoss("sinkhorn", p=2, blur=BLUR, scaling=scaling, backend="tensorized")
        seconds, slope = measured(loss, x, y)
        theirs = error(slope, truth)
        good = [k for k, each in enumerate(errors) if each <= theirs]
        best = min(good, key=lambda k: found[k][0], default=None)
        mine = ("none", "", "")
        if best is not None:
            least = found[best][0]
            mine = (f"{errors[best]:.1e}", f"{least:.2f} s", f"{seconds / least:.1f}")
        rows.append((str(n), str(scaling), f"{theirs:.1e}", f"{seconds:.2f} s", *mine))
    return rows


def ours(tolerance: float) -> Loss:
    """Theirs is of half the squared distance, at the square of the blur."""

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return 0.5 * sinkhorn_divergence(x, y, epsilon=2.0 * BLUR**2, tolerance=tolerance)

    return loss


def measured(loss: Loss, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """Seconds of one call and its gradient, the lesser of two; and the gradient."""
    seconds: list[float] = []
    slope = x
    for _ in range(2):
        points = x.clone().requires_grad_()
        began = time.process_time()
        (slope,) = torch.autograd.grad(loss(points, y), points)
        seconds.append(time.process_time() - began)
    return min(seconds), slope


def error(slope: Tensor, truth: Tensor) -> float:
    """Of a gradient, as a part of its length."""
    return float((slope.double() - truth).norm() / truth.norm())
