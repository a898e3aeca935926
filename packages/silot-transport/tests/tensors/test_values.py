"""Values of transport of tensors, against those of arrays; what is refused, and where it runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from silot_transport import exact_plan
from silot_transport import sinkhorn_divergence as of_arrays
from silot_transport.bounds import line_costs
from silot_transport.errors import SilotError, SolverError

torch = pytest.importorskip("torch")

from silot_transport.torch import (  # noqa: E402
    bounds,
    entropic,
    labelled_wasserstein,
    potentials,
    sinkhorn_divergence,
    sliced_wasserstein,
    wasserstein,
)

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
on_devices = pytest.mark.parametrize("device", DEVICES)


def clouds(seed: int = 0, n: int = 12, m: int = 9, d: int = 3) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(size=n), rng.uniform(size=m)
    a[0] = b[1] = 0.0
    return rng.normal(size=(n, d)), rng.normal(0.5, size=(m, d)), a / a.sum(), b / b.sum()


def tensors(arrays: Any, device: str = "cpu", dtype: Any = None) -> list[torch.Tensor]:
    return [torch.tensor(each, device=device, dtype=dtype) for each in arrays]


@pytest.fixture
def by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix is kept, and a tile has few rows."""
    monkeypatch.setattr(entropic, "_LARGEST_MATRIX", 0)
    monkeypatch.setattr(entropic, "_TILE", 20)


@on_devices
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_are_those_of_arrays(device: str, p: int, dtype: Any) -> None:
    arrays = clouds()
    given, digits = tensors(arrays, device, dtype), 1e-5 if dtype == torch.float32 else 1e-9
    found = wasserstein(*given, p=p, on_host=True)
    assert found.dtype == dtype and found.device == given[0].device and found.shape == ()
    assert float(found) == pytest.approx(exact_plan(*arrays, p=p).cost, rel=digits)
    known = of_arrays(*arrays, p=p, epsilon=0.2, tolerance=1e-10).value
    found = sinkhorn_divergence(*given, p=p, epsilon=0.2)
    assert float(found) == pytest.approx(known, rel=digits, abs=1e-8)


