import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest
from sklearn.datasets import load_digits, load_wine

import silot
from silot import Measure, Policy
from silot.distances.fedwad import fedwad
from silot.distances.questions import Interpolate
from silot.errors import InputError, WireError
from silot.federation import Answer, Failure, LocalFederation, Question
from tests.saying import Quiet, Saying

DIGITS = load_digits(return_X_y=True)[0] / 16.0


def gaussians(seed: int, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Two 2-D normal clouds of one covariance (the toy of the paper)."""
    rng = np.random.default_rng(seed)
    root = np.array([[1.0, 0.0], [0.8, 0.6]])
    return (
        rng.normal(size=(n, 2)) @ root,
        rng.normal(size=(n, 2)) @ root + rng.uniform(2, 8, size=2),
    )


@pytest.mark.parametrize("seed", range(8))
def test_toy_gaussians_are_within_a_thousandth(seed: int) -> None:
    x, y = gaussians(seed)
    exact = silot.distance(x, y).value
    result = silot.distance(x, y, method="fedwad", support=100, rounds=20, seed=seed)
    assert exact <= result.value * (1 + 1e-12)
    assert result.value <= exact * (1 + 1e-3)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(4))
def test_digits_are_within_three_percent_in_twenty_rounds(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(DIGITS))
    x, y = DIGITS[order[:300]], DIGITS[order[300:600]]
    exact = silot.distance(x, y).value
    result = silot.distance(x, y, method="fedwad", support=300, rounds=20, seed=seed)
    assert exact <= result.value <= 1.03 * exact
    assert 0.85 * exact <= result.lower <= exact


def test_the_reference_is_not_what_users_draw_from_the_same_seed() -> None:
    x = np.random.default_rng(3).standard_normal((80, 4))
    result = silot.distance(x, x + 1.0, method="trianglewad", support=80, seed=3)
    asked = [entry.payload for entry in result.transcript.entries if entry.direction == "sent"]
    assert not any(x.tobytes() in payload for payload in asked)


def test_a_fixed_half_settles_above_the_distance_and_says_so() -> None:
    x, y = DIGITS[:200], DIGITS[200:400]
    exact = silot.distance(x, y).value
    result = silot.distance(x, y, method="fedwad", support=200, rounds=40, t=0.5)
    assert not result.converged
    assert result.value > 1.05 * exact
    assert result.status.startswith("settled:") and "may still be above W" in result.status
    assert "a random t comes closer" in result.status


def parameters(**options: object) -> list[float]:
    result = silot.distance(*gaussians(3), method="fedwad", rounds=40, tol=0.0, **options)
    asked = [entry.open() for entry in result.transcript.entries if entry.direction == "sent"]
    return [question.t for question in asked if isinstance(question, Interpolate)][::2]


@pytest.mark.heavy
def test_the_published_parameters_are_uniform_and_bounds_hold_with_them() -> None:
    drawn = np.array([t for seed in range(6) for t in parameters(t="uniform", seed=seed)])
    assert kstest(drawn, "uniform").pvalue > 0.01
    # Unlike the default's, which are often near the ends.
    default = np.array([t for seed in range(6) for t in parameters(seed=seed)])
    assert drawn.var() < 0.1 < 0.115 < default.var()
    assert parameters(t="uniform", seed=0) == parameters(t="uniform", seed=0)
    x, y = gaussians(4)
    found = silot.distance(x, y, method="fedwad", support=100, t="uniform")
    assert found.lower <= silot.distance(x, y).value <= found.upper


def test_an_interpolant_near_zero_is_nearly_the_records() -> None:
    x, y = DIGITS[:60], DIGITS[60:120]
    result = silot.distance(x, y, method="fedwad", support=60, rounds=1, t=0.001)
    sent = next(
        k.open() for k in result.transcript.entries if "atoms" in getattr(k.open(), "arrays", {})
    )
    apart = cdist(sent.arrays["atoms"], x).min(axis=1)
    assert apart.max() < 0.01 * np.median(cdist(x, x)[np.triu_indices(60, 1)])


@pytest.mark.parametrize("t", ["Uniform", "0.5", "", 0.0, 1.0, True, np.nan])
def test_parameters_that_are_none_are_refused(t: object) -> None:
    with pytest.raises(InputError) as caught:
        silot.distance(*gaussians(0), method="fedwad", t=t)
    assert caught.value.code == "option-t"


def test_the_upper_bound_never_rises_and_the_lower_never_falls() -> None:
    result = silot.distance(*gaussians(1), method="fedwad", rounds=15, tol=0.0)
    lower = [entry["lower"] for entry in result.history]
    upper = [entry["upper"] for entry in result.history]
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)


def test_exact_interpolation_is_right_with_any_reference() -> None:
    x, y = gaussians(2, n=30)
    exact = silot.distance(x, y[:20]).value
    for support in (1, 7, 25):
        result = silot.distance(
            x, y[:20], method="fedwad", support=support, rounds=9, interpolation="exact"
        )
        assert exact <= result.value <= 1.01 * exact


def test_equal_records_do_not_make_the_reference_grow() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, size=(n, 2)).astype(float) for n in (60, 45))
    mu, nu = (Measure(z, rng.random(len(z)) + 0.05) for z in (x, y + 1))
    result = silot.distance(mu, nu, method="fedwad", tol=0.0)
    assert result.transcript is not None
    asked = [entry.open() for entry in result.transcript.entries if entry.direction == "sent"]
    sizes = [len(each.reference) for each in asked if isinstance(each, Interpolate)]
    assert max(sizes) <= 100 + 60
    assert result.converged and result.value <= 1.01 * silot.distance(mu, nu).value


@pytest.mark.heavy
@pytest.mark.parametrize("p", [1, 2])
def test_the_default_comes_within_a_per_cent_of_real_tables_weights_included(p: int) -> None:
    wine = load_wine().data
    wine = (wine - wine.mean(0)) / wine.std(0)
    rng = np.random.default_rng(p)
    for n, m, weighted in ((80, 80, False), (80, 80, True), (100, 60, False), (60, 90, True)):
        order = rng.permutation(len(wine))
        x, y = wine[order[:n]], wine[order[n : n + m]]
        mu, nu = (Measure(z, rng.random(len(z)) ** 2 + 0.01 if weighted else None) for z in (x, y))
        exact = silot.distance(mu, nu, p=p).value
        found = silot.distance(mu, nu, method="fedwad", p=p)
        assert found.lower <= exact <= found.value <= 1.01 * exact
        assert found.converged and found.status.startswith("converged:")
        assert found.upper - found.lower <= 0.02 * found.upper


@pytest.mark.parametrize(
    ("distances", "finite", "told"), [("every", True, 20), ("last", True, 2), ("never", False, 0)]
)
def test_distances_are_told_when_asked_for_only(distances: str, finite: bool, told: int) -> None:
    x, y = gaussians(3)
    result = silot.distance(x, y, method="fedwad", rounds=9, tol=0.0, distances=distances)
    assert result.transcript is not None
    replies = [entry.open() for entry in result.transcript.entries if entry.direction == "received"]
    numbers = [
        reply for reply in replies if isinstance(reply, Answer) and "distance" in reply.scalars
    ]
    assert len(numbers) == told
    assert np.isfinite(result.upper) == finite
    exact = silot.distance(x, y).value
    assert result.value == pytest.approx(exact, rel=0.05)
    if not finite:
        assert "no upper bound" in result.status


def test_a_holder_that_withholds_distances_leaves_an_estimate() -> None:
    x, y = gaussians(4)
    quiet = Quiet(Measure(x), Policy.open())
    result = LocalFederation({"a": quiet, "b": y}).run(fedwad("a", "b", rounds=5))
    assert result.upper == np.inf
    assert "no distances were sent" in result.status
    assert result.value == pytest.approx(silot.distance(x, y).value, rel=0.1)


def test_weights_are_kept() -> None:
    """The published code resets them, and so falls below the distance."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 3
    a = np.where(x[:, 0] > 0.5, 20.0, 1.0)
    mu, nu = Measure(x, a), Measure(y)
    exact = silot.distance(mu, nu).value
    result = silot.distance(mu, nu, method="fedwad", support=300, rounds=20)
    assert exact <= result.value <= 1.15 * exact
    assert abs(silot.distance(x, y).value / exact - 1) > 0.05


def test_a_given_reference_is_used() -> None:
    x, y = gaussians(6)
    result = silot.distance(x, y, method="fedwad", reference=x[:50], rounds=1, support=50)
    assert result.transcript is not None
    questions = [entry.open() for entry in result.transcript.entries if entry.direction == "sent"]
    asked = [question for question in questions if question.kind == "interpolate"]
    np.testing.assert_array_equal(asked[0].reference, x[:50])


def test_labelled_records_are_compared_with_their_labels() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [6.0, 0.0]], 30, axis=0)
    y = x + 0.01
    labels = np.repeat(["a", "b"], 30)
    same = silot.distance(
        Measure(x, labels=labels), Measure(y, labels=labels), method="fedwad", labels=True,
        support=60,
    )  # fmt: skip
    other = silot.distance(
        Measure(x, labels=labels), Measure(y, labels=rng.permutation(labels)), method="fedwad",
        labels=True, support=60,
    )  # fmt: skip
    assert same.upper < 0.1
    assert other.lower > 1.0


