import numpy as np
import pytest
from sklearn.datasets import load_digits

import silot
from silot import Measure
from silot.distances.pooled import pooled
from silot.distances.trianglewad import trianglewad
from silot.errors import InputError, MismatchError, RefusedError
from silot.federation import Answer, Holder, LocalFederation, Own

DIGITS = load_digits(return_X_y=True)[0] / 16.0


@pytest.mark.parametrize("support", [1, 7, 60, 130])
@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
def test_equal_sizes_never_fall_below_the_distance(
    support: int, t: float, interpolation: str
) -> None:
    x, y = DIGITS[:60], DIGITS[60:120] * 0.8 + 0.1
    exact = silot.distance(x, y).value
    result = silot.distance(
        x, y, method="trianglewad", support=support, t=t, interpolation=interpolation
    )
    assert result.value >= exact * (1 - 1e-9)
    assert result.value == result.upper
    assert result.status.startswith("certified")


@pytest.mark.parametrize(("n", "m"), [(40, 60), (60, 41), (1, 30), (30, 1)])
@pytest.mark.parametrize("t", [0.1, 0.9])
def test_exact_interpolation_never_falls_below_the_distance(n: int, m: int, t: float) -> None:
    x, y = DIGITS[:n], DIGITS[60 : 60 + m] + 0.2
    rng = np.random.default_rng(0)
    mu, nu = Measure(x, rng.random(n)), Measure(y, rng.random(m))
    exact = silot.distance(mu, nu).value
    result = silot.distance(mu, nu, method="trianglewad", t=t, interpolation="exact", support=37)
    assert exact * (1 - 1e-9) <= result.value == result.upper


def test_a_single_atom_reference_gives_the_distance_itself() -> None:
    x, y = DIGITS[:50], DIGITS[50:120]
    exact = silot.distance(x, y).value
    result = silot.distance(x, y, method="trianglewad", support=1)
    assert result.value == pytest.approx(exact, rel=1e-9)


def test_barycentric_interpolation_of_unequal_sizes_is_biased_and_says_so() -> None:
    """Digits, 200 against 300 records, t = .7, spread 5, 300 atoms."""
    order = np.random.default_rng(0).permutation(len(DIGITS))
    x, y = DIGITS[order[:200]], DIGITS[order[200:500]]
    options = {"t": 0.7, "reference_scale": 5.0, "support": 300}
    exact = silot.distance(x, y).value
    fine = silot.distance(x, y, method="trianglewad", interpolation="exact", **options)
    rough = silot.distance(x, y, method="trianglewad", interpolation="barycentric", **options)
    assert exact <= fine.value <= 1.6 * exact
    assert rough.value > 10 * exact
    assert rough.status.startswith("estimate") and "biased upwards" in rough.status
    assert not rough.converged
    assert rough.lower <= exact <= rough.upper < np.inf


def test_the_automatic_choice_is_exact_for_unequal_sizes_or_weights() -> None:
    x, y = DIGITS[:40], DIGITS[40:90]
    assert silot.distance(x, y, method="trianglewad").status.startswith("certified")
    weighted = Measure(x, np.arange(1, 41))
    assert silot.distance(weighted, DIGITS[40:80], method="trianglewad").status.startswith(
        "certified"
    )


def test_order_one_is_an_estimate_between_bounds() -> None:
    x, y = DIGITS[:40], DIGITS[40:80]
    result = silot.distance(x, y, method="trianglewad", p=1)
    exact = silot.distance(x, y, p=1).value
    assert result.status.startswith("estimate")
    assert result.lower <= exact <= result.upper < np.inf


def test_without_side_scalars_the_spread_of_the_reference_still_bounds() -> None:
    x, y = DIGITS[:40], DIGITS[40:90]
    options = {"interpolation": "barycentric", "distances": False, "moments": False, "t": 0.2}
    result = silot.distance(x, y, method="trianglewad", reference_scale=0.05, **options)
    exact = silot.distance(x, y).value
    assert 0.8 * exact < result.lower <= exact <= result.upper < 1.3 * exact


def test_labelled_records_pass_through_the_vectors() -> None:
    pixels, labels = load_digits(return_X_y=True)
    x, y = (Measure(pixels[k] / 16, labels=labels[k]) for k in (slice(0, 60), slice(60, 130)))
    exact = silot.distance(x, y, labels=True).value
    result = silot.distance(x, y, method="trianglewad", labels=True)
    assert result.lower <= exact <= result.value
    assert exact > silot.distance(x, y).value


