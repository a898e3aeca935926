"""Intervals of worth, ties, chance, and that padding does not pay."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import spearmanr

import silot
from silot import Measure
from silot.distances.worth.contributions import contributions
from silot.distances.worth.result import Contributions
from silot.distances.worth.shares import Sampled
from silot.errors import WireError
from silot.federation import Answer, Holder, LocalFederation, Policy
from silot.privacy.ledger import Ledger
from silot_transport import cost_matrix, exact_plan, plan_from_cost
from silot_transport.resampling import corrected_cost

Array = np.ndarray


def normal(key: int, size: int, dimension: int = 5) -> Array:
    return np.random.default_rng([71, key]).normal(size=(size, dimension))


VALIDATION = normal(0, 200)


@pytest.mark.heavy
def test_intervals_of_a_shifted_law_cover_the_distance_of_the_law() -> None:
    """A pool of one law and what draws from it say of it."""
    pool = normal(1, 3000) + 0.3
    known = exact_plan(pool, VALIDATION).distance
    hits = 0
    for k in range(40):
        drawn = np.random.default_rng([72, k]).integers(0, 3000, 120)
        low, high = silot.value_holders({"h": pool[drawn]}, VALIDATION)["h"].interval or (0, 0)
        hits += low <= known <= high
    assert hits >= 32


def test_translated_clouds_differ_in_every_column() -> None:
    far = silot.distance(normal(2, 80), normal(3, 80) + 4.0)
    assert far.test is not None and not far.indistinct
    assert far.test.p_value == 0.005 and len(far.test.drivers) == 5


@pytest.mark.parametrize("labels", [False, True])
def test_two_samples_of_one_distribution_are_not_distinguishable(labels: bool) -> None:
    def measure(key: int) -> Measure:
        x = normal(key, 120)
        return Measure(x, labels=np.where(x[:, 0] > 0, "a", "b"))

    found = silot.value_holders({"h": measure(6)}, measure(7), labels=labels)
    assert found["h"].distance.indistinct
    assert "not distinguishable from the target: h" in found.status
    assert silot.distance(normal(6, 120), normal(7, 120)).indistinct


def test_false_alarms_are_few() -> None:
    alarms = [
        not silot.distance(normal(100 + k, 40, 2), normal(200 + k, 60, 2)).indistinct
        for k in range(60)
    ]
    assert sum(alarms) <= 9


def test_equal_holders_tie_and_broken_ones_are_told_apart() -> None:
    found = silot.value_holders(
        {"a": normal(6, 150), "b": normal(7, 150), "far": normal(8, 150) + 2.0}, VALIDATION
    )
    assert found["a"].place == found["b"].place == "1-2"
    assert found["far"].place == "3"
    same = silot.value_holders({"p": normal(6, 60), "q": normal(6, 60)}, VALIDATION)
    assert same["p"].rank == same["q"].rank and same["p"].share == same["q"].share


@pytest.mark.heavy
def test_small_holders_of_one_law_rank_no_worse() -> None:
    sizes = [30, 70, 160, 400, 1000]
    raw: list[float] = []
    corrected: list[float] = []
    for k in range(10):
        holders = {str(n): normal(1000 + 10 * k + i, n) for i, n in enumerate(sizes)}
        items = silot.value_holders(holders, normal(2000 + k, 200)).holders
        raw.append(float(spearmanr(sizes, [item.distance.value for item in items])[0]))
        corrected.append(float(spearmanr(sizes, [item.corrected for item in items])[0]))
    assert np.mean(raw) < -0.9
    assert abs(np.mean(corrected)) < 0.5


def _worth(holders: dict[str, Array]) -> Contributions:
    return silot.value_holders(holders, VALIDATION)


def test_repeating_all_records_changes_nothing() -> None:
    own, other = normal(9, 80) + 0.5, normal(10, 80)
    before, after = (
        _worth({"h": np.repeat(own, k, axis=0), "other": other}) for k in (1, 3)
    )  # fmt: skip
    for name in ("h", "other"):
        assert after[name].corrected == pytest.approx(before[name].corrected, rel=1e-6)
        assert after[name].share == pytest.approx(before[name].share, rel=1e-6)
        assert after[name].distance.test == before[name].distance.test


def test_few_possible_values_are_no_copies() -> None:
    """Counts of a yes/no column that have a common divisor do not make its records fewer."""
    few, many = (np.repeat([[0.0], [1.0]], sizes, axis=0) for sizes in ([100, 100], [60, 140]))
    test = silot.distance(few, many).test
    assert test is not None
    assert (test.verdict, test.sizes) == ("different", (200, 200))


@pytest.mark.heavy
@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_noisy_copies_of_ones_own_records_do_not_pay(noise: float) -> None:
    rises: list[float] = []
    for k in range(6):
        own, other = normal(300 + k, 80) + 0.3, normal(400 + k, 80)
        copies = own + noise * normal(500 + k, 80)
        before = _worth({"h": own, "other": other})
        after = _worth({"h": np.concatenate([own, copies]), "other": other})
        low, _ = before["h"].interval or (0.0, 0.0)
        assert after["h"].explained <= 1.0 - (low / before.spread) ** 2
        assert after["other"].share >= (before["other"].share_interval or (0, 1))[0]
        rises.append(after["h"].explained - before["h"].explained)
    assert np.mean(rises) <= 0.03


def test_a_split_holder_is_not_worth_more_in_either_part() -> None:
    """Shares count holders, and two get two; the part explained is each one's own."""
    for k in range(4):
        own = normal(600 + k, 200) + 0.3
        whole = _worth({"h": own})
        parts = _worth({"a": own[:100], "b": own[100:]})
        low, _ = whole["h"].interval or (0.0, 0.0)
        mean = np.mean([item.explained for item in parts.holders])
        assert mean <= 1.0 - (low / whole.spread) ** 2 + 0.05


