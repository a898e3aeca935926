"""Inversion: every record back from one message, whatever the sizes, weights and data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from silot import Measure
from silot.audits.inversion import Interpolant, direct_inversion, project, projection_inversion
from silot_transport import interpolate
from tests.tiers import examples

DIGITS = load_digits().data / 16.0
WINE = load_wine().data
CANCER = load_breast_cancer().data


def encoded(x, a, reference, t: float, form: str = "rows") -> Interpolant:
    weights = np.full(len(reference), 1.0 / len(reference))
    found = interpolate(
        x, reference, a, weights, t=t, interpolation="exact" if form == "pairs" else "barycentric"
    )
    return Interpolant(found.atoms, found.weights, reference, weights, t, form)


def sizes_of_relative_error(rows, truth) -> float:
    return float(np.abs(rows - truth).max() / max(np.abs(truth).max(), 1.0))


@settings(max_examples=examples(40), deadline=None)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 30),
    d=st.integers(1, 5),
    t=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32),
    ties=st.booleans(),
    weighted=st.booleans(),
)
def test_projection_is_the_inverse_for_all_sizes_weights_and_ties(
    n: int, m: int, d: int, t: float, seed: int, ties: bool, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * 3.0 + 1.0
    if ties:
        x = np.rint(x)
    a = rng.random(n) + 0.1 if weighted else np.ones(n)
    evidence = encoded(x, a / a.sum(), rng.normal(size=(m, d)), t)
    guess = projection_inversion(evidence, t)
    assert sizes_of_relative_error(guess.rows, x) < 1e-6
    # With ties one proof in ten thousand is missed: the gap closes slowly where plans abound.
    assert guess.certified or ties


def test_equal_records_do_not_spoil_the_proof() -> None:
    rng = np.random.default_rng(699315583)
    x = np.rint(rng.normal(size=(22, 2)) * 3.0 + 1.0)
    a = rng.random(22) + 0.1
    guess = projection_inversion(encoded(x, a / a.sum(), rng.normal(size=(21, 2)), 0.5), 0.5)
    assert guess.certified
    assert sizes_of_relative_error(guess.rows, x) < 1e-9


@pytest.mark.parametrize(("n", "m"), [(200, 300), (97, 60), (150, 150), (60, 180)])
@pytest.mark.parametrize("data", [DIGITS, WINE, CANCER], ids=["digits", "wine", "cancer"])
def test_tables_and_images_come_back_from_split_rows(data, n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    x = data[rng.permutation(len(data))[:n]]
    evidence = encoded(x, np.full(len(x), 1 / len(x)), rng.normal(size=(m, x.shape[1])), 0.5)
    guess = projection_inversion(evidence, 0.5)
    assert guess.certified
    assert sizes_of_relative_error(guess.rows, x) < 1e-9


def test_direct_inversion_is_exact_without_splits_and_says_when_it_is_not() -> None:
    rng = np.random.default_rng(1)
    x = DIGITS[:90]
    uniform = np.full(90, 1 / 90)
    whole = direct_inversion(encoded(x, uniform, rng.normal(size=(45, 64)), 0.7), 0.7)
    assert whole.certified and sizes_of_relative_error(whole.rows, x) < 1e-12
    split = direct_inversion(encoded(x, uniform, rng.normal(size=(70, 64)), 0.7), 0.7)
    assert split.certified is False
    assert sizes_of_relative_error(split.rows, x) > 0.01


def test_noise_is_not_certified_and_moves_records_by_what_is_stated() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3))
    evidence = encoded(x, np.full(40, 1 / 40), rng.normal(size=(30, 3)), 0.4)
    noise = rng.normal(size=(40, 3)) * 0.3
    noisy = Interpolant(
        evidence.atoms + noise, evidence.weights, evidence.reference,
        evidence.reference_weights, 0.4, "rows",
    )  # fmt: skip
    found = project(noisy, 0.4)
    rows = (noisy.atoms - 0.4 * found.image) / 0.6
    assert np.linalg.norm(rows - x) <= np.linalg.norm(noise) / 0.6 + 40**0.5 * found.error


def test_exact_interpolants_give_every_record_for_any_weights() -> None:
    rng = np.random.default_rng(3)
    x, a = DIGITS[:50], rng.random(50)
    evidence = encoded(x, a / a.sum(), rng.normal(size=(70, 64)), 0.5, "pairs")
    guess = direct_inversion(evidence, 0.5)
    assert guess.certified
    assert len(guess.rows) == 50
    apart = np.abs(guess.rows[:, None] - x[None]).max(axis=2).min(axis=0)
    assert apart.max() < 1e-9


@pytest.mark.parametrize("interpolation", ["exact", "barycentric"])
@pytest.mark.parametrize("p", [1, 2])
def test_trianglewad_gives_all_records_to_the_coordinator(interpolation: str, p: int) -> None:
    rng = np.random.default_rng(4)
    order = rng.permutation(len(DIGITS))
    x = Measure(DIGITS[order[:60]], np.where(np.arange(60) < 5, 0.0, 1.0))
    y = DIGITS[order[100:155]]
    run = silot.distance(
        x, y, method="trianglewad", interpolation=interpolation, support=55, p=p, seed=3
    )
    found = silot.audit(run.transcript, truth={"x": x, "y": y})
    assert found.exact_rates == {"x": 1.0, "y": 1.0}
    assert "recovered exactly" in found.verdict
