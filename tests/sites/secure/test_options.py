"""Options, refusals, and what a holder prepares: all of it without the engine."""

import importlib.util

import numpy as np
import pytest

import silot
from silot.data.measure import Measure
from silot.errors import ExtraError, InputError, RefusedError
from silot.federation import Own, Policy
from silot.federation.question import question_kinds
from silot.privacy.ledger import BudgetError, Ledger
from silot.sites.secure import Secure, SecureOptions
from silot.sites.secure._inputs import SecureInputs, laplace
from silot.sites.secure.charging import Request, charge, mu_of_laplace

from .needs import needs_noise

pytestmark = pytest.mark.all_cases

X = np.random.default_rng(0).normal(size=(20, 3))


def prepared(measure: Measure, **fields) -> dict[str, np.ndarray]:
    given = {"scale": 1.0, "unit": 2.0**-40, "largest": 2.0**16, **fields}
    return dict(Own(measure).answer(SecureInputs(**given)).arrays)


@pytest.mark.parametrize("protocol", ["semi2k", "SEMI2K", "ref2k", "securenn", "", "aby4"])
def test_a_protocol_that_one_party_could_open_is_refused(protocol: str) -> None:
    if protocol == "":
        assert SecureOptions(protocol="").protocol == "aby3"
        return
    with pytest.raises(InputError) as caught:
        silot.distance(X, X, method="secure", protocol=protocol)
    assert caught.value.code == "secure-trust"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"scale": 0.0}, "option-scale"),
        ({"scale": float("nan")}, "option-scale"),
        ({"receiver": "c"}, "option-receiver"),
        ({"two_party": True, "receiver": "third"}, "option-receiver"),
        ({"two_party": 1}, "option-two-party"),
        ({"privacy_epsilon": 1.0}, "option-diameter"),
        ({"diameter": 1.0}, "option-diameter"),
        ({"privacy_epsilon": -1.0, "diameter": 1.0}, "option-privacy-epsilon"),
        ({"accuracy": "best"}, "option-accuracy"),
        ({"support": 10}, "option-unknown"),
        ({"p": 1}, "option-p"),
    ],
)
def test_bad_options_are_coded(options: dict[str, object], code: str) -> None:
    with pytest.raises(InputError) as caught:
        silot.distance(X, X, method="secure", **options)
    assert caught.value.code == code


@pytest.mark.parametrize(("protocol", "lightest"), [("aby3", 2.0**-24), ("cheetah", 2.0**-10)])
def test_a_weight_the_numbers_cannot_hold_is_refused(protocol: str, lightest: float) -> None:
    options = SecureOptions(protocol=protocol)
    question = options.inputs(options.program((3, 3), 1, 3))
    for part, refused in ((0.5, True), (2.0, False)):
        measure = Measure(X[:3], weights=np.array([part * lightest, 0.5, 0.5]))
        if refused:
            with pytest.raises(InputError) as caught:
                Own(measure).answer(question)
            assert caught.value.code == "secure-weights"
        else:
            Own(measure).answer(question)


@pytest.mark.parametrize(("two_party", "largest"), [(False, 2.0**16), (True, 64.0)])
def test_a_ball_that_holders_could_refuse_is_refused_for_all(
    two_party: bool, largest: float
) -> None:
    for diameter, refused in ((2.0 * largest, False), (2.1 * largest, True)):
        options = SecureOptions(
            scale=2.0, two_party=two_party, privacy_epsilon=1.0, diameter=diameter
        )
        if refused:
            with pytest.raises(InputError) as caught:
                options.program((5, 5), 1, 3)
            assert caught.value.code == "option-diameter"
        else:
            options.program((5, 5), 1, 3)


def test_noise_for_label_vectors_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        SecureOptions(privacy_epsilon=1.0, diameter=1.0, embedding="diagonal")
    assert caught.value.code == "release-embedding"