@pytest.mark.parametrize(
    "made",
    [
        lambda: normal(20, 1),
        lambda: normal(20, 2),
        lambda: np.random.default_rng([7, 7]).standard_cauchy((60, 5)),
        lambda: np.zeros((60, 5)),
        lambda: np.repeat(normal(20, 1), 60, axis=0),
        lambda: np.hstack([normal(20, 60, 1), np.ones((60, 4))]),
        lambda: Measure(normal(20, 60), np.eye(60)[0]),
        lambda: Measure(normal(20, 60), np.r_[np.ones(30), np.zeros(30)]),
        lambda: VALIDATION,
        lambda: 1e8 + normal(20, 60),
    ],
)
def test_hard_holders_have_finite_numbers(made: Callable[[], Array | Measure]) -> None:
    found = silot.value_holders({"h": made(), "other": normal(21, 40)}, VALIDATION)
    told = json.loads(found.to_json())
    json.dumps(told, allow_nan=False)
    for item in found.holders:
        if item.interval is not None and item.corrected is not None:
            low, high = item.interval
            assert 0 <= low <= item.corrected * (1 + 1e-9) and item.corrected <= high * (1 + 1e-9)
            assert item.corrected <= item.distance.upper * (1 + 1e-9)


def test_order_of_holders_and_records_changes_nothing() -> None:
    holders = {"a": normal(22, 70), "b": normal(23, 300) + 0.2, "c": normal(24, 40)}
    one = _worth(holders)
    other = _worth({name: holders[name][::-1] for name in reversed(holders)})
    for name in holders:
        here, there = one[name], other[name]
        assert here.ranks == there.ranks
        for field in ("corrected", "share", "explained"):
            assert getattr(here, field) == pytest.approx(getattr(there, field), rel=1e-9)
        assert here.distance.test is not None and there.distance.test is not None
        assert here.distance.test.p_value == there.distance.test.p_value


def test_a_policy_that_refuses_leaves_intervals_out_and_says_so() -> None:
    strict = Policy(level="statistics", questions=frozenset({"distance-to"}))
    federation = LocalFederation(
        {
            "open": normal(25, 80, 12),
            "strict": Holder(Measure(normal(26, 80, 12)), strict, Ledger()),
        }
    )
    validation = silot.federation.Own(Measure(normal(27, 80, 12)))
    found = federation.run(contributions(["open", "strict"], own=validation))
    assert found["strict"].corrected is None and found["open"].corrected is not None
    assert "no interval of strict (policy-question)" in found.status
    assert found["strict"].ranks == (1, 2)
    rules = Policy(level="statistics", questions=frozenset({"distance-with-error"}))
    told = LocalFederation({"h": Holder(Measure(normal(26, 400, 12)), rules, Ledger())}).run(
        contributions(["h"], own=validation)
    )
    assert told["h"].interval is not None
    alone = LocalFederation({"h": normal(25, 80)}).run(
        contributions(["h"], own=silot.federation.Own(Measure(VALIDATION)), intervals=False)
    )
    assert alone["h"].ranks is None and alone["h"].interval is None


