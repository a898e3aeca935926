"""Entropic transport and transport between labels, against what everybody has."""

from __future__ import annotations

import statistics

import numpy as np
import numpy.typing as npt
import ot
import torch
from scipy.spatial.distance import cdist

from evidence.common import Context
from evidence.speed._timing import medians, show
from silot.distillation._label_transport import find_potentials
from silot_transport import _sweep

Array = npt.NDArray[np.float64]
POINTS, FEATURES, SHARE = 5000, 16, 0.05
TOLERANCE = 1e-6
PAIRS, PART = 4096 * 10, 500


def run(context: Context) -> None:
    """Print the tables; one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sweeps()
    convergence()
    labels()
    torch.set_num_threads(threads)


def sweeps() -> None:
    """One iteration at one regularisation, marginals included."""
    cost, a, epsilon = _problem(POINTS)
    problem = _sweep.Problem(cost, a, a)
    single = cost.astype(np.float32)
    theirs = torch.from_numpy(single)
    log, potential = torch.full((POINTS,), float(np.log(a[0]))), torch.zeros(POINTS)
    g = np.zeros(POINTS)
    near = _sweep.sweep(problem, cost, g, epsilon)[0]

    def in_torch() -> None:
        f = -epsilon * torch.logsumexp((potential - theirs) / epsilon + log, 1)
        torch.logsumexp((f[:, None] - theirs) / epsilon + log[:, None], 0)

    def pot(iterations: int) -> None:
        ot.sinkhorn(
            a, a, cost, epsilon, method="sinkhorn_log", numItermax=iterations, stopThr=0.0,
            warn=False,
        )  # fmt: skip

    seconds = medians(
        {
            "single": lambda: _sweep.sweep(problem, single, g, epsilon, near=near),
            "double": lambda: _sweep.sweep(problem, cost, g, epsilon, near=near),
            "torch": in_torch,
            "one": lambda: pot(1),
            "three": lambda: pot(3),
        },
        5,
    )
    seconds["POT"] = (seconds["three"] - seconds["one"]) / 2
    rows = [
        (
            name,
            f"{1e3 * seconds[key]:.1f} ms",
            f"{seconds['torch'] / seconds[key]:.1f}",
            f"{seconds['POT'] / seconds[key]:.1f}",
        )
        for name, key in (("single precision", "single"), ("double precision", "double"))
    ]
    show(
        f"a Sinkhorn iteration, n = m = {POINTS}: torch (single) and POT (log) as multiples of it",
        ("silot", "time", "torch /", "POT /"),
        rows,
    )


def convergence() -> None:
    """Whole solves to one marginal error: sweeps, and seconds."""
    rows = []
    for n, share, far in (
        (500, 0.05, False), (500, 0.01, False), (500, 0.001, False), (500, 0.01, True),
        (500, 0.001, True),
    ):  # fmt: skip
        cost, a, epsilon = _problem(n, share, far=far)
        problem, found = _sweep.Problem(cost, a, a), {}

        def ours(problem=problem, epsilon=epsilon, found=found) -> None:
            found["silot"] = _sweep.iterate(problem, epsilon, TOLERANCE, 5000, symmetric=False)

        def pot(cost=cost, a=a, epsilon=epsilon, found=found) -> None:
            plan = ot.sinkhorn(
                a, a, cost, epsilon, method="sinkhorn_log", stopThr=TOLERANCE, numItermax=1000,
                warn=False,
            )  # fmt: skip
            found["off"] = max(float(np.abs(plan.sum(axis=k) - a).sum()) for k in (0, 1))

        seconds = medians({"silot": ours, "POT": pot}, 1)
        rows.append(
            (
                f"{'heavy tails' if far else 'normal'}, epsilon {share:.1%} of the mean cost",
                str(found["silot"].sweeps),
                f"{found['silot'].error:.0e}",
                f"{seconds['silot']:.2f} s",
                f"{seconds['POT'] / seconds['silot']:.0f}",
                f"{found['off']:.0e}",
            )
        )
    show(
        f"Sinkhorn to a marginal error of {TOLERANCE:g}, 500 x 500; POT gets 1,000 sweeps",
        ("problem", "passes", "error", "silot", "POT log /", "its error"),
        rows,
    )


def labels() -> None:
    """All pairs of a batch, against a loop over some of them."""
    rows = []
    for size in (10, 20, 50):
        rng = np.random.default_rng(size)
        points = rng.normal(size=(size, 3))
        cost = cdist(points, points)
        p, q = rng.dirichlet(np.full(size, 0.5), (2, PAIRS))
        found: dict[str, Array] = {}

        def ours(p=p, q=q, cost=cost, found=found) -> None:
            found["silot"] = (find_potentials(p - q, cost) * (p - q)).sum(axis=1)

        def loop(p=p, q=q, cost=cost, found=found) -> None:
            pairs = zip(p[:PART], q[:PART], strict=True)
            found["POT"] = np.array([ot.emd2(one, other, cost) for one, other in pairs])

        # Machines slow down and recover: each turn is a ratio of its own.
        turns = [medians({"silot": ours, "POT": loop}, 1) for _ in range(3)]
        ratio = statistics.median(turn["POT"] / PART * PAIRS / turn["silot"] for turn in turns)
        each = statistics.median(turn["silot"] for turn in turns) / PAIRS
        off = np.abs(found["silot"][:PART] / found["POT"] - 1).max()
        rows.append((f"{size} labels", f"{1e6 * each:.1f} us", f"{ratio:.0f}", f"{off:.0e}"))
    show(
        f"exact transport of {PAIRS} pairs at one cost, with potentials",
        ("problem", "a pair", "a loop of ot.emd2 /", "costs differ by"),
        rows,
    )


def _problem(n: int, share: float = SHARE, *, far: bool = False) -> tuple[Array, Array, float]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_t(1.5 if far else 1e9, size=(n, FEATURES)) for _ in range(2))
    y += 0.3
    cost = cdist(x, y, "sqeuclidean")
    return cost, np.full(n, 1 / n), share * float(cost.mean())
