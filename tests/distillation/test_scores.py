import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from silot.distillation import LabelSpace, scores
from silot.errors import InputError, MismatchError


@given(
    size=st.integers(2, 6),
    records=st.integers(1, 30),
    dimension=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_agree_with_scikit_learn_and_the_definition(
    size: int, records: int, dimension: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    space = LabelSpace(rng.normal(size=(size, dimension)))
    given_, truth = rng.dirichlet(np.ones(size), records), rng.integers(size, size=records)
    found = scores(given_, truth, space)
    named = given_.argmax(axis=1)
    assert found.accuracy == pytest.approx(accuracy_score(truth, named))
    assert found.macro_f1 == pytest.approx(f1_score(truth, named, average="macro"))
    np.testing.assert_array_equal(
        found.confusion, confusion_matrix(truth, named, labels=range(size))
    )
    by_class = []
    for code in np.unique(truth):
        off = [
            np.linalg.norm(
                sum(h[j] * space.coordinates[j] for j in range(size)) - space.coordinates[code]
            )
            for h in given_[truth == code]
        ]
        by_class.append(np.mean(off))
    assert found.semantic_distance == pytest.approx(np.mean(by_class))
    assert [each.code for each in found.per_class] == np.unique(truth).tolist()
    assert found.records == records


def test_the_papers_example() -> None:
    # Section 5.4: the second names the right label and is further off.
    space = LabelSpace([1.0, 2.0, 3.0, 4.0, 5.0])
    third = 0.1 / 3
    first = scores([[0.2, 0.7, third, third, third]], [0], space)
    second = scores([[0.4, 0.1, 0.1, 0.1, 0.3]], [0], space)
    assert first.per_class[0].expected[0] == pytest.approx(2.0)
    assert second.per_class[0].expected[0] == pytest.approx(2.8)
    assert first.accuracy == 0.0 < second.accuracy == 1.0
    assert first.semantic_distance == pytest.approx(1.0)
    assert second.semantic_distance == pytest.approx(1.8)


def test_perfect_predictions_are_at_no_distance() -> None:
    space = LabelSpace.preset("emotion")
    codes = np.array([0, 1, 2, 3, 4, 4])
    found = scores(np.eye(5)[codes], codes, space)
    assert found.accuracy == found.macro_f1 == 1.0 and found.semantic_distance == 0.0


def test_classes_count_alike_and_absent_ones_do_not() -> None:
    space = LabelSpace.preset("sentiment-5")
    given_ = np.eye(5)[[0] * 99 + [3]]
    codes = np.array([0] * 99 + [4])
    found = scores(given_, codes, space)
    assert found.semantic_distance == pytest.approx(0.5)  # of 0 and 1; three classes are absent
    assert [each.name for each in found.per_class] == ["strong negative", "strong positive"]
    # F1: 1 for class 0; 0 for class 4, and for class 3, which is named and has no records.
    assert found.macro_f1 == pytest.approx(1 / 3)


def test_quantiles_are_of_the_expected_coordinates() -> None:
    space = LabelSpace([0.0, 100.0])
    shares = np.linspace(0.0, 1.0, 101)
    found = scores(np.c_[1 - shares, shares], np.zeros(101, dtype=np.int64), space)
    np.testing.assert_allclose(found.per_class[0].expected_quantiles[:, 0], [5, 25, 50, 75, 95])
    np.testing.assert_allclose(found.per_class[0].distance_quantiles, [5, 25, 50, 75, 95])
    assert json.loads(json.dumps(found.to_dict()))["records"] == 101


def test_mistakes_have_codes() -> None:
    space = LabelSpace([0.0, 1.0])
    half = [[0.5, 0.5]]
    for probabilities, codes, code in [
        (half, [2], "scores-codes"),
        (half, [-1], "scores-codes"),
        (half, [0.0], "scores-codes"),
        (half, [0, 1], "scores-shape"),
        ([[1.0, 0.0, 0.0]], [0], "scores-shape"),
        (np.zeros((0, 2)), np.zeros(0, dtype=int), "scores-empty"),
        ([[0.5, 0.6]], [0], "outputs-simplex"),
        ([[np.nan, 0.5]], [0], "outputs-simplex"),
        ([[1.1, -0.1]], [0], "outputs-simplex"),
    ]:
        with pytest.raises(InputError) as caught:
            scores(probabilities, codes, space)
        assert caught.value.code == code
    assert issubclass(MismatchError, InputError)
