"""The transport loss, forward and backward, against geomloss and a loop of ``ot.emd2``.

Needs torch, and geomloss for the comparison
(``pip install geomloss``). One batch of a student's predictions against ten teachers'; then, for
more labels, problems one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from evidence.common import Context, MissingError
from evidence.speed._timing import medians, show

BATCH, TEACHERS, REPEATS, SEED = 1024, 10, 3, 0
# Labels at random in three dimensions, and problems, of the comparison with a loop.
LABELS, PROBLEMS = (5, 8, 10, 20, 50), 4096
# Iterations of the reference, of a problem that needs so many.
MOST = 100_000
EPSILON = 0.1
# Blur (which is epsilon, for a cost that is a distance) and scaling of geomloss: its defaults, and
# towards exact transport; then at one epsilon.
TO_EXACT = ((0.05, 0.5), (0.001, 0.95), (0.001, 0.99))
AT_EPSILON = ((EPSILON, 0.5), (EPSILON, 0.95), (EPSILON, 0.99), (EPSILON, 0.997))
QUICK = {"BATCH": 64, "LABELS": (5,), "PROBLEMS": 64, "REPEATS": 1}


def run(context: Context) -> None:
    if find_spec("torch") is None:
        raise MissingError("torch is not installed (pip install 'silot[torch]')")
    for name in ("sentiment-5", "emotion"):
        for epsilon in (None, EPSILON):
            _compare(name, epsilon)
    show(
        f"distillation: exact transport with potentials, {PROBLEMS} problems, a problem",
        ("labels", "silot", "ot.emd2", "ratio", "largest error of a value", "of a gradient"),
        [_loop(size) for size in LABELS],
    )


def _compare(name: str, epsilon: float | None) -> None:
    import torch

    from silot.distillation import LabelSpace, sinkhorn_loss

    space = LabelSpace.preset(name)  # type: ignore[arg-type]
    rng = np.random.default_rng(SEED)
    logits = torch.tensor(rng.normal(size=(BATCH, 1, space.size)) * 2, dtype=torch.float32)
    teachers = rng.dirichlet(np.full(space.size, 0.5), (BATCH, TEACHERS))
    q = torch.tensor(teachers, dtype=torch.float32)

    def ours(given: Any) -> Any:
        return sinkhorn_loss(given.softmax(-1), q, space, epsilon=epsilon, reduction="none")

    losses: dict[str, Callable[[Any], Any]] = {"silot": ours}
    try:
        from geomloss import SamplesLoss
    except ImportError:
        print("distillation: geomloss is not installed, nothing to compare; pip install geomloss")
        settings = ()
    else:
        settings = TO_EXACT if epsilon is None else AT_EPSILON
        places = torch.tensor(space.coordinates, dtype=torch.float32)
        places = places.expand(BATCH * TEACHERS, -1, -1).contiguous()
        for blur, scaling in settings:
            solver = SamplesLoss(
                "sinkhorn", p=1, blur=blur, scaling=scaling, debias=False,
                diameter=space.diameter, backend="tensorized",
            )  # fmt: skip

            def theirs(given: Any, solver: Any = solver) -> Any:
                p = given.softmax(-1).expand(q.shape).reshape(-1, space.size)
                return solver(p, places, q.reshape(-1, space.size), places).reshape(q.shape[:-1])

            losses[f"geomloss, blur {blur:g}, scaling {scaling:g}"] = theirs

    def step(loss: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> Any:
            given = logits.clone().requires_grad_()
            values = loss(given)
            values.mean().backward()
            return values.detach(), given.grad

        return run

    runs = {title: step(loss) for title, loss in losses.items()}
    wanted, slopes = _reference(logits, q, space, epsilon)
    seconds = medians(runs, REPEATS)
    rows = []
    for title, run in runs.items():
        values, gradient = run()
        off = (values.double() - wanted).abs() / wanted
        worst = (gradient.double() - slopes).norm() / slopes.norm()
        rows.append((
            title, f"{1000 * seconds[title]:.1f} ms", f"{seconds[title] / seconds['silot']:.1f}",
            f"{off.median():.0e}", f"{off.max():.0e}", f"{worst:.0e}",
        ))  # fmt: skip
    kind = "exact" if epsilon is None else f"epsilon {epsilon:g}"
    show(
        f"distillation: {name}, {kind}, {BATCH} x {TEACHERS} x {space.size}, forward and backward",
        ("loss", "median", "ratio", "median error", "largest", "gradient"),
        rows,
    )


def _loop(size: int) -> tuple[str, ...]:
    """Loss and gradient of student's logits against values and potentials of a loop."""
    import ot
    import torch

    from silot.distillation import LabelSpace, sinkhorn_loss

    rng = np.random.default_rng(SEED)
    space = LabelSpace(rng.normal(size=(size, 3)))
    p = torch.tensor(rng.normal(size=(PROBLEMS, size)) * 2).softmax(-1)
    q = torch.tensor(rng.dirichlet(np.full(size, 0.5), PROBLEMS))

    def ours() -> tuple[Any, Any]:
        given = p.clone().requires_grad_()
        values = sinkhorn_loss(given, q, space, reduction="none")
        values.sum().backward()
        return values.detach().numpy(), given.grad

    pairs = list(zip(p.numpy(), q.numpy(), strict=True))

    def theirs() -> tuple[Any, Any]:
        solved = [ot.emd2(a, b, space.cost, return_matrix=True) for a, b in pairs]
        return np.array([value for value, _ in solved]), np.array([log["u"] for _, log in solved])

    seconds = medians({"silot": ours, "emd2": theirs}, REPEATS)
    (values, gradient), (wanted, potentials) = ours(), theirs()
    slopes = potentials - (potentials * p.numpy()).sum(axis=1, keepdims=True)
    return (
        str(size),
        f"{1e6 * seconds['silot'] / PROBLEMS:.1f} us",
        f"{1e6 * seconds['emd2'] / PROBLEMS:.1f} us",
        f"{seconds['emd2'] / seconds['silot']:.1f}",
        f"{(abs(values - wanted) / wanted).max():.0e}",
        f"{(abs(gradient.numpy() - slopes)).max() / space.diameter:.0e}",
    )