@pytest.mark.skipif(importlib.util.find_spec("spu") is not None, reason="spu is installed")
def test_without_the_extra_the_error_names_it() -> None:
    with pytest.raises(ExtraError, match=r"pip install 'silot\[secure\]'") as caught:
        silot.distance(X, X, method="secure")
    assert caught.value.code == "extra-secure"


def test_inputs_cannot_be_asked_over_a_wire() -> None:
    assert SecureInputs.kind not in question_kinds()


def test_inputs_are_centred_and_scaled_records_of_positive_weight() -> None:
    weights = np.r_[np.zeros(5), np.arange(1.0, 16.0)]
    made = prepared(Measure(X + 100.0, weights), scale=2.0)
    mass = weights[5:] / weights.sum()
    assert np.allclose(made["points"] + made["mean"], (X[5:] + 100.0) / 2.0)
    assert np.allclose(mass @ made["points"], 0.0, atol=1e-12)
    assert np.allclose(made["weights"], mass)
    assert np.allclose(made["weights"] * made["roots"] ** 2, 1.0)
    norms = (made["points"] ** 2).sum(1)
    assert np.allclose(made["numbers"], [mass @ norms, 0.0])


@pytest.mark.parametrize("size", [1e6, 1e12])
def test_records_beyond_the_scale_are_refused_without_quoting_them(size: float) -> None:
    with pytest.raises(InputError) as caught:
        prepared(Measure(X * size))
    assert caught.value.code == "secure-scale"
    assert f"{X[0, 0] * size:.4g}"[:4] not in caught.value.message
    prepared(Measure(X * size), scale=size)


def test_tiny_weights_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        prepared(Measure(X, np.r_[1e-12, np.ones(19)]))
    assert caught.value.code == "secure-weights"


@needs_noise
def test_noise_needs_records_that_count_alike() -> None:
    with pytest.raises(InputError) as caught:
        prepared(Measure(X, np.arange(1.0, 21.0)), diameter=4.0, noise=1.0)
    assert caught.value.code == "secure-weights"


@needs_noise
def test_clipped_records_lie_in_the_public_ball() -> None:
    made = prepared(Measure(X * 10.0), diameter=4.0, noise=1.0)
    norms = np.linalg.norm(made["points"] + made["mean"], axis=1)
    assert norms.max() <= 2.0 + 1e-12
    assert norms.max() > 1.99


@needs_noise
def test_noise_is_laplace_on_the_grid() -> None:
    drawn = np.array([laplace(50.0) for _ in range(1500)], dtype=float)
    # The mean of |noise| is the scale, with a deviation of scale / sqrt(1500).
    assert 44.0 < np.abs(drawn).mean() < 56.0
    assert abs(np.median(drawn)) < 8.0
    noise = prepared(Measure(X), diameter=4.0, noise=1.0)["numbers"][1] * 2.0**40
    assert noise == int(noise)


def test_sensitivity_is_that_of_one_record_and_of_the_tolerance() -> None:
    options = SecureOptions(privacy_epsilon=1.0, diameter=3.0)
    assert options.sensitivity((100, 200)) == pytest.approx(9.0 * (0.01 + 0.01))
    assert options.sensitivity((1000, 2000)) == pytest.approx(9.0 * (0.001 + 0.002))


def test_replacing_a_record_moves_the_squared_distance_by_at_most_the_sensitivity() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.uniform(-1, 1, (15, 2)), rng.uniform(-1, 1, (12, 2))
        x2 = x.copy()
        x2[0] = rng.choice([-1.0, 1.0], 2)
        moved = [silot.distance(cloud, y).value ** 2 for cloud in (x, x2)]
        assert abs(moved[0] - moved[1]) <= 8.0 / 15.0 + 1e-9


def test_the_method_is_described() -> None:
    assert Secure.name == "secure"
    assert {"scale", "two_party", "receiver", "privacy_epsilon", "diameter"} <= set(Secure.options)
    with pytest.raises(InputError) as caught:
        Secure().between("a", "b").start()
    assert caught.value.code == "method-secure"


