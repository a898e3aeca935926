"""The exact transport loss, forward and backward, against a loop of ``ot.emd2``. Needs torch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from evidence.common import Context, MissingError
from evidence.speed._timing import medians, show

REPEATS, SEED = 3, 0
# Labels at random in three dimensions, and problems.
LABELS, PROBLEMS = (5, 8, 10, 20, 50), 4096
QUICK = {"LABELS": (5,), "PROBLEMS": 64, "REPEATS": 1}


def run(context: Context) -> None:
    if find_spec("torch") is None:
        raise MissingError("torch is not installed (pip install 'silot[torch]')")
    show(
        f"distillation: exact transport with potentials, {PROBLEMS} problems, a problem",
        ("labels", "silot", "ot.emd2", "ratio", "largest error of a value", "of a gradient"),
        [_loop(size) for size in LABELS],
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
