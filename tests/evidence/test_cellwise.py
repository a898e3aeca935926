"""The projection of the inversion, ended cell by cell of the plan."""

import numpy as np
import pytest

from evidence.attacks.cellwise import cellwise_image
from silot.audits.inversion import Problem, projection_inversion

from ..audits.data import attack
from ..audits.test_inversion import encoded, sizes_of_relative_error
from .data import deep_audit


@pytest.mark.heavy
def test_tables_of_unlike_scales_come_back_from_split_rows() -> None:
    # One column decides nearly all of the plan: whole plans are too coarse a step there.
    rng = np.random.default_rng(6)
    x = np.column_stack(
        [rng.integers(17, 90, 120), rng.gamma(3.0, 4e4, 120), rng.integers(1, 16, 120)]
    ).astype(float)
    uniform = np.full(120, 1 / 120)
    evidence = encoded(x, uniform, 5e4 * rng.standard_normal((150, 3)), 0.5)
    guess = projection_inversion(evidence, 0.5, finish=cellwise_image)
    assert guess.certified
    assert (np.abs(guess.rows - x).max(axis=0) <= 1e-6 * x.max(axis=0)).all()


def test_cell_by_cell_the_projection_is_the_same() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 2))
    evidence = encoded(x, np.full(60, 1 / 60), rng.normal(size=(85, 2)), 0.8)
    problem = Problem(
        evidence.atoms, evidence.reference, evidence.weights, evidence.reference_weights, 0.8
    )
    start = evidence.reference[rng.integers(85, size=60)]
    image = cellwise_image(problem, start)
    assert image is not None
    assert sizes_of_relative_error((evidence.atoms - 0.8 * image) / 0.2, x) < 1e-9


@pytest.mark.slow
def test_the_attack_proves_what_whole_plans_do_not() -> None:
    rng = np.random.default_rng(6)
    x, y = (
        np.column_stack(
            [rng.integers(17, 90, n), rng.gamma(3.0, 4e4, n), rng.integers(1, 16, n)]
        ).astype(float)
        for n in (60, 60)
    )
    found = deep_audit(
        x, y, method="trianglewad", support=75, interpolation="barycentric", reference_scale=5e4
    )
    assert attack(found, "cellwise-projection").exact_rate == 1.0
