"""Measures: what they accept, that they never change, and label coordinates by hand."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot.data.measure import Covariance, Measure, label_name, label_vectors
from silot.data.names import canonical
from silot.errors import InputError, MismatchError, SilotError
from tests.problems import SECRET, Array, assert_refused, draw_weights, seeds
from tests.tiers import examples

BLOCKS: tuple[Covariance, ...] = ("diagonal", "diagonal-of-root", "full")
blocks = pytest.mark.parametrize("covariance", BLOCKS)


# Building.


def test_points_become_float64_rows_and_weights_sum_to_one() -> None:
    measure = Measure([[1, 2], [3, 4], [5, 6]], weights=[1, 2, 1])
    assert measure.points.dtype == np.float64
    assert measure.points.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert measure.weights.tolist() == [0.25, 0.5, 0.25]
    assert measure.labels is None
    assert (measure.size, measure.dimension, measure.labelled) == (3, 2, False)


def test_weights_are_uniform_by_default() -> None:
    assert Measure(np.zeros((4, 1))).weights.tolist() == [0.25] * 4


def test_one_record_and_zero_weights_are_measures() -> None:
    assert Measure([[1.0]]).weights.tolist() == [1.0]
    assert Measure([[1.0], [2.0]], weights=[0, 3]).weights.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("points", "code"),
    [
        ([[SECRET, np.nan]], "measure-nan"),
        ([[SECRET, np.inf]], "measure-infinite"),
        ([[SECRET * 1e150]], "measure-magnitude"),
        ([], "measure-shape"),
        ([[]], "measure-empty"),
        (np.zeros((0, 3)), "measure-empty"),
        ([SECRET, 1.0], "measure-shape"),
        (SECRET, "measure-shape"),
        (np.full((2, 2, 2), SECRET), "measure-shape"),
        ([[SECRET], [1.0, 2.0]], "measure-shape"),
        ([["8675309"]], "measure-dtype"),
        ([[SECRET + 1j]], "measure-dtype"),
        ([[None, SECRET]], "measure-dtype"),
    ],
)
def test_bad_points_are_refused(points: Any, code: str) -> None:
    assert_refused(lambda: Measure(points), InputError, code)
    assert_refused(lambda: Measure.of(points), InputError, code)


@pytest.mark.parametrize(
    ("weights", "kind", "code"),
    [
        ([SECRET, -1.0], InputError, "weights-negative"),
        ([0.0, 0.0], InputError, "weights-zero"),
        ([SECRET, np.nan], InputError, "weights-nan"),
        ([SECRET, np.inf], InputError, "weights-nan"),
        (["8675309", "1"], InputError, "weights-dtype"),
        ([SECRET], MismatchError, "weights-shape"),
        ([[SECRET], [1.0]], MismatchError, "weights-shape"),
        (SECRET, MismatchError, "weights-shape"),
    ],
)
def test_bad_weights_are_refused(weights: Any, kind: type[SilotError], code: str) -> None:
    assert_refused(lambda: Measure([[1.0], [2.0]], weights=weights), kind, code)


@pytest.mark.parametrize(
    ("labels", "kind", "code"),
    [
        ([SECRET], MismatchError, "labels-shape"),
        ([SECRET, 1.0, 2.0], MismatchError, "labels-shape"),
        ([[SECRET], [1.0]], MismatchError, "labels-shape"),
        ("8675309", MismatchError, "labels-shape"),
        ([SECRET, np.nan], InputError, "labels-missing"),
        ([SECRET, None], InputError, "labels-missing"),
        (["8675309", None], InputError, "labels-missing"),
        (np.array(["8675309", np.nan], dtype=object), InputError, "labels-missing"),
    ],
)
def test_bad_labels_are_refused(labels: Any, kind: type[SilotError], code: str) -> None:
    assert_refused(lambda: Measure([[1.0], [2.0]], labels=labels), kind, code)


def test_missing_labels_are_counted_and_located() -> None:
    points = np.zeros((4, 1))
    assert_refused(
        lambda: Measure(points, labels=["a", None, "b", None]),
        InputError,
        "labels-missing",
        quoting="2 label(s) are missing, the first in row 1",
    )


def test_a_missing_label_among_text_labels_is_refused() -> None:
    assert_refused(
        lambda: Measure([[1.0], [2.0]], labels=["8675309", float("nan")]),
        InputError,
        "labels-missing",
    )


def test_a_missing_date_label_is_refused() -> None:
    dates = np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")
    assert_refused(lambda: Measure([[1.0], [2.0]], labels=dates), InputError, "labels-missing")


def test_ragged_labels_are_refused() -> None:
    with pytest.raises(InputError):
        Measure([[1.0], [2.0]], labels=[[SECRET, 1.0], [2.0]])


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog", "cat"],
        [-5, 3, -5],
        [0.5, -1.25, 0.5],
        [True, False, True],
        np.array(["cat", "dog", "cat"], dtype=object),
        np.array([7, "dog", 7], dtype=object),
        [b"cat", b"dog", b"cat"],
    ],
)
def test_labels_of_any_type_tell_classes_apart(labels: Any) -> None:
    measure = Measure([[0.0], [1.0], [2.0]], labels=labels)
    assert measure.labelled
    assert measure.labels is not None
    assert measure.labels[0] == measure.labels[2] != measure.labels[1]
    assert repr(measure) == "Measure(3 records, 1 features, 2 classes)"
    # Class a: 0 and 2, mean 1, deviation 1. Class b: 1 alone.
    assert label_vectors(measure).tolist() == [[0, 1, 1], [1, 1, 0], [2, 1, 1]]


# Names of labels.

numbers_of_any_type = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 255).map(np.uint8),
    st.booleans().map(np.bool_),
    st.floats(width=16).map(np.float16),
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.integers(-(2**53), 2**53).map(np.float64),
)


def name_of(label: Any) -> str | None:
    try:
        return label_name(label)
    except InputError:
        return None


@settings(max_examples=examples(500))
@given(number=numbers_of_any_type, other=numbers_of_any_type | st.text(max_size=3))
def test_a_number_has_one_name_whatever_stands_in_its_column(number: Any, other: Any) -> None:
    known = name_of(number)
    if known is None or number != number:
        return
    # As numpy writes it in its own array, in one with the other, and as text.
    both = np.array([number, other])
    ways = [number, number.item(), str(number), str(number).encode(), both[0], both.tolist()[0]]
    if number.dtype.kind != "f" or number.dtype == np.float64:
        ways.append(np.array([number]).astype(str)[0])
    assert {name_of(way) for way in ways} - {None} == {known}
    # A name is its own name.
    assert label_name(known) == known


@given(st.text())
def test_texts_that_no_number_is_written_as_stay(text: str) -> None:
    name = label_name(text)
    assert label_name(name) == name
    if not any(sign in text.lower() for sign in ".e"):
        assert name == canonical(text)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1, 2.0, "3", "4.0", True, b"x"], ["1", "2", "3", "4", "1", "x"]),
        (np.array([True, False]), ["1", "0"]),
        (np.array(["True", "false", "TRUE"]), ["1", "0", "1"]),
        (["007", "7", "7.0", "7.00", "+7", "1e3", "1e+03"],
         ["007", "7", "7", "7.00", "+7", "1e3", "1000"]),
        (np.array([0.5, -0.0, 3.0]), ["0.5", "0", "3"]),
        (np.array([1, 2], dtype=np.int8), ["1", "2"]),
        ([2**60 + 1, "1152921504606846977"], ["1152921504606846977"] * 2),
    ],
)  # fmt: skip
def test_labels_have_these_names(labels: Any, names: list[str]) -> None:
    measure = Measure(np.zeros((len(labels), 1)), labels=labels)
    assert measure.names is not None and measure.names.tolist() == names


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        (np.array([2.0**53]), "labels-inexact"),
        (np.array([np.inf]), "labels-inexact"),
        (np.array([0.1], dtype=np.float32), "labels-inexact"),
        (np.array([2**24], dtype=np.float32), "labels-inexact"),
        ([2**53, 2.0**53], "labels-inexact"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "labels-dtype"),
        ([Decimal("1.50")], "labels-dtype"),
        ([{1}], "labels-dtype"),
        (np.array([1j]), "labels-dtype"),
        (np.ma.masked_array([1, 2], [0, 1]), "labels-missing"),
    ],
)
def test_labels_without_a_certain_name_are_refused(labels: Any, code: str) -> None:
    points = np.zeros((len(labels), 1))
    assert_refused(lambda: Measure(points, labels=labels), InputError, code)


def test_classes_of_one_name_are_one_class() -> None:
    measure = Measure([[0.0], [2.0]], labels=np.array(["1", "1.0"]))
    assert repr(measure) == "Measure(2 records, 1 features, 1 classes)"
    assert label_vectors(measure)[:, 1].tolist() == [1.0, 1.0]


# Never changing.


def test_a_measure_copies_what_it_is_given() -> None:
    points, weights, labels = np.ones((2, 2)), np.array([0.5, 0.5]), np.array([1, 2])
    measure = Measure(points, weights, labels)
    points[:], weights[:], labels[:] = 9.0, 9.0, 9
    assert measure.points.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert measure.weights.tolist() == [0.5, 0.5]
    assert measure.labels is not None and measure.labels.tolist() == [1, 2]


def test_the_arrays_of_a_measure_cannot_be_written() -> None:
    measure = Measure(np.ones((2, 2)), [1.0, 1.0], ["a", "b"])
    for array in (measure.points, measure.weights, measure.labels, *measure.arrays()):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


@pytest.mark.parametrize("name", ["points", "weights", "labels", "anything"])
def test_the_fields_of_a_measure_cannot_be_replaced(name: str) -> None:
    measure = Measure(np.ones((2, 2)))
    with pytest.raises(AttributeError):
        setattr(measure, name, np.zeros((2, 2)))


def test_the_data_handed_in_stay_writable() -> None:
    points, weights, labels = np.ones((2, 2)), np.array([0.5, 0.5]), np.array([1, 2])
    Measure(points, weights, labels)
    for array in (points, weights, labels):
        assert array.flags.writeable


def test_a_measure_is_its_own_measure() -> None:
    measure = Measure([[1.0]])
    assert Measure.of(measure) is measure
    assert Measure.of([[1.0], [3.0]]).points.tolist() == [[1.0], [3.0]]


def test_measures_compare_by_identity_and_can_be_keys() -> None:
    one, other = Measure([[1.0]]), Measure([[1.0]])
    assert one == one and one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_measure_survives_being_copied(duplicate: Any) -> None:
    measure = Measure([[1.0, 2.0], [3.0, 4.0]], [1.0, 3.0], ["a", "b"])
    other = duplicate(measure)
    assert other.points.tolist() == measure.points.tolist()
    assert other.weights.tolist() == measure.weights.tolist()
    assert other.labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copied_measure_cannot_be_written_either(duplicate: Any) -> None:
    other = duplicate(Measure([[1.0, 2.0], [3.0, 4.0]], [1.0, 3.0], ["a", "b"]))
    for array in (other.points, other.weights, other.labels):
        assert not array.flags.writeable


def test_the_representation_shows_no_datum() -> None:
    measure = Measure([[SECRET, 1.0]], [SECRET], ["8675309"])
    assert repr(measure) == "Measure(1 records, 2 features, 1 classes)"
    assert repr(Measure([[SECRET]])) == "Measure(1 records, 1 features)"


def test_arrays_are_the_points_or_the_label_vectors() -> None:
    measure = Measure([[0.0], [2.0], [5.0]], [1.0, 1.0, 2.0], ["a", "a", "b"])
    points, weights = measure.arrays()
    assert points is measure.points and weights is measure.weights
    for covariance in BLOCKS:
        vectors, weights = measure.arrays(covariance)
        assert np.array_equal(vectors, label_vectors(measure, covariance=covariance))
        assert weights is measure.weights


# Label vectors by hand.

# Class a: the corners of a square of side 2, mean (1, 1), covariance I.
# Class b: (0, 0), (4, 2) and back, mean (2, 1), covariance [[4, 2], [2, 1]], root that / sqrt(5).
SQUARE = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]
SEGMENT = [[0.0, 0.0], [4.0, 2.0]]
HAND = Measure(SQUARE + SEGMENT, labels=[1, 1, 1, 1, -7, -7])
ROOT = np.array([[4.0, 2.0], [2.0, 1.0]]) / 5.0**0.5


def test_the_diagonal_block_is_the_standard_deviations() -> None:
    known = np.hstack(
        [SQUARE + SEGMENT, [[1.0, 1.0]] * 4 + [[2.0, 1.0]] * 2, [[1.0, 1.0]] * 4 + [[2.0, 1.0]] * 2]
    )
    np.testing.assert_allclose(label_vectors(HAND, covariance="diagonal"), known, atol=1e-12)
    np.testing.assert_allclose(label_vectors(HAND), known, atol=1e-12)


def test_the_diagonal_of_root_block_is_the_diagonal_of_the_matrix_root() -> None:
    vectors = label_vectors(HAND, covariance="diagonal-of-root")
    assert vectors.shape == (6, 6)
    np.testing.assert_allclose(vectors[:, :2], SQUARE + SEGMENT)
    np.testing.assert_allclose(vectors[:4, 4:], [[1.0, 1.0]] * 4, atol=1e-12)
    np.testing.assert_allclose(vectors[4:, 4:], [ROOT.diagonal()] * 2, atol=1e-12)


def test_the_full_block_is_the_matrix_root() -> None:
    vectors = label_vectors(HAND, covariance="full")
    assert vectors.shape == (6, 8)
    np.testing.assert_allclose(vectors[4:, 2:4], [[2.0, 1.0]] * 2)
    np.testing.assert_allclose(vectors[:4, 4:], [[1.0, 0.0, 0.0, 1.0]] * 4, atol=1e-12)
    np.testing.assert_allclose(vectors[4:, 4:], [ROOT.ravel()] * 2, atol=1e-12)


@blocks
def test_a_class_of_one_record_has_itself_for_mean_and_no_covariance(
    covariance: Covariance,
) -> None:
    measure = Measure([[3.0, 4.0], [0.0, 0.0], [2.0, 2.0]], labels=["lone", "b", "b"])
    lone = label_vectors(measure, covariance=covariance)[0]
    assert lone[:4].tolist() == [3.0, 4.0, 3.0, 4.0]
    np.testing.assert_allclose(lone[4:], 0.0, atol=1e-15)


def test_class_moments_use_the_weights_of_the_class() -> None:
    # Masses 3 and 1 at 0 and 4: mean 1, variance 3. The other class's mass plays no role.
    measure = Measure([[0.0], [4.0], [9.0]], [3.0, 1.0, 50.0], ["a", "a", "b"])
    np.testing.assert_allclose(
        label_vectors(measure), [[0, 1, 3**0.5], [4, 1, 3**0.5], [9, 9, 0]], atol=1e-12
    )


@blocks
def test_records_without_mass_do_not_move_their_class(covariance: Covariance) -> None:
    measure = Measure([[0.0], [2.0], [1e6]], [1.0, 1.0, 0.0], ["a", "a", "a"])
    vectors = label_vectors(measure, covariance=covariance)
    np.testing.assert_allclose(vectors, [[0, 1, 1], [2, 1, 1], [1e6, 1, 1]], rtol=1e-12)


@blocks
def test_a_class_without_mass_has_finite_vectors(covariance: Covariance) -> None:
    measure = Measure([[0.0], [2.0], [5.0], [7.0]], [1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])
    vectors = label_vectors(measure, covariance=covariance)
    np.testing.assert_allclose(vectors[:2], [[0, 1, 1], [2, 1, 1]])
    assert np.isfinite(vectors).all()
    assert vectors[2:, 0].tolist() == [5.0, 7.0]


@blocks
@given(n=st.integers(1, 20), d=st.sampled_from((1, 2, 6)), classes=st.integers(1, 4),
       weighted=st.booleans(), seed=seeds)  # fmt: skip
def test_label_vectors_are_the_moments_of_each_class(
    covariance: Covariance, n: int, d: int, classes: int, weighted: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    points, labels = rng.standard_normal((n, d)), rng.integers(0, classes, n)
    weights = rng.random(n) + 0.1 if weighted else np.ones(n)
    vectors = label_vectors(Measure(points, weights, labels), covariance=covariance)
    assert np.array_equal(vectors[:, :d], points)
    for label in np.unique(labels):
        members = labels == label
        share = weights[members] / weights[members].sum()
        mean = share @ points[members]
        spread = (share[:, None] * (points[members] - mean)).T @ (points[members] - mean)
        np.testing.assert_allclose(vectors[members, d : 2 * d], [mean] * members.sum(), atol=1e-12)
        found = vectors[members, 2 * d :]
        assert (found == found[0]).all()
        assert_block(found[0], spread, covariance)


def assert_block(found: Array, spread: Array, covariance: Covariance) -> None:
    """The block belongs to the covariance: squared or traced, without another matrix root."""
    d = len(spread)
    if covariance == "diagonal":
        np.testing.assert_allclose(found**2, spread.diagonal(), atol=1e-12)
        return
    if covariance == "full":
        # The one symmetric positive matrix with this square.
        root = found.reshape(d, d)
        np.testing.assert_allclose(root, root.T, atol=1e-12)
        np.testing.assert_allclose(root @ root, spread, atol=1e-12)
        assert np.linalg.eigvalsh(root).min() >= -1e-12 * max(1.0, float(np.abs(root).max()))
        return
    values, vectors = np.linalg.eigh(spread)
    root = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    # Eigenvalues are known to 1e-15 of the largest, so their roots to the root of that.
    accuracy = 2.0 * (1e-15 * max(float(values[-1]), 1e-300)) ** 0.5
    np.testing.assert_allclose(found, root.diagonal(), atol=accuracy + 1e-12)


@given(n=st.integers(1, 12), seed=seeds, kind=st.sampled_from(("random", "zeros", "integer")))
def test_label_values_do_not_matter(n: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    points, codes = rng.standard_normal((n, 2)), rng.integers(0, 3, n)
    weights = draw_weights(rng, kind, n)
    known = label_vectors(Measure(points, weights, codes))
    for names in (np.array(["z", "a", "m"]), np.array([-3.5, 1e9, 0.0]), np.array([9, -9, 4])):
        renamed = Measure(points, weights, names[codes])
        np.testing.assert_allclose(label_vectors(renamed), known, atol=1e-12)


def test_a_label_far_from_the_origin_keeps_its_deviation() -> None:
    measure = Measure([[2.0**30], [2.0**30 + 2.0]], labels=["a", "a"])
    np.testing.assert_allclose(label_vectors(measure)[:, 2], [1.0, 1.0], rtol=1e-12)


# Refusals.


@pytest.mark.parametrize("embedding", BLOCKS)
def test_label_vectors_of_unlabelled_records_are_refused(embedding: Covariance) -> None:
    measure = Measure([[SECRET]])
    assert_refused(
        lambda: label_vectors(measure, covariance=embedding), InputError, "labels-absent"
    )
    assert_refused(lambda: measure.arrays(embedding), InputError, "labels-absent")


@pytest.mark.parametrize("covariance", ["none", "Full", "", None])
def test_unknown_covariance_blocks_are_refused(covariance: Any) -> None:
    measure = Measure([[SECRET]], labels=["a"])
    assert_refused(
        lambda: label_vectors(measure, covariance=covariance),
        InputError,
        "option-covariance",
        quoting="diagonal-of-root",
    )


def test_an_embedding_that_does_not_fit_is_refused_before_it_is_built() -> None:
    wide = Measure(np.zeros((2, 9000)), labels=["a", "b"])
    assert_refused(
        lambda: label_vectors(wide, covariance="full"),
        InputError,
        "embedding-size",
        quoting="'diagonal'",
    )
    assert label_vectors(wide).shape == (2, 27_000)