def _reference(logits: Any, q: Any, space: Any, epsilon: float | None) -> tuple[Any, Any]:
    """Values and the gradient of their mean: network simplex, or long iterations in float64."""
    import ot
    import torch

    given = logits.double().requires_grad_()
    p, q = torch.broadcast_tensors(given.softmax(-1), (q / q.sum(-1, keepdim=True)).double())
    q = q / q.sum(-1, keepdim=True)
    cost = torch.tensor(space.cost)
    flat_p, flat_q = p.reshape(-1, space.size), q.reshape(-1, space.size)
    if epsilon is None:
        solved = [
            ot.emd2(a, b, space.cost, return_matrix=True)
            for a, b in zip(flat_p.detach().numpy(), flat_q.numpy(), strict=True)
        ]
        values = torch.tensor([value for value, _ in solved], dtype=torch.float64)
        f = torch.tensor(np.array([log["u"] for _, log in solved]))
    else:
        with torch.no_grad():
            f, g = _iterated(flat_p, flat_q, cost, epsilon)
            values = (flat_p * f).sum(1) + (flat_q * g).sum(1)
    (flat_p * f).sum(1).mean().backward()
    return values.reshape(q.shape[:-1]), given.grad


def _iterated(p: Any, q: Any, cost: Any, epsilon: float) -> tuple[Any, Any]:
    """Potentials after so many plain iterations that another one changes nothing."""
    import torch

    g = torch.zeros_like(q)
    active = torch.arange(len(p))
    for _ in range(MOST):
        f = _softmin(q[active], g[active], cost, epsilon)
        better = _softmin(p[active], f, cost, epsilon)
        moves = (better - g[active]).abs().amax(1) > 1e-13
        g[active] = better
        active = active[moves]
        if len(active) == 0:
            break
    return _softmin(q, g, cost, epsilon), g


def _softmin(weights: Any, potentials: Any, cost: Any, epsilon: float) -> Any:
    exponents = weights.log()[:, None] + (potentials[:, None] - cost) / epsilon
    return -epsilon * exponents.logsumexp(2)