def test_pooled_knows_its_methods() -> None:
    with pytest.raises(InputError) as caught:
        silot.pooled_distance({"a": X}, X, method="nothing")
    assert caught.value.code == "option-method"


def request(session: str = "1", epsilon: float | None = 1.0) -> Request:
    return Request(
        session=session,
        peers={"a": "h:1", "b": "h:2"},
        sizes=(300, 300),
        dimension=4,
        options=SecureOptions(two_party=True).public(),
        asker="a",
        epsilon=epsilon,
    )


def test_a_repeated_run_is_charged_again_until_the_budget_is_spent() -> None:
    policy = Policy(privacy_epsilon=12.0)
    with Ledger() as ledger:
        charge(policy, ledger, request("1"))
        once = ledger.spent
        assert once == pytest.approx(mu_of_laplace(1.0))
        charge(policy, ledger, request("2"))
        assert ledger.spent == pytest.approx(np.sqrt(2.0) * once)
        assert {row.asker for row in ledger.entries() if row.event == "reserve"} == {"a"}
        with pytest.raises(BudgetError):
            for run in range(3, 100):
                charge(policy, ledger, request(str(run)))
        assert policy.budget_mu is not None
        assert ledger.spent <= policy.budget_mu * (1 + 1e-9)


@pytest.mark.parametrize(
    ("policy", "epsilon", "code"),
    [
        (Policy(), None, "policy-exact"),
        (
            Policy(level="statistics", questions=frozenset({"secure-distance"})),
            None,
            "policy-exact",
        ),
        (Policy(privacy_epsilon=None), 1.0, "policy-budget"),
        (Policy(level="record", questions=frozenset({"describe"})), None, "policy-question"),
    ],
)
def test_what_the_policy_does_not_allow_is_refused_and_not_charged(
    policy: Policy, epsilon: float | None, code: str
) -> None:
    with Ledger() as ledger:
        with pytest.raises(RefusedError) as caught:
            charge(policy, ledger, request(epsilon=epsilon))
        assert caught.value.code == code
        assert ledger.spent == 0.0


def test_exact_numbers_are_opened_as_often_as_the_policy_says() -> None:
    policy = Policy(exact_secure=2)
    with Ledger() as ledger:
        for run in ("1", "2"):
            assert charge(policy, ledger, request(run, epsilon=None)) == 0.0
        with pytest.raises(RefusedError, match="exact_secure") as caught:
            charge(policy, ledger, request("3", epsilon=None))
        assert caught.value.code == "policy-exact"
        assert (ledger.count_answers("secure-distance"), ledger.spent) == (2, 0.0)
        # Exact answers of other kinds are not among them.
        ledger.note("f" * 64, level="statistics", question="moments")
        assert ledger.count_answers("secure-distance") == 2


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_below_record_a_holder_without_memory_refuses(epsilon: float | None) -> None:
    with pytest.raises(RefusedError) as caught:
        charge(Policy(privacy_epsilon=1.0), None, request(epsilon=epsilon))
    assert caught.value.code == "secure-ledger"
    charge(Policy(level="record"), None, request(epsilon=epsilon))
    with Ledger() as ledger, pytest.raises(InputError) as caught:
        charge(None, ledger, request())
    assert caught.value.code == "secure-policy"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_the_mu_of_pure_privacy_covers_it(epsilon: float) -> None:
    from scipy.stats import norm

    mu = mu_of_laplace(epsilon)
    first = np.linspace(1e-6, 1.0 - 1e-6, 2001)
    pure = np.maximum.reduce(
        [0 * first, 1 - np.exp(epsilon) * first, np.exp(-epsilon) * (1 - first)]
    )
    gaussian = norm.cdf(norm.ppf(1.0 - first) - mu)
    assert (gaussian <= pure + 1e-9).all()
    corner = 1.0 / (1.0 + np.exp(epsilon))
    assert norm.cdf(norm.ppf(1.0 - corner) - mu) == pytest.approx(corner, rel=1e-6)