@pytest.mark.parametrize("power", [-440, -120, 150, 480])
@pytest.mark.parametrize("labelled", [False, True])
def test_corrected_costs_are_of_the_scale_of_the_records(power: int, labelled: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(80, 3)) + 1.0
    # Of such weights the optimal potentials, of which margins are made, are unique.
    a, b = (k / k.sum() for k in (0.5 + rng.random(60), 0.5 + rng.random(80)))
    label = 4.0 * rng.integers(0, 2, (60, 80)) if labelled else None

    def corrected(unit: int) -> tuple[float, float, bool]:
        points, atoms = np.ldexp(x, unit), np.ldexp(y, unit)
        extra = None if label is None else np.ldexp(label, 2 * unit)
        cost = cost_matrix(points, atoms) + (0.0 if extra is None else extra)
        plan = plan_from_cost(cost, a, b)
        result = corrected_cost(points, a, extra, (atoms, b), plan, np.arange(60))
        sizes = (math.ldexp(k, -2 * unit) for k in (result.cost, result.margin))
        return *sizes, result.is_approximate

    assert corrected(power) == pytest.approx(corrected(0), rel=1e-9)


def test_intervals_of_heavy_tails_and_few_records_are_called_approximate() -> None:
    """Of t with 3 degrees of freedom, squares have no variance; of a cube they are bounded."""
    rng = np.random.default_rng(75)
    target = np.full(200, 1 / 200)

    def approximate(points: Array, other: Array, size: int) -> float:
        flags: list[bool] = []
        for start in range(0, len(points), size):
            x, a = points[start : start + size], np.full(size, 1 / size)
            plan = exact_plan(x, other, a, target)
            order = np.arange(size)
            flags.append(corrected_cost(x, a, None, (other, target), plan, order).is_approximate)
        return float(np.mean(flags))

    heavy, light = rng.standard_t(3, size=(1700, 4)), rng.random(size=(1500, 4)) + 0.5
    assert approximate(heavy[:1500], heavy[1500:], 150) >= 0.8
    assert approximate(light, rng.random(size=(200, 4)), 150) <= 0.2
    assert approximate(light, rng.random(size=(200, 4)), 75) == 1.0


def test_approximate_intervals_are_named_in_the_status() -> None:
    rng = np.random.default_rng(76)
    worth = _worth({"heavy": rng.standard_t(2, size=(150, 5)), "light": normal(77, 150)})
    assert worth["heavy"].is_approximate
    assert "approximate intervals, for heavy tails or few records: heavy" in worth.status


def test_an_answer_that_says_not_whether_it_is_approximate_is_none() -> None:
    scalars: dict[str, float | bool] = {"distance": 1.0, "corrected": 1.0, "margin": 0.5}
    scalars |= {"size": 80.0}
    assert Sampled.of(Answer(scalars={**scalars, "approximate": True})) == Sampled(
        1.0, 0.5**0.5, 1.5**0.5, is_approximate=True, size=80.0
    )
    for wrong in (scalars, {**scalars, "approximate": 2.0}):
        with pytest.raises(WireError, match="answer-malformed"):
            Sampled.of(Answer(scalars=wrong))


def test_holders_of_equal_size_share_one_correction() -> None:
    """Their order is that of the distances as they are; of other sizes each has its own."""
    apart = {f"h{k}": normal(800 + k, 100) + 0.05 * k for k in range(5)}
    worth = _worth(apart)
    by_distance = sorted(worth.holders, key=lambda item: item.distance.value)
    assert [item.holder for item in worth.ranking] == [item.holder for item in by_distance]
    for item in _worth({"a": normal(810, 60), "b": normal(811, 200)}).holders:
        low, high = item.interval or (0.0, 0.0)
        assert low <= (item.corrected or 0.0) <= high
