"""The noise: its law, its account, and what it refuses."""

import math
import os
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from silot.errors import ExtraError, InputError, SolverError
from silot.privacy import add_noise, mechanism
from silot.privacy.accounting import scale_for

pytestmark = pytest.mark.all_cases

INT64 = np.iinfo(np.int64)


def test_the_noise_is_the_discrete_gaussian() -> None:
    values = np.full(20_000, 7, dtype=np.int64)
    noise = add_noise(values, sensitivity=2.0, mu=1.0) - 7
    steps = np.arange(-40, 41)
    law = np.exp(-(steps**2) / (2 * scale_for(2.0, 1.0) ** 2))
    law /= law.sum()
    # What is 7 or more is one bin a side: the statistic has its law where bins expect 5 or more.
    places = np.clip(steps, -7, 7)
    expected = np.array([law[places == step].sum() for step in range(-7, 8)]) * len(values)
    assert expected.min() >= 5
    counts = np.array([(np.clip(noise, -7, 7) == step).sum() for step in range(-7, 8)])
    # One false alarm in a million: the noise has no seed.
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    assert abs(noise).max() < 30


@pytest.mark.parametrize(("sensitivity", "mu"), [(1.0, 0.1), (1024.0, 0.2472), (1e6, 2.0)])
def test_the_scale_is_the_sensitivity_over_mu(sensitivity: float, mu: float) -> None:
    noise = add_noise(np.zeros(20_000, dtype=np.int64), sensitivity, mu) * mu / sensitivity
    assert noise.std() == pytest.approx(1.0, abs=0.03)
    assert noise.mean() == pytest.approx(0.0, abs=0.05)
    assert stats.kstest(noise, stats.norm.cdf).pvalue > 1e-7 or sensitivity / mu < 100


@given(st.floats(1e-3, 1e9), st.floats(1e-6, 1e3))
@settings(deadline=None)
def test_opendp_never_accounts_more_than_was_asked(sensitivity: float, mu: float) -> None:
    scale = mechanism._scale(sensitivity, mu)
    assert mechanism._gaussian(scale).map(sensitivity) <= mu * mu / 2


def test_a_mechanism_that_costs_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gaussian = mechanism._gaussian
    monkeypatch.setattr(mechanism, "_gaussian", lambda scale: gaussian(scale * (1 - 1e-9)))
    with pytest.raises(SolverError) as caught:
        add_noise(np.zeros(3, dtype=np.int64), 1.0, 0.5)
    assert caught.value.code == "release-account"


@given(st.lists(st.integers(INT64.min, INT64.max), max_size=5))
@settings(deadline=None)
def test_values_of_64_bits_come_back_with_noise_or_saturated(values: list[int]) -> None:
    noisy = add_noise(np.array(values, dtype=np.int64), sensitivity=1.0, mu=0.1)
    assert noisy.dtype == np.int64
    for exact, found in zip(values, noisy.tolist(), strict=True):
        # Saturation is not wrapping round: no large number turns into its opposite.
        assert abs(exact - found) < 1000


def test_two_draws_differ_and_the_input_stays() -> None:
    values = np.arange(50, dtype=np.int64)
    first, second = (add_noise(values, 100.0, 0.5) for _ in range(2))
    assert (first != second).any()
    assert (values == np.arange(50)).all()


def test_no_seed_makes_the_noise_come_again() -> None:
    import random

    drawn = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        drawn.append(add_noise(np.zeros(20, dtype=np.int64), 1000.0, 0.5))
    assert (drawn[0] != drawn[1]).any()


def test_forked_processes_draw_noise_of_their_own() -> None:
    add_noise(np.zeros(20, dtype=np.int64), 1000.0, 0.5)
    drawn = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                noise = add_noise(np.zeros(20, dtype=np.int64), 1000.0, 0.5)
                os.write(writing, noise.tobytes())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            drawn.append(pipe.read())
        os.waitpid(child, 0)
    assert len(drawn[0]) == len(drawn[1]) == 160
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("values", "sensitivity", "mu", "code"),
    [
        (np.zeros(3), 1.0, 0.5, "release-values"),
        (np.zeros(3, dtype=np.int32), 1.0, 0.5, "release-values"),
        (np.zeros((3, 1), dtype=np.int64), 1.0, 0.5, "release-values"),
        ([0, 1], 1.0, 0.5, "release-values"),
        (np.zeros(3, dtype=np.int64), 0.0, 0.5, "option-sensitivity"),
        (np.zeros(3, dtype=np.int64), -1.0, 0.5, "option-sensitivity"),
        (np.zeros(3, dtype=np.int64), math.nan, 0.5, "option-sensitivity"),
        (np.zeros(3, dtype=np.int64), math.inf, 0.5, "option-sensitivity"),
        (np.zeros(3, dtype=np.int64), 1.0, 0.0, "option-mu"),
        (np.zeros(3, dtype=np.int64), 1.0, -0.5, "option-mu"),
        (np.zeros(3, dtype=np.int64), 1.0, math.nan, "option-mu"),
        (np.zeros(3, dtype=np.int64), 1.0, math.inf, "option-mu"),
        (np.zeros(3, dtype=np.int64), 1.0, True, "option-mu"),
        (np.zeros(3, dtype=np.int64), 1.0, 1e-16, "option-mu"),
    ],
)
def test_what_cannot_be_a_release_is_refused(
    values: np.ndarray, sensitivity: float, mu: float, code: str
) -> None:
    with pytest.raises(InputError) as caught:
        add_noise(values, sensitivity, mu)
    assert caught.value.code == code


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(ExtraError, match=r"silot\[privacy\]") as caught:
        add_noise(np.zeros(3, dtype=np.int64), 1.0, 0.5)
    assert caught.value.code == "extra-privacy"