def test_the_message_gives_every_record_back() -> None:
    """What the documentation says: one direct inversion, by anybody who reads the wire."""
    x, y = DIGITS[:50], DIGITS[50:100]
    result = silot.distance(x, y, method="trianglewad", t=0.7, seed=3)
    assert result.transcript is not None
    question = result.transcript.seen_by("x")[-2].open()
    reply = result.transcript.seen_by("x")[-1].open()
    assert isinstance(reply, Answer)
    atoms = reply.array("atoms", ndim=2)
    plan = silot.transport.exact_plan(atoms, question.reference)
    image = (plan.plan @ question.reference) * len(atoms)
    np.testing.assert_allclose((atoms - 0.7 * image) / 0.3, x, atol=1e-9)


# Pooled sellers and a hidden parameter


def sellers(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        {"s1": rng.normal(12, 10, size=(80, 3)), "s2": rng.normal(3, 1, size=(60, 3))},
        rng.normal(20, 30, size=(140, 3)),
    )


def test_the_union_of_sellers_is_measured() -> None:
    parts, buyer = sellers()
    exact = silot.distance(np.concatenate(list(parts.values())), buyer).value
    for hidden in (False, True):
        result = silot.pooled_distance(parts, buyer, hidden=hidden, reference_scale=3.0)
        assert result.value == pytest.approx(exact, rel=0.1)
        assert result.lower <= exact <= result.upper
        assert result.holders == ("s1+s2", "coordinator")


def test_shares_give_each_seller_its_mass() -> None:
    parts, buyer = sellers()
    union = Measure(np.concatenate(list(parts.values())), np.repeat([3 / 80, 1 / 60], [80, 60]))
    exact = silot.distance(union, buyer).value
    result = silot.pooled_distance(parts, buyer, shares={"s1": 3, "s2": 1}, reference_scale=3.0)
    assert result.value == pytest.approx(exact, rel=0.1)
    assert result.lower <= exact <= result.upper


def test_a_single_seller_with_hidden_t_sends_scalars_only() -> None:
    parts, buyer = sellers()
    result = silot.pooled_distance(
        {"s1": parts["s1"]}, buyer, hidden=True, reference_scale=3.0, moments=False
    )
    assert result.transcript is not None
    replies = [entry.open() for entry in result.transcript.entries if entry.direction == "received"]
    assert all(not reply.arrays for reply in replies)
    assert result.value == pytest.approx(silot.distance(parts["s1"], buyer).value, rel=0.1)


def test_the_quadratic_passes_through_the_samples_and_needs_three() -> None:
    parts, buyer = sellers()
    one = {"s1": parts["s1"]}
    result = silot.pooled_distance(one, buyer, hidden=True, t=0.5, reference_scale=3.0)
    middle = next(entry for entry in result.history if entry["sample"] == 0.5)
    assert result.value == pytest.approx(middle["distance"] / 0.5, rel=1e-9)
    wide = silot.pooled_distance(
        one, buyer, hidden=True, t=0.5, samples=(0.1, 0.35, 0.6, 0.8), reference_scale=3.0
    )
    assert wide.value == pytest.approx(result.value, rel=0.05)
    with pytest.raises(InputError) as caught:
        silot.pooled_distance(parts, buyer, hidden=True, samples=(0.1, 0.2, 0.2))
    assert caught.value.code == "option-samples"


@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
@pytest.mark.parametrize("samples", [(0.25, 0.5, 0.75), (0.05, 0.2, 0.6, 0.95)])
def test_costs_of_several_sellers_at_a_hidden_t_determine_the_distance(
    interpolation: str, samples: tuple[float, ...]
) -> None:
    """Each cost is a quadratic in s, and affine in the buyer's point but for its square."""
    rng = np.random.default_rng(7)
    for d in (1, 2, 7):
        parts = {
            "s1": Measure(rng.normal(size=(13, d)) * 5.0, rng.random(13) + 0.1),
            "s2": Measure(rng.normal(size=(9, d)) + 3.0),
        }
        buyer = rng.normal(size=(30, d)) + 1e3
        options = {"interpolation": interpolation, "samples": samples, "moments": False}
        union = Measure(
            np.concatenate([part.points for part in parts.values()]),
            np.concatenate([parts["s1"].weights * 13, parts["s2"].weights * 9]),
        )
        exact = silot.distance(union, buyer).value
        result = silot.pooled_distance(parts, buyer, hidden=True, distances=False, **options)
        assert result.lower <= exact <= result.upper
        assert result.upper == pytest.approx(result.lower, rel=1e-4)
        assert result.converged and result.status.startswith("certified")


