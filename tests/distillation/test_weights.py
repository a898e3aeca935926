import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.distillation import teacher_weights
from silot.errors import InputError, MismatchError

VARIANTS = ("confidence", "uniform", "size", "uniform-distance")


@pytest.mark.parametrize("weights", VARIANTS)
@given(
    teachers=st.integers(1, 4),
    inputs=st.integers(1, 6),
    labels=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_weights_are_the_papers_divided_by_their_sum(
    weights: str, teachers: int, inputs: int, labels: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    outputs = rng.dirichlet(np.ones(labels), (teachers, inputs))
    biases = rng.dirichlet(np.ones(labels), teachers)
    sizes = rng.integers(1, 100, teachers)
    found = teacher_weights(outputs, weights=weights, biases=biases, sizes=sizes)  # type: ignore[arg-type]
    for i in range(inputs):
        raw = {
            "confidence": [np.linalg.norm(outputs[k, i] - biases[k]) for k in range(teachers)],
            "uniform": [1.0] * teachers,
            "size": sizes,
            "uniform-distance": [np.linalg.norm(h - 1 / labels) for h in outputs[:, i]],
        }[weights]
        np.testing.assert_allclose(found[:, i], np.asarray(raw) / np.sum(raw), rtol=1e-12)


def test_a_prediction_of_the_label_a_teacher_is_biased_against_counts_most() -> None:
    outputs = np.eye(3)[:, None].repeat(1, axis=1)  # teacher k names label k
    found = teacher_weights(outputs, biases=[[0.1, 0.2, 0.7]] * 3)
    assert found[:, 0].argmax() == 0 and found[:, 0].argmin() == 2


def test_teachers_that_say_nothing_count_alike() -> None:
    outputs = np.full((3, 2, 4), 0.25)
    outputs[0, 1] = [1.0, 0.0, 0.0, 0.0]
    for options in ({"weights": "uniform-distance"}, {"biases": np.full((3, 4), 0.25)}):
        found = teacher_weights(outputs, **options)
        np.testing.assert_allclose(found[:, 0], 1 / 3)
        np.testing.assert_allclose(found[:, 1], [1, 0, 0])


@given(
    teachers=st.integers(1, 6),
    cap=st.sampled_from([1.0, 1.2, 1.5, 3.0, 100.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_teacher_counts_for_more_than_the_cap(teachers: int, cap: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs = rng.dirichlet(np.full(3, 0.3), (teachers, 8))
    # Some teachers say nothing but their bias.
    biases = np.where(rng.random((teachers, 1)) < 0.3, outputs[:, 0], rng.dirichlet(np.ones(3)))
    free = teacher_weights(outputs, biases=biases)
    found = teacher_weights(outputs, biases=biases, cap=cap)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    assert found.min() >= 0
    if free.mean(axis=1).max() <= cap / teachers:
        np.testing.assert_array_equal(found, free)
    else:
        assert found.mean(axis=1).max() == pytest.approx(cap / teachers, rel=1e-9)
        # Who counts for more of an input than another still does.
        gained, had = found[:, None] - found[None], free[:, None] - free[None]
        assert (gained * had >= 0).all()


def test_mistakes_have_codes() -> None:
    outputs = np.full((2, 3, 2), 0.5)
    wrong = outputs.copy()
    wrong[1, 0, 0] = np.nan
    for arguments, options, code in [
        (outputs, {}, "teacher-weights-absent"),
        (outputs, {"weights": "size"}, "teacher-weights-absent"),
        (outputs, {"weights": "uniform", "cap": 0.9}, "option-cap"),
        (outputs, {"weights": "uniform", "cap": float("nan")}, "option-cap"),
        (outputs, {"biases": [[0.5, 0.5]]}, "teacher-weights-shape"),
        (outputs, {"biases": [[0.5, 0.4]] * 2}, "outputs-simplex"),
        (outputs, {"weights": "size", "sizes": [0, 0]}, "teacher-sizes"),
        (outputs, {"weights": "size", "sizes": [1, -1]}, "teacher-sizes"),
        (outputs, {"weights": "loudness"}, "option-weights"),
        (outputs[0], {"weights": "uniform"}, "outputs-shape"),
        (wrong, {"weights": "uniform"}, "outputs-simplex"),
        (outputs * 2, {"weights": "uniform"}, "outputs-simplex"),
        (outputs * 0 + [1.1, -0.1], {"weights": "uniform"}, "outputs-simplex"),
    ]:
        with pytest.raises(InputError) as caught:
            teacher_weights(arguments, **options)
        assert caught.value.code == code
    with pytest.raises(MismatchError):
        teacher_weights(outputs, biases=[[0.5, 0.5]] * 3)