class Malformed(Saying):
    """A holder that sends another number of features than it has."""

    def says(self, question: Question) -> Answer | Failure:
        answer = self.answer(question)
        if isinstance(answer, Answer) and "atoms" in answer.arrays:
            return Answer({**answer.arrays, "atoms": answer.arrays["atoms"][:, :1]}, answer.scalars)
        return answer


def test_a_malformed_interpolant_is_a_coded_error() -> None:
    x, y = gaussians(8)
    federation = LocalFederation({"a": Malformed(Measure(x), Policy.open()), "b": y})
    with pytest.raises(WireError) as caught:
        federation.run(fedwad("a", "b"))
    assert caught.value.code == "answer-malformed"


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("support", 0, "option-support"),
        ("rounds", 0, "option-rounds"),
        ("tol", -1.0, "option-tol"),
        ("tol", float("nan"), "option-tol"),
        ("seed", -1, "option-seed"),
        ("seed", 1.5, "option-seed"),
        ("p", 3, "option-p"),
        ("t", 1.0, "option-t"),
        ("t", float("nan"), "option-t"),
        ("interpolation", "linear", "option-interpolation"),
        ("distances", "often", "option-distances"),
        ("reference_scale", -1.0, "option-reference"),
        ("reference_mean", float("inf"), "option-reference"),
        ("reference", [[np.nan, 0.0]], "measure-nan"),
        ("reference", [[0.0]], "dimension-mismatch"),
        ("colour", "red", "option-unknown"),
    ],
)
def test_options_out_of_range_are_coded_errors(option: str, value: object, code: str) -> None:
    with pytest.raises(InputError) as caught:
        silot.distance(*gaussians(9), method="fedwad", **{option: value})
    assert caught.value.code == code


def test_numpy_numbers_are_options_like_any_other() -> None:
    x, y = gaussians(10)
    plain = silot.distance(x, y, method="fedwad", support=40, rounds=3, seed=5, p=2, tol=0.5)
    counted = silot.distance(
        x, y, method="fedwad", support=np.int64(40), rounds=np.int32(3), seed=np.uint8(5),
        p=np.int64(2), tol=np.float64(0.5),
    )  # fmt: skip
    assert counted.to_dict() | {"seconds": 0} == plain.to_dict() | {"seconds": 0}
    assert counted.transcript is not None
