"""Losses against exact linear programmes, finite differences and unrolled iterations."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from silot.distillation import LabelSpace
from silot.errors import InputError, MismatchError, SolverError
from silot_transport import _native
from tests.lazily import package
from tests.tiers import examples

torch = pytest.importorskip("torch", reason="the losses need torch")

from silot.distillation import _label_transport, entropy_loss, sinkhorn_loss  # noqa: E402
from silot.distillation._label_transport import find_potentials, solve_entropic  # noqa: E402

ot = package("ot")

Array = npt.NDArray[np.float64]
Rng = np.random.Generator


def closed(cost: Array) -> Array:
    """Turn any positive numbers into the metric of shortest paths."""
    cost = np.triu(cost, 1) + np.triu(cost, 1).T
    for k in range(len(cost)):
        cost = np.minimum(cost, cost[:, k, None] + cost[None, k])
    return cost


METRICS: dict[str, Callable[[int, Rng], LabelSpace | Array]] = {
    "line": lambda size, rng: LabelSpace(rng.normal(size=size)),
    "plane": lambda size, rng: LabelSpace(rng.normal(size=(size, 2))),
    "city": lambda size, rng: LabelSpace(rng.normal(size=(size, 3)), metric="cityblock"),
    "scales": lambda size, rng: LabelSpace(
        rng.normal(size=(size, 2)) * 10.0 ** rng.uniform(-3, 3, (size, 1))
    ),
    "grid": lambda size, rng: LabelSpace(
        [(i // 3, i % 3) for i in rng.permutation(size)], metric="cityblock"
    ),
    "one-hot": lambda size, rng: LabelSpace.one_hot(size),
    "collinear": lambda size, rng: LabelSpace([(i, 2 * i) for i in rng.permutation(size)]),
    "random": lambda size, rng: closed(10.0 ** rng.uniform(-3, 3, (size, size))),
    "graph": lambda size, rng: closed(rng.integers(1, 4, (size, size)).astype(float)),
}


def dense(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    return rng.dirichlet(np.ones(size), n), rng.dirichlet(np.ones(size), n)


def _sparse(n: int, size: int, rng: Rng) -> Array:
    drawn = rng.dirichlet(np.ones(size), n) * (rng.random((n, size)) < 0.5)
    drawn[drawn.sum(axis=1) == 0, 0] = 1.0
    return drawn / drawn.sum(axis=1, keepdims=True)


def sparse(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    return _sparse(n, size, rng), _sparse(n, size, rng)


def one_hots(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    return np.eye(size)[rng.integers(size, size=n)], np.eye(size)[rng.integers(size, size=n)]


def peaked(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    small = np.full(size, 0.05)
    return rng.dirichlet(small, n), rng.dirichlet(small, n)


def tied(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    even = np.ones(size) / size
    return rng.multinomial(6, even, n) / 6.0, rng.multinomial(6, even, n) / 6.0


def equal(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    drawn = _sparse(n, size, rng)
    return drawn, drawn.copy()


def nearly_equal(n: int, size: int, rng: Rng) -> tuple[Array, Array]:
    drawn = rng.dirichlet(np.ones(size), n)
    moved = drawn * (1.0 + 1e-6 * rng.normal(size=drawn.shape))
    return drawn, moved / moved.sum(axis=1, keepdims=True)


PAIRS = {
    draw.__name__: draw for draw in (dense, sparse, one_hots, peaked, tied, equal, nearly_equal)
}


def cost_of(space: LabelSpace | Array) -> Array:
    return space.cost if isinstance(space, LabelSpace) else space


def exact_cost(p: Array, q: Array, cost: Array) -> float:
    """Optimal cost by network simplex, from differences in rational numbers."""
    one, other = [Fraction(x) for x in p.tolist()], [Fraction(x) for x in q.tolist()]
    # The sums once: fractions of as many digits are what this oracle takes its time for.
    total, others = sum(one), sum(other)
    change = np.array([float(x / total - y / others) for x, y in zip(one, other, strict=True)])
    moved = np.abs(change).sum() / 2
    if moved == 0:
        return 0.0
    rows, columns = change > 0, change < 0
    part = np.ascontiguousarray(cost[np.ix_(rows, columns)]) / cost.max()
    a, b = change[rows] / change[rows].sum(), change[columns] / change[columns].sum()
    return moved * cost.max() * float(ot.emd2(a, b, part))


def losses(p: Array, q: Array, space: LabelSpace | Array, dtype: object, **options: object):
    one = torch.tensor(p, dtype=dtype, requires_grad=True)
    other = torch.tensor(q, dtype=dtype, requires_grad=True)
    values = sinkhorn_loss(one, other, space, reduction="none", **options)
    values.sum().backward()
    assert values.dtype == dtype
    return values, one, other


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=examples(25))
@given(pair=st.sampled_from(list(PAIRS)), size=st.integers(2, 7), seed=st.integers(0, 2**32 - 1))
def test_the_loss_is_exact_transport(
    kind: str, dtype: object, pair: str, size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    space = METRICS[kind](size, rng)
    values, p, q = losses(*PAIRS[pair](5, size, rng), space, dtype)
    assert torch.isfinite(p.grad).all() and torch.isfinite(q.grad).all()
    cost = cost_of(space)
    wanted = [
        exact_cost(a, b, cost)
        for a, b in zip(p.detach().double().numpy(), q.detach().double().numpy(), strict=True)
    ]
    np.testing.assert_allclose(
        values.detach().double().numpy(), wanted, rtol=2e-6, atol=1e-18 * cost.max()
    )


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("size", [2, 3, 9, 20, 50])
def test_transport_is_proven_exact_for_many_labels(kind: str, size: int) -> None:
    rng = np.random.default_rng(size)
    cost = cost_of(METRICS[kind](size, rng))
    for draw in PAIRS.values():
        p, q = draw(20, size, rng)
        change = p / p.sum(axis=1, keepdims=True) - q / q.sum(axis=1, keepdims=True)
        f = find_potentials(change, cost)
        assert (f[:, :, None] - f[:, None] <= cost + 1e-12 * cost.max()).all()
        for a, b, worth in zip(p, q, (f * change).sum(axis=1), strict=True):
            # What the oracle and the sum cannot know of masses that differ by 1e-6.
            wanted = exact_cost(a, b, cost)
            assert worth == pytest.approx(wanted, rel=1e-7, abs=1e-14 * cost.max())


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("size", [5, 30])
def test_problems_that_no_kernel_has_proven_are_solved_one_by_one(
    kernels: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    space = LabelSpace(rng.normal(size=(size, 3)))
    for draw in (dense, equal):
        p, q = draw(40, size, rng)
        wanted, one, _ = losses(p, q, space, torch.float64)
        with monkeypatch.context() as patch:
            # Either there is no kernel, or no flow but of nothing is proof enough.
            patch.setattr(_label_transport, "_GAP", -1.0)
            if not kernels:
                patch.setattr(_native, "kernels", None)
            values, other, _ = losses(p, q, space, torch.float64)
        torch.testing.assert_close(values, wanted)
        torch.testing.assert_close(one.grad, other.grad)


def test_the_oracle_agrees_with_a_linear_programme() -> None:
    rng = np.random.default_rng(0)
    space = LabelSpace.preset("emotion")
    for p, q in zip(*sparse(20, 5, rng), strict=True):
        rows = np.kron(np.eye(5), np.ones(5))
        columns = np.kron(np.ones(5), np.eye(5))
        found = linprog(space.cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.r_[p, q])
        assert exact_cost(p, q, space.cost) == pytest.approx(found.fun, rel=1e-9, abs=1e-12)


EPSILONS = (None, 1.0, 0.1, 0.02)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("side", [0, 1])
@settings(max_examples=examples(20))
@given(kind=st.sampled_from(list(METRICS)), size=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_gradients_are_finite_differences(
    epsilon: float | None, side: int, kind: str, size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    space = METRICS[kind](size, rng)
    top = cost_of(space).max()
    options = {"epsilon": epsilon and epsilon * top, "tolerance": 1e-7}
    given_ = [torch.tensor(each) for each in dense(3, size, rng)]
    given_[side].requires_grad_()
    sinkhorn_loss(*given_, space, reduction="sum", **options).backward()
    # Every entry moved alone, both ways: (2, size, 3, size).
    moves = torch.tensor([1.0, -1.0])[:, None, None, None] * 1e-6 * torch.eye(size)[:, None]
    ends = [each.detach() for each in given_]
    ends[side] = ends[side] + moves
    found = sinkhorn_loss(*ends, space, reduction="none", **options)
    slopes = (found[0] - found[1]).T / 2e-6
    np.testing.assert_allclose(given_[side].grad, slopes, rtol=1e-3, atol=1e-3 * top)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gradients_at_zero_entries_are_one_sided_differences(epsilon: float | None) -> None:
    space = LabelSpace.preset("emotion")
    p = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0]] * 2, dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.4, 0.3, 0.0, 0.1, 0.2], [0, 1, 0, 0, 0]], dtype=torch.float64)
    options = {"epsilon": epsilon, "reduction": "none", "tolerance": 1e-8}
    start = sinkhorn_loss(p, q, space, **options)
    start.sum().backward()
    for j in (0, 2, 3, 4):
        moved = p.detach().clone()
        moved[:, j] += 1e-7
        slopes = (sinkhorn_loss(moved, q, space, **options) - start.detach()) / 1e-7
        np.testing.assert_allclose(p.grad[:, j].numpy(), slopes.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("epsilon", [None, 0.3])
@pytest.mark.parametrize("name", ["sentiment-5", "emotion", "nli"])
def test_gradients_through_a_softmax_are_finite_differences(
    name: str, epsilon: float | None
) -> None:
    space = LabelSpace.preset(name)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    logits = torch.tensor(rng.normal(size=(4, space.size)), requires_grad=True)
    q = torch.tensor(_sparse(4, space.size, rng))

    def loss(each):
        return sinkhorn_loss(each.softmax(-1), q, space, epsilon=epsilon, tolerance=1e-8)

    assert torch.autograd.gradcheck(loss, logits, eps=1e-6, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_entropic_values_and_gradients_are_those_of_unrolled_iterations(epsilon: float) -> None:
    space = LabelSpace.preset("emotion")
    rng = np.random.default_rng(2)
    p, q = (torch.tensor(each, requires_grad=True) for each in dense(6, 5, rng))
    cost = torch.tensor(space.cost)
    f = g = torch.zeros(6, 5, dtype=torch.float64)
    for _ in range(400):
        f = -epsilon * (q.log()[:, None] + (g[:, None] - cost) / epsilon).logsumexp(2)
        g = -epsilon * (p.log()[:, None] + (f[:, None] - cost.T) / epsilon).logsumexp(2)
    plan = p[:, :, None] * q[:, None] * ((f[:, :, None] + g[:, None] - cost) / epsilon).exp()
    ratio = plan / (p[:, :, None] * q[:, None])
    unrolled = (plan * cost + epsilon * plan * ratio.log()).sum((1, 2))
    slopes = torch.autograd.grad(unrolled.sum(), (p, q))
    found = sinkhorn_loss(p, q, space, epsilon=epsilon, reduction="none")
    np.testing.assert_allclose(found.detach(), unrolled.detach(), rtol=1e-6)
    ours = torch.autograd.grad(found.sum(), (p, q))
    for own, other, side in zip(ours, slopes, (p, q), strict=True):
        # Along the simplex, where both are defined.
        tangent = other - (other * side).sum(1, keepdim=True)
        np.testing.assert_allclose(own.numpy(), tangent.detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("kind", ["line", "plane", "scales", "random", "one-hot"])
def test_entropic_loss_lies_between_transport_and_transport_plus_entropy(
    kind: str, pair: str
) -> None:
    rng = np.random.default_rng(5)
    space = METRICS[kind](6, rng)
    top = cost_of(space).max()
    p, q = (torch.tensor(each) for each in PAIRS[pair](20, 6, rng))
    least = sinkhorn_loss(p, q, space, reduction="none")
    for share in (1.0, 0.1, 0.01, 1e-3):
        found = sinkhorn_loss(p, q, space, epsilon=share * top, reduction="none")
        slack = 1e-4 * least + 1e-10 * top
        assert (found >= least - slack).all()
        # KL(plan, p x q) is the mutual information, at most the entropy of p.
        entropy = -torch.xlogy(p, p).sum(1)
        assert (found <= least + share * top * entropy + slack).all()
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-8])
@pytest.mark.parametrize("newton", [True, False])
def test_a_small_entropic_value_is_as_exact_as_a_large_one(
    small: float, newton: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not newton:  # iterations alone stop as soon as they may
        monkeypatch.setattr("silot.distillation._label_transport._STEP", 0.0)
    # Two labels leave one number open: the mass u that goes from the second to the first.
    epsilon, a, b = 0.04, small, 20 * small
    ratio = np.exp(2 / epsilon)
    u = brentq(lambda u: (a - u) * (1 - b - u) - ratio * u * (b - a + u), 0, a, xtol=1e-60)
    plan = np.array([1 - b - u, b - a + u, u, a - u])
    product = np.array([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b])
    logs = np.log(plan / product)
    logs[0] = np.log1p((a - u - a * b) / product[0])  # to the last digit
    wanted = plan[1] + plan[2] + epsilon * (plan * logs).sum()
    p, q = (torch.tensor([1 - x, x], dtype=torch.float64) for x in (a, b))
    found = sinkhorn_loss(p, q, LabelSpace([0.0, 1.0]), epsilon=epsilon)
    assert found.item() == pytest.approx(wanted, rel=1e-4)
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    value, f, g = (
        each[0].numpy() for each in solve_entropic(p[None], q[None], cost, epsilon, 1e-4)
    )
    found_plan = np.outer(p, q) * np.exp((f[:, None] + g - cost) / epsilon)
    np.testing.assert_allclose(found_plan.sum(axis=1), p, rtol=1e-9)
    # What certifies the value: the L1 error of the columns times the largest cost.
    assert np.abs(found_plan.sum(axis=0) - q.numpy()).sum() <= 1e-4 * value + 1e-12


def test_costs_that_are_no_metric_can_have_an_epsilon() -> None:
    cost = np.array([[0.0, 1.0, 9.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    p, q = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.6, 0.4, 0.0])
    found = sinkhorn_loss(p, q, cost, epsilon=0.01)
    lowest = ot.emd2(p.double().numpy(), q.double().numpy(), cost)
    assert lowest <= found.item() + 1e-5 <= lowest + 0.02
    with pytest.raises(InputError) as caught:
        sinkhorn_loss(p, q, cost)
    assert caught.value.code == "cost-metric"


def test_a_batch_gives_what_its_rows_give_and_teachers_broadcast() -> None:
    space = LabelSpace.preset("emotion")
    rng = np.random.default_rng(3)
    p, q = (torch.tensor(each) for each in sparse(6, 5, rng))
    for epsilon in (None, 0.05):
        table = sinkhorn_loss(p[:, None], q[None], space, epsilon=epsilon, reduction="none")
        assert table.shape == (6, 6)
        single = sinkhorn_loss(p[2], q[4], space, epsilon=epsilon)
        assert single.shape == () and single.item() == pytest.approx(table[2, 4].item(), rel=1e-4)
        total = sinkhorn_loss(p[:, None], q[None], space, epsilon=epsilon, reduction="sum")
        assert total.item() == pytest.approx(table.sum().item())


def test_minimising_the_loss_finds_the_teacher() -> None:
    space = LabelSpace.preset("emotion")
    q = torch.tensor([[0.1, 0.2, 0.3, 0.25, 0.15]])
    logits = torch.zeros(1, 5, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.02)
    for _ in range(400):
        optimiser.zero_grad()
        sinkhorn_loss(logits.softmax(-1), q, space).backward()
        optimiser.step()
    assert sinkhorn_loss(logits.softmax(-1), q, space).item() < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(size=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_entropy_is_the_divergence_where_there_are_no_zeros(
    dtype: object, size: int, seed: int
) -> None:
    p, q = dense(4, size, np.random.default_rng(seed))
    one = torch.tensor(p, dtype=dtype, requires_grad=True)
    other = torch.tensor(q, dtype=dtype)
    forth = (q * np.log(q / p)).sum(axis=1)
    back = (p * np.log(p / q)).sum(axis=1)
    found = entropy_loss(one, other, reduction="none")
    found.sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), forth, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(one.grad.numpy(), -q / p, rtol=1e-4)
    both = entropy_loss(one, other, symmetric=True, reduction="none")
    np.testing.assert_allclose(both.detach().numpy(), forth + back, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("symmetric", [False, True])
def test_entropy_is_finite_at_zeros(dtype: object, symmetric: bool) -> None:
    p = torch.tensor([[1.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    q = torch.tensor([[0.0, 1.0, 0.0]], dtype=dtype, requires_grad=True)
    found = entropy_loss(p, q, symmetric=symmetric)
    found.backward()
    tiny = torch.finfo(dtype).tiny
    assert found.item() == pytest.approx(-np.log(tiny) * (2 if symmetric else 1), rel=1e-5)
    assert torch.isfinite(p.grad).all() and torch.isfinite(q.grad).all()
    logits = torch.tensor([[200.0, -2000.0, 0.0]], dtype=dtype, requires_grad=True)
    entropy_loss(logits.softmax(-1), q.detach(), symmetric=symmetric).backward()
    assert torch.isfinite(logits.grad).all()


GOOD = torch.tensor([[0.5, 0.5]])
PAIR = LabelSpace([0.0, 1.0])


@pytest.mark.parametrize(
    ("p", "q", "options", "code"),
    [
        (torch.tensor([[0.5, float("nan")]]), GOOD, {}, "loss-simplex"),
        (GOOD, torch.tensor([[float("inf"), 0.5]]), {}, "loss-simplex"),
        (GOOD, torch.tensor([[1.1, -0.1]]), {}, "loss-simplex"),
        (torch.tensor([[2.0, 1.0]]), GOOD, {}, "loss-simplex"),
        (torch.zeros(1, 2), GOOD, {}, "loss-simplex"),
        (torch.zeros(0, 2), torch.zeros(0, 2), {}, "loss-simplex"),
        (torch.ones(1, 1), torch.ones(1, 1), {}, "loss-shape"),
        (GOOD, torch.ones(1, 3) / 3, {}, "loss-shape"),
        (GOOD.repeat(2, 1), GOOD.repeat(3, 1), {}, "loss-shape"),
        ([[0.5, 0.5]], GOOD, {}, "loss-tensor"),
        (torch.tensor([[1, 0]]), GOOD, {}, "loss-tensor"),
        (GOOD, GOOD, {"reduction": "median"}, "option-reduction"),
        (GOOD, GOOD, {"epsilon": 0.0}, "option-epsilon"),
        (GOOD, GOOD, {"epsilon": 1e-9}, "option-epsilon"),
        (GOOD, GOOD, {"epsilon": float("nan")}, "option-epsilon"),
        (GOOD, GOOD, {"tolerance": 0.0}, "option-tolerance"),
    ],
)
def test_mistakes_have_codes(p: object, q: object, options: dict, code: str) -> None:
    with pytest.raises(InputError) as caught:
        sinkhorn_loss(p, q, PAIR, **options)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("cost", "code"),
    [
        (np.ones((2, 2)), "cost-values"),
        (np.zeros((2, 2)), "cost-values"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), "cost-values"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "cost-values"),
        (np.zeros((2, 3)), "cost-shape"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "cost-metric"),
    ],
)
def test_costs_that_are_no_costs_have_codes(cost: Array, code: str) -> None:
    with pytest.raises(InputError) as caught:
        sinkhorn_loss(GOOD, GOOD, cost)
    assert caught.value.code == code


def test_what_has_not_converged_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silot.distillation._label_transport._MOST", 1)
    p, q = dense(4, 5, np.random.default_rng(0))
    with pytest.raises(SolverError) as caught:
        sinkhorn_loss(torch.tensor(p), torch.tensor(q), LabelSpace.preset("emotion"), epsilon=0.001)
    assert caught.value.code == "sinkhorn-not-converged"


def test_a_logit_too_many_is_refused_by_entropy_too() -> None:
    with pytest.raises(InputError):
        entropy_loss(torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.5]))
    with pytest.raises(MismatchError):
        entropy_loss(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5, 0.0]))


def test_second_derivatives_are_right_or_an_error() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 3, dtype=torch.float64, generator=generator)
    q = torch.softmax(torch.randn(20, 5, dtype=torch.float64, generator=generator), 1)
    w = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    v = torch.randn(3, 5, dtype=torch.float64, generator=generator)

    def slope(at: torch.Tensor, epsilon: float | None, **options: bool) -> torch.Tensor:
        at = at.detach().requires_grad_()
        loss = sinkhorn_loss(
            torch.softmax(x @ at, 1), q, LabelSpace.preset("emotion"), epsilon=epsilon
        )
        # Squared, so that the loss itself stands in its second derivative.
        (found,) = torch.autograd.grad(loss**2, at, **options)
        if not options:
            return found
        return torch.autograd.grad((found * v).sum(), at)[0]

    step = 1e-6
    expected = (slope(w + step * v, None) - slope(w - step * v, None)) / (2 * step)
    torch.testing.assert_close(slope(w, None, create_graph=True), expected, rtol=1e-6, atol=1e-8)
    with pytest.raises(InputError, match="loss-second"):
        slope(w, 0.3, create_graph=True)
