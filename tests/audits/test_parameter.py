"""A secret t: every way to find it, and what happens where there is none."""

import numpy as np
import pytest

import silot
from silot import Measure
from silot.audits.inversion import Interpolant, barycentric_image
from silot.audits.parameter import (
    by_crossing,
    by_mean,
    by_pairs,
    by_scalar,
    by_seed,
    by_two_references,
    by_vote,
)
from silot_transport import interpolate

from .data import DIGITS, attack, audit_of, two_sides

RNG = np.random.default_rng(5)
T = 0.37


def sent(x, reference, t: float = T, form: str = "rows") -> tuple[Interpolant, np.ndarray]:
    weights = np.full(len(reference), 1 / len(reference))
    found = interpolate(
        x, reference, t=t, interpolation="exact" if form == "pairs" else "barycentric"
    )
    one = Interpolant(
        found.atoms, found.weights, reference, weights, None, form, is_geodesic=found.geodesic,
        distance=found.distance, mean=x.mean(axis=0),
    )  # fmt: skip
    return one, barycentric_image(one.atoms, reference, one.weights, weights)


def test_the_mean_gives_t_also_with_split_rows() -> None:
    one, _ = sent(RNG.normal(size=(40, 3)), RNG.normal(size=(55, 3)))
    assert by_mean(one).t == pytest.approx(T, abs=1e-12)


def test_a_distance_gives_t_on_a_geodesic() -> None:
    one, _ = sent(RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3)))
    assert by_scalar(one).t == pytest.approx(T, abs=1e-9)


def test_atoms_of_one_record_give_t_for_continuous_data() -> None:
    one, image = sent(RNG.normal(size=(40, 3)), RNG.normal(size=(55, 3)), form="pairs")
    assert by_pairs(one, image).t == pytest.approx(T, abs=1e-9)


@pytest.mark.parametrize("m", [60, 85])
def test_equal_values_vote_for_t(m: int) -> None:
    one, image = sent(DIGITS[:60], RNG.normal(size=(m, 64)))
    assert by_vote(one, image).t == pytest.approx(T, abs=1e-9)


def test_continuous_data_do_not_vote() -> None:
    one, image = sent(RNG.normal(size=(60, 5)), RNG.normal(size=(60, 5)))
    assert by_vote(one, image) is None


def test_two_references_give_t() -> None:
    x = RNG.normal(size=(40, 3))
    one, image = sent(x, RNG.normal(size=(40, 3)))
    other, _ = sent(x, RNG.normal(size=(40, 3)))
    assert by_two_references(one, image, [other]).t == pytest.approx(T, abs=1e-9)


def test_the_crossing_bound_is_above_t_and_near() -> None:
    one, image = sent(DIGITS[:60], RNG.normal(size=(60, 64)))
    found = by_crossing(one, image)
    assert T <= found.t <= 1.3 * T and not found.exact


def test_the_seed_of_the_reference_gives_the_buyers_t() -> None:
    reference = np.random.default_rng([7, 5]).standard_normal((30, 3))
    one, _ = sent(RNG.normal(size=(20, 3)), reference)
    assert by_seed(one).t == np.random.default_rng([7, 2]).uniform(0.2, 0.8)


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
@pytest.mark.parametrize("support", [60, 85])
def test_a_hidden_t_does_not_protect_tables_and_images(name: str, support: int) -> None:
    x, y = two_sides(name, 60, 60)
    found = audit_of(
        x, y, method="trianglewad", support=support, interpolation="barycentric",
        moments=False, distances=False, hide_t=True,
    )  # fmt: skip
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


@pytest.mark.heavy
def test_the_open_case_is_reported_as_not_recovered() -> None:
    x, y = RNG.normal(size=(60, 5)), RNG.normal(size=(60, 5))
    found = audit_of(
        x, y, method="trianglewad", support=85, interpolation="barycentric",
        moments=False, distances=False, hide_t=True,
    )  # fmt: skip
    assert found.exact_rates["x"] == 0.0
    assert not attack(found, "unknown-parameter").certified
    assert "not recovered by these attacks" in found.verdict
    assert "private" not in found.verdict


@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
@pytest.mark.parametrize("hidden", [False, True])
def test_pooled_gives_away_sellers_and_buyer(interpolation: str, hidden: bool) -> None:
    sellers = dict(zip("ab", two_sides("wine", 40, 30), strict=True))
    buyer = two_sides("wine", 50, 10, seed=3)[0]
    run = silot.pooled_distance(sellers, buyer, hidden=hidden, interpolation=interpolation)
    assert silot.audit(run.transcript, truth=sellers).exact_rates == {"a": 1.0, "b": 1.0}
    seen = silot.audit(run.transcript, "a", {"coordinator": Measure(buyer)})
    assert seen.exact_rates["coordinator"] == 1.0
    if hidden:
        assert attack(silot.audit(run.transcript, truth=sellers), "extrapolation", "a").exact_rate