@pytest.mark.usefixtures("by_tiles")
@pytest.mark.parametrize("p", [1, 2])
def test_tiles_give_what_the_matrix_gives(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [each.requires_grad_() for each in tensors(clouds())]
    tiled = sinkhorn_divergence(*given, p=p, epsilon=0.2, tolerance=1e-11)
    slopes = torch.autograd.grad(tiled, given)
    monkeypatch.setattr(entropic, "_LARGEST_MATRIX", 1 << 27)
    whole = sinkhorn_divergence(*given, p=p, epsilon=0.2, tolerance=1e-11)
    torch.testing.assert_close(tiled, whole)
    for one, other in zip(slopes, torch.autograd.grad(whole, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("by_tiles")
def test_newton_steps_by_tiles_end_where_the_matrix_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x, y = tensors([rng.standard_t(2.0, size=(60, 2)), rng.standard_t(2.0, size=(70, 2))])
    options: dict[str, Any] = {"epsilon": 0.02, "tolerance": 1e-9, "max_iterations": 20_000}
    tiled = potentials(x, y, **options)
    monkeypatch.setattr(entropic, "_LARGEST_MATRIX", 1 << 27)
    whole = potentials(x, y, **options)
    for one, other in zip(tiled, whole, strict=True):
        torch.testing.assert_close(one - one.mean(), other - other.mean(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_slices_are_transport_on_lines(p: int) -> None:
    x, y, a, b = clouds()
    known = np.mean([
        line_costs((x @ u)[None], (y @ u)[None], a, b, p)[0] for u in _directions(3, 16).T
    ])  # fmt: skip
    source = torch.Generator().manual_seed(3)
    found = sliced_wasserstein(*tensors((x, y, a, b)), p=p, directions=16, generator=source)
    assert float(found) == pytest.approx(float(known), rel=1e-12)
    source = torch.Generator().manual_seed(3)
    even = sliced_wasserstein(*tensors((x, x[::-1] + 1.0)), p=p, directions=16, generator=source)
    lines = [line_costs((x @ u)[None], ((x + 1) @ u)[None], None, None, p)[0]
             for u in _directions(3, 16).T]  # fmt: skip
    assert float(even) == pytest.approx(float(np.mean(lines)), rel=1e-12)


def _directions(d: int, count: int) -> Any:
    source = torch.Generator().manual_seed(3)
    drawn = torch.randn(d, count, generator=source, dtype=torch.float64)
    return (drawn / drawn.norm(dim=0)).numpy()


def test_moments_of_classes_are_coordinates() -> None:
    x, y, a, b = clouds()
    kinds = np.arange(12) % 3, np.arange(9) % 2

    def embedded(points: Any, weights: Any, labels: Any) -> Any:
        rows = np.hstack([points, np.zeros((len(points), 6))])
        for kind in np.unique(labels):
            members = labels == kind
            share = weights[members] / weights[members].sum()
            mean = share @ points[members]
            spread = np.sqrt(share @ (points[members] - mean) ** 2)
            rows[members, 3:] = np.concatenate([mean, spread])
        return rows

    exact = exact_plan(embedded(x, a, kinds[0]), embedded(y, b, kinds[1]), a, b)
    loss = labelled_wasserstein(*tensors((x, y)), tuple(tensors(kinds)), *tensors((a, b)))
    assert float(loss) == pytest.approx(exact.cost, rel=1e-9)


def test_leading_dimensions_are_pairs() -> None:
    x, y, a, b = tensors(clouds())
    many = torch.stack([x, 2.0 * x, x + 1.0])[:, None]
    both = torch.stack([y, -y])
    for loss in (wasserstein, lambda *given: sinkhorn_divergence(*given, epsilon=0.5)):
        found = loss(many, both, a, b)
        assert found.shape == (3, 2)
        assert float(found[2, 1]) == pytest.approx(float(loss(x + 1.0, -y, a, b)), rel=1e-9)


@on_devices
@pytest.mark.parametrize("p", [1, 2])
def test_bounds_hold_for_any_potentials_and_are_close_for_good_ones(device: str, p: int) -> None:
    arrays = clouds(n=40, m=30)
    x, y, a, b = tensors(arrays, device)
    cost = exact_plan(*arrays, p=p).cost
    g = potentials(x, y, a, b, epsilon=0.01, p=p)[1]
    found = bounds(x, y, g, a, b, epsilon=0.01, p=p)
    assert float(found.lower) <= cost <= float(found.upper)
    assert float(found.upper - found.lower) <= 0.1 * cost
    for seed in range(20):
        poor = torch.tensor(np.random.default_rng(seed).normal(size=30), device=device)
        found = bounds(x, y, poor, a, b, epsilon=0.3, p=p)
        assert float(found.lower) <= cost * (1 + 1e-9) and cost * (1 - 1e-9) <= float(found.upper)
    optimal = torch.tensor(exact_plan(*arrays, p=p).potentials[1], device=device)
    assert float(bounds(x, y, optimal, a, b, epsilon=0.01, p=p).lower) == pytest.approx(cost)


def test_bounds_are_of_each_pair() -> None:
    x, y, _, _ = tensors(clouds())
    found = bounds(torch.stack([x, x + 1]), y, torch.zeros(9), epsilon=0.3)
    assert found.lower.shape == found.upper.shape == (2,)


X = torch.zeros(3, 2)
REFUSED = {
    "measure-nan": (X * float("nan"), X),
    "measure-infinite": (X + float("inf"), X),
    "measure-magnitude": (X.double() + 1e200, X.double()),
    "measure-empty": (X[:0], X),
    "measure-shape": (X[0], X),
    "dimension-mismatch": (X, X[:, :1]),
    "tensor-type": (X.int(), X),
    "tensor-mixed": (X, X.double()),
    "weights-shape": (X, X, torch.ones(2)),
    "weights-negative": (X, X, -torch.ones(3)),
    "weights-zero": (X, X, torch.zeros(3)),
    "weights-nan": (X, X, X[:, 0] * float("nan")),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_no_pair_is_refused(code: str) -> None:
    source = torch.Generator()
    for loss in (
        wasserstein,
        lambda *given: sinkhorn_divergence(*given, epsilon=1.0),
        lambda *given: sliced_wasserstein(*given, generator=source),
    ):
        with pytest.raises(SilotError) as refused:
            loss(*REFUSED[code])
        assert refused.value.code == code


def test_other_arguments_are_refused() -> None:
    x, y, _, _ = tensors(clouds())
    kinds = torch.zeros(12, dtype=torch.long), torch.zeros(8, dtype=torch.long)
    refused = {
        "option-p": lambda: wasserstein(x, y, p=3),
        "measure-shape": lambda: wasserstein(x.expand(2, 12, 3), y.expand(3, 9, 3)),
        "tensor-type": lambda: wasserstein(x.numpy(), y),
        "option-epsilon": lambda: sinkhorn_divergence(x, y, epsilon=0.0),
        "labels-shape": lambda: labelled_wasserstein(x, y, kinds),
        "weights-length": lambda: bounds(x, y, torch.zeros(8), epsilon=1.0),
        "option-count": lambda: sliced_wasserstein(x, y, directions=0, generator=torch.Generator()),
    }
    for code, call in refused.items():
        with pytest.raises(SilotError) as found:
            call()
        assert found.value.code == code


def test_what_has_not_converged_is_no_value() -> None:
    x, y, _, _ = tensors(clouds())
    with pytest.raises(SolverError, match="raise max_iterations"):
        sinkhorn_divergence(x, y, epsilon=1e-3, max_iterations=3)


@pytest.mark.skipif(len(DEVICES) == 1, reason="no CUDA device")
def test_nothing_is_moved_from_a_device_unasked() -> None:
    x, y, _, _ = tensors(clouds(), "cuda")
    with pytest.raises(SilotError) as refused:
        wasserstein(x, y)
    assert refused.value.code == "tensor-device"
    assert wasserstein(x, y, on_host=True).is_cuda
    assert sinkhorn_divergence(x, y, epsilon=1.0).is_cuda


def test_importing_it_imports_no_torch_and_a_missing_one_is_told() -> None:
    code = """
import sys, silot_transport.torch, silot_transport.errors
assert "torch" not in sys.modules
sys.modules["torch"] = None
try:
    silot_transport.torch.wasserstein
except silot_transport.errors.SilotError as error:
    assert error.code == "extra-torch", error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
