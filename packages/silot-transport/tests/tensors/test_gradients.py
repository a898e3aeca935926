"""Gradients of transport, against differences of its values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from silot_transport.errors import InputError

torch = pytest.importorskip("torch")

from silot_transport.torch import (  # noqa: E402
    labelled_wasserstein,
    sinkhorn_divergence,
    sliced_wasserstein,
    wasserstein,
)

STEP = 1e-5
Loss = Callable[..., "torch.Tensor"]


def sliced(x, y, a, b, *, p):
    # The same directions in every call.
    source = torch.Generator().manual_seed(5)
    return sliced_wasserstein(x, y, a, b, p=p, directions=7, generator=source)


def labelled(x, y, a, b, *, p):
    kinds = torch.arange(x.shape[-2]) % 2, torch.arange(y.shape[-2]) % 3
    return labelled_wasserstein(x, y, kinds, a, b, p=p)


LOSSES: dict[str, Loss] = {
    "exact": wasserstein,
    "sinkhorn": partial(sinkhorn_divergence, epsilon=0.3, tolerance=1e-11),
    "sliced": sliced,
    "labelled": labelled,
}


def problem(seed: int) -> list[torch.Tensor]:
    """Random clouds with random weights: one plan is optimal, and one pair of potentials."""
    rng = np.random.default_rng(seed)
    n, m, d = rng.integers(2, 9, size=3)
    batch = () if seed % 3 else (2,)
    x, y = rng.normal(size=(*batch, n, d)), rng.normal(0.3, size=(*batch, m, d))
    a, b = rng.uniform(0.5, 1.5, size=n), rng.uniform(0.5, 1.5, size=m)
    return [torch.tensor(each, requires_grad=True) for each in (x, y, a, b)]


def error(loss: Loss, inputs: list[torch.Tensor], seed: int) -> float:
    """How far the slope along a random direction is from a central difference."""
    rng = np.random.default_rng(seed)
    steps = [torch.tensor(rng.normal(size=each.shape)) for each in inputs]
    size = torch.sqrt(sum(step.square().sum() for step in steps))
    steps = [step / size for step in steps]
    slopes = torch.autograd.grad(loss(*inputs).sum(), inputs)
    told = sum(float((slope * step).sum()) for slope, step in zip(slopes, steps, strict=True))
    with torch.no_grad():
        sides = [
            float(loss(*(x + sign * STEP * u for x, u in zip(inputs, steps, strict=True))).sum())
            for sign in (1.0, -1.0)
        ]
    return abs(told - (sides[0] - sides[1]) / (2.0 * STEP)) / max(1.0, abs(told))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_differences(name: str, p: int) -> None:
    for seed in range(8):
        assert error(partial(LOSSES[name], p=p), problem(seed), seed) <= 1e-6, seed


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_200_random_problems(name: str, p: int) -> None:
    errors = [error(partial(LOSSES[name], p=p), problem(seed), seed) for seed in range(200)]
    assert max(errors) <= 1e-6, int(np.argmax(errors))


@pytest.mark.heavy
@pytest.mark.parametrize("name", LOSSES)
def test_every_entry_passes_gradcheck(name: str) -> None:
    assert torch.autograd.gradcheck(partial(LOSSES[name], p=2), problem(1), atol=1e-6, rtol=1e-5)


def test_a_wrong_gradient_would_be_seen() -> None:
    def wrong(x, y, a, b):
        return wasserstein(x, y, a.detach(), b) + 0.0 * a.sum()

    assert error(wrong, problem(1), 1) > 1e-4


@pytest.mark.parametrize("name", ["exact", "sinkhorn", "labelled"])
def test_second_derivatives_are_refused(name: str) -> None:
    inputs = problem(1)
    value = LOSSES[name](*inputs, p=2)
    # In a sum with a term that has them, too: none may be left out unsaid.
    total = value + inputs[0].square().sum()
    (slope,) = torch.autograd.grad(total, inputs[0], create_graph=True)
    with pytest.raises(InputError) as refused:
        slope.sum().backward()
    assert refused.value.code == "second-derivatives"


@pytest.mark.parametrize("weighted", [True, False])
def test_second_derivatives_of_slices_are_right(weighted: bool) -> None:
    x, y, a, b = problem(1)
    given = (x, y, a, b) if weighted else (x, (x + x.square()).detach(), None, None)
    used = [each for each in given if each is not None and each.requires_grad]

    def loss(*inputs):
        return sliced(*inputs, *given[len(inputs) :], p=2)

    assert torch.autograd.gradgradcheck(loss, used, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_not_asked_for_gets_no_gradient(name: str) -> None:
    x, y, a, b = (each.detach() for each in problem(2))
    assert not LOSSES[name](x, y, a, b, p=2).requires_grad
    x.requires_grad_()
    with torch.no_grad():
        assert not LOSSES[name](x, y, a, b, p=2).requires_grad
    LOSSES[name](x, y, a, b, p=2).sum().backward()
    assert x.grad is not None and y.grad is None


# The compiler looks at gradients of what is no leaf.
@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("name", LOSSES)
def test_code_that_is_compiled_has_the_same_gradient(name: str) -> None:
    x, *others = problem(2)

    def loss(points):
        return LOSSES[name](2.0 * points, *(each.detach() for each in others), p=2) + points.sum()

    plain, compiled = loss(x), torch.compile(loss, backend="eager")(x)
    torch.testing.assert_close(compiled, plain)
    (one,), (other,) = (torch.autograd.grad(each.sum(), x) for each in (plain, compiled))
    torch.testing.assert_close(other, one)


@pytest.mark.parametrize("name", ["exact", "sinkhorn", "sliced"])
def test_a_measure_is_at_no_distance_from_itself_and_stays(name: str) -> None:
    x, _, a, _ = problem(4)
    value = LOSSES[name](x, x.detach(), a, a.detach(), p=2)
    value.sum().backward()
    assert float(value.detach().abs().max()) <= 1e-12
    assert x.grad is not None and float(x.grad.abs().max()) <= 1e-9
