"""Sinkhorn divergences of many histograms, against POT and against themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import cost_matrix, entropic
from silot_transport.entropic import HistogramDivergence
from tests.lazily import package

ot = package("ot")


def drawn(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Some cells are empty."""
    found = rng.dirichlet(np.full(size, 0.5), count) * (rng.random((count, size)) < 0.8)
    found[found.sum(axis=1) == 0] = 1.0
    return found / found.sum(axis=1, keepdims=True)


@given(size=st.integers(1, 40), scale=st.sampled_from((1e-9, 1.0, 1e9)), seed=st.integers(0, 2**32))
def test_no_histogram_is_apart_from_itself_and_order_and_company_change_no_bit(
    size: int, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # A place far from all others, too, as heavy tails have.
    places = scale * rng.standard_t(1.5, (size, 3))
    found = HistogramDivergence.of(cost_matrix(places, places))
    a, b = (drawn(rng, 40, size) for _ in range(2))
    own = [found.own(rows) for rows in (a, b)]
    there = found.between(a, b, (own[0], own[1]))
    assert np.isfinite(there).all() and (there >= 0).all()
    assert (found.between(a, a, (own[0], own[0])) == 0).all()
    assert np.array_equal(found.between(b, a, (own[1], own[0])), there)
    alone = [
        found.between(a[k : k + 1], b[k : k + 1], (own[0][k : k + 1], own[1][k : k + 1]))[0]
        for k in range(40)
    ]
    assert np.array_equal(alone, there)


def test_costs_are_lower_bounds_and_with_more_sweeps_those_of_pot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    places = rng.normal(size=(30, 4))
    cost = cost_matrix(places, places)
    found = HistogramDivergence.of(cost)
    a, b = (drawn(rng, 6, 30) for _ in range(2))
    few = found.cost(a, b)
    monkeypatch.setattr(entropic, "_SWEEPS", 2000)
    for x, y, least, value in zip(a, b, few, found.cost(a, b), strict=True):
        used = np.ix_(x > 0, y > 0)
        plan = np.zeros_like(cost)
        plan[used] = ot.bregman.sinkhorn_log(
            x[x > 0], y[y > 0], cost[used], found.epsilon, numItermax=20_000, stopThr=1e-12
        )
        cells = plan[plan > 0]
        # <P, C> less epsilon times the entropy of P, as what is maximised beside it has no masses.
        optimum = (plan * cost).sum() + found.epsilon * (cells * np.log(cells)).sum()
        assert least <= optimum + 1e-9
        assert value == pytest.approx(optimum, abs=1e-9)


def test_what_is_moved_further_is_told_to_be_further() -> None:
    places = np.arange(12.0)[:, None]
    found = HistogramDivergence.of(cost_matrix(places, places))
    rows = np.eye(12)
    own = found.own(rows)
    first = np.repeat(rows[:1], 12, axis=0)
    told = found.between(first, rows, (np.repeat(own[:1], 12), own))
    assert told == pytest.approx(places[:, 0] ** 2, abs=1e-9)


def test_one_place_has_no_distances() -> None:
    found = HistogramDivergence.of(np.zeros((1, 1)))
    one = np.ones((1, 1))
    assert found.between(one, one, (np.zeros(1), np.zeros(1))) == pytest.approx(0.0)
