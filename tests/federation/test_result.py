import json
import math

import numpy as np
import pytest

import silot
from silot.distances import Distance, DistanceMatrix

pytestmark = pytest.mark.all_cases

X = np.random.default_rng(0).normal(size=(25, 2))


@pytest.fixture(scope="module")
def result() -> Distance:
    return silot.distance(X, X + 3.0, method="fedwad", support=25, rounds=6)


@pytest.fixture(scope="module")
def matrix() -> DistanceMatrix:
    return silot.distance_matrix({"<north>": X, "south": X + 1.0, "west": X - 2.0})


def test_repr_is_one_line_with_value_bounds_and_status(result: Distance) -> None:
    text = repr(result)
    assert "\n" not in text
    assert f"{result.value:.6g}" in text and f"{result.lower:.6g}" in text and "fedwad" in text


def test_to_dict_is_json_with_the_fields_of_the_result(result: Distance) -> None:
    fields = json.loads(result.to_json())
    for name in (
        "value", "lower", "upper", "method", "status", "rounds", "bytes_sent", "bytes_received",
        "seconds", "disclosure", "seed", "history",
    ):  # fmt: skip
        assert name in fields
    assert fields["value"] == result.value
    assert "transcript" not in fields


def test_an_infinite_bound_is_null_in_json() -> None:
    result = silot.distance(X, X + 1, method="fedwad", rounds=2, distances="never")
    assert result.upper == math.inf
    assert json.loads(result.to_json())["upper"] is None


def test_html_escapes_names(matrix: DistanceMatrix, result: Distance) -> None:
    assert "&lt;north&gt;" in matrix._repr_html_()
    assert f"{result.value:.6g}" in result._repr_html_()


def test_plots_draw_on_given_axes(matrix: DistanceMatrix, result: Distance) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2)
    assert result.plot(axes[0]) is axes[0]
    assert matrix.plot(axes[1]) is axes[1]
    figure.canvas.draw()
    pyplot.close("all")
    for drawn in (matrix.plot(), silot.distance(X, X + 1).plot()):
        drawn.figure.canvas.draw()
        pyplot.close("all")


def test_a_matrix_is_symmetric_with_a_zero_diagonal(matrix: DistanceMatrix) -> None:
    np.testing.assert_array_equal(matrix.values, matrix.values.T)
    assert (np.diag(matrix.values) == 0).all()
    assert matrix["south", "<north>"] is matrix["<north>", "south"]
    assert matrix.values[0, 1] == pytest.approx(2**0.5)
    assert (matrix.lower <= matrix.values).all() and (matrix.values <= matrix.upper).all()


def test_the_cost_of_a_matrix_is_one_exchange_with_each_holder(matrix: DistanceMatrix) -> None:
    # Each of three holders is in two pairs, which say what they would cost by themselves.
    assert 2 * matrix.cost.bytes_sent == sum(pair.bytes_sent for pair in matrix.pairs.values())
    assert matrix.cost.rounds == 1
    assert matrix.disclosure == "record"
    assert json.loads(matrix.to_json())["names"] == ["<north>", "south", "west"]


# A sketch is drawn anew by every run: tests/sketch/test_sketch.py.
@pytest.mark.parametrize("method", sorted(set(silot.api.METHODS) - {"sketch", "secure", "private"}))
def test_reordering_the_holders_of_a_matrix_changes_nothing(method: str) -> None:
    data = {"a": X, "b": X[:20] * 2 + 1, "c": X[5:] - 2}
    first = silot.distance_matrix(data, method=method)
    second = silot.distance_matrix(dict(reversed(data.items())), method=method)
    np.testing.assert_allclose(second.values[::-1, ::-1], first.values, rtol=1e-12)
    # Bounds leave 1e-12 of the potentials for rounding, and potentials are not unique.
    np.testing.assert_allclose(second.lower[::-1, ::-1], first.lower, rtol=1e-11)


def test_a_result_cannot_be_changed(result: Distance) -> None:
    with pytest.raises(AttributeError):
        result.value = 0.0  # type: ignore[misc]