def test_a_buyer_with_fewer_atoms_than_dimensions_gets_bounds_that_hold() -> None:
    rng = np.random.default_rng(8)
    parts = {name: rng.normal(size=(6, 30)) + k for k, name in enumerate(("s1", "s2"))}
    buyer = rng.normal(size=(4, 30))
    exact = silot.distance(np.concatenate(list(parts.values())), buyer).value
    result = silot.pooled_distance(parts, buyer, hidden=True)
    assert result.lower <= exact <= result.upper and not result.converged
    assert result.status.startswith("estimate")


def test_a_single_sellers_lower_bound_is_that_of_moments_at_least() -> None:
    parts, buyer = sellers()
    one = {"s1": parts["s1"]}
    bound = silot.transport.gaussian_distance(
        *(silot.transport.moments(x) for x in (parts["s1"], buyer))
    )
    for hidden in (False, True):
        result = silot.pooled_distance(one, buyer, hidden=hidden)
        assert result.lower >= bound * (1 - 1e-6)


def test_hidden_t_without_displacements_has_no_upper_bound() -> None:
    parts, buyer = sellers()
    one = {"s1": parts["s1"]}
    result = silot.pooled_distance(one, buyer, hidden=True, distances=False)
    assert result.upper == np.inf
    assert "no upper bound" in result.status


def test_a_seller_that_refuses_is_left_out_at_a_quorum_and_named() -> None:
    parts, buyer = sellers()
    federation = LocalFederation({**parts, "s3": Holder(Measure(parts["s1"] + 500))})
    own = Own(Measure(buyer))
    names = ["s1", "s2", "s3"]
    result = federation.run(pooled(names, own=own, quorum=2, reference_scale=3.0))
    without = silot.pooled_distance(parts, buyer, reference_scale=3.0)
    assert "without s3" in result.status
    assert result.value == pytest.approx(without.value, rel=0.2)
    with pytest.raises(RefusedError):
        federation.run(pooled(names, own=own))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"shares": {"s1": 1.0}}, "option-shares"),
        ({"shares": {"s1": 1.0, "s2": -1.0}}, "option-shares"),
        ({"quorum": 3}, "option-quorum"),
        ({"quorum": 0}, "option-quorum"),
        ({"hidden": True, "p": 1}, "option-p"),
        ({"interpolation": "auto"}, "option-interpolation"),
    ],
)
def test_pooled_options_out_of_range_are_coded_errors(
    options: dict[str, object], code: str
) -> None:
    parts, buyer = sellers()
    with pytest.raises((InputError, MismatchError)) as caught:
        silot.pooled_distance(parts, buyer, **options)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [("t", 0.0, "option-t"), ("interpolation", "no", "option-interpolation"),
     ("support", -2, "option-support"), ("rounds", 3, "option-unknown")],
)  # fmt: skip
def test_options_out_of_range_are_coded_errors(option: str, value: object, code: str) -> None:
    with pytest.raises(InputError) as caught:
        silot.distance(DIGITS[:5], DIGITS[5:9], method="trianglewad", **{option: value})
    assert caught.value.code == code


def test_a_protocol_object_can_be_run_again() -> None:
    protocol = trianglewad("a", "b")
    federation = LocalFederation({"a": DIGITS[:20], "b": DIGITS[20:50]})
    assert federation.run(protocol).value == federation.run(protocol).value


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e10, 1e12])
def test_costs_of_records_know_how_atoms_were_rounded(offset: float) -> None:
    """Reference and records far away: what is left of the atoms' digits decides."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        # Differences of such coordinates are exact, so the distance is.
        parts, buyer = (np.round(rng.normal(size=(n, 2)) * 64) / 64 + offset for n in (20, 24))
        exact = silot.distance(parts - offset, buyer - offset).value
        sellers = {"s": parts[:8], "t": parts[8:]}
        result = silot.pooled_distance(
            sellers, buyer, hidden=True, moments=False, distances=False, reference_mean=offset
        )
        assert result.lower <= exact <= result.upper, (seed, result)
