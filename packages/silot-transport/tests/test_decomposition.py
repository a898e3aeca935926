"""Parts of a transport cost: their sum, their owners, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import exact_plan
from silot_transport.classwise import labelled_plan
from silot_transport.decomposition import canonical_order, decompose


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two clouds of other sizes, some records without mass, some duplicated, columns constant."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m, d = (draw(st.integers(1, top)) for top in (9, 9, 4))
    scale, offset = draw(st.sampled_from([1.0, 1e6, 1e-6])), draw(st.sampled_from([0.0, 1e6]))
    x, y = (scale * rng.integers(0, 4, (k, d)) + offset * scale for k in (n, m))
    if draw(st.booleans()):
        x[:, 0] = y[0, 0]
        y[:, 0] = y[0, 0]
    a, b = (rng.uniform(0.1, 1.0, k) for k in (n, m))
    if n > 1 and draw(st.booleans()):
        a[0] = 0.0
    return x, y, a / a.sum(), b / b.sum()


@given(problems(), st.integers(0, 99))
def test_parts_sum_to_the_cost_and_none_is_negative(problem: tuple, seed: int) -> None:
    x, y, a, b = problem
    plan = exact_plan(x, y, a, b)
    codes = np.random.default_rng(seed).integers(0, 3, len(x))
    found = decompose(plan, x, y, a, codes=codes, classes=3)
    assert found.columns.min() >= 0 and found.labels == 0
    assert found.cost == pytest.approx(plan.cost, rel=1e-9, abs=1e-300)
    assert found.classes.sum() == pytest.approx(plan.cost, rel=1e-9, abs=1e-300)
    assert found.masses.sum() == pytest.approx(1.0)
    # Column by column from the plan as a matrix: no code shared.
    dense = plan.plan.toarray()
    for j, part in enumerate(found.columns):
        gaps = (x[:, None, j] - y[None, :, j]) ** 2
        assert part == pytest.approx(float((dense * gaps).sum()), rel=1e-9, abs=1e-300)
    for code in range(3):
        assert found.masses[code] == pytest.approx(a[codes == code].sum())
        if not a[codes == code].sum():
            assert found.classes[code] == 0


@given(problems(), st.integers(0, 99))
def test_labels_are_a_part_of_their_own(problem: tuple, seed: int) -> None:
    x, y, a, b = problem
    extra = np.random.default_rng(seed).uniform(0, 2, (len(x), len(y)))
    plan, low, high = labelled_plan(x, y, a, b, extra)
    found = decompose(plan, x, y, a, label_cost=extra)
    room = 1e-9 * high
    assert low - room <= found.cost <= high + room
    assert found.labels == pytest.approx(float((plan.plan.toarray() * extra).sum()))
    assert found.classes.sum() == pytest.approx(found.cost)


def test_columns_after_the_features_are_labels() -> None:
    x, y = np.zeros((1, 4)), np.array([[1.0, 2.0, 3.0, 4.0]])
    found = decompose(exact_plan(x, y), x, y, np.ones(1), features=2)
    assert found.columns.tolist() == [1.0, 4.0]
    assert found.labels == 25.0


def test_what_a_translation_moves_is_in_its_columns() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = x + np.array([3.0, 0.0, 4.0])
    found = decompose(exact_plan(x, y), x, y, np.full(40, 1 / 40))
    np.testing.assert_allclose(found.columns, [9.0, 0.0, 16.0], atol=1e-12)


@given(problems(), st.integers(0, 99))
def test_in_their_own_order_records_have_the_same_parts_however_they_are_stored(
    problem: tuple, seed: int
) -> None:
    # Coordinates are few whole numbers: many plans are optimal.
    x, y, a, b = problem
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, len(x))
    parts = []
    for shuffle in (False, True):
        rows = rng.permutation(len(x)) if shuffle else np.arange(len(x))
        columns = rng.permutation(len(y)) if shuffle else np.arange(len(y))
        here = rows[canonical_order(x[rows], a[rows], codes[rows])]
        there = columns[canonical_order(y[columns], b[columns])]
        plan = exact_plan(x[here], y[there], a[here], b[there])
        parts.append(decompose(plan, x[here], y[there], a[here], codes=codes[here], classes=2))
    np.testing.assert_array_equal(parts[0].columns, parts[1].columns)
    np.testing.assert_array_equal(parts[0].classes, parts[1].classes)


def test_zeros_of_both_signs_are_one_number() -> None:
    x = np.array([[0.0, 2.0], [-0.0, 1.0]])
    order = canonical_order(x, np.full(2, 0.5))
    flipped = canonical_order(-1.0 * -x * np.array([[-1.0, 1.0]]), np.full(2, 0.5))
    assert order.tolist() == flipped.tolist()
