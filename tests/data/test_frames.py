"""Data frames: read as tables are, matched by the names of their columns, in any order."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import narwhals
import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.data.loading import load_measure
from silot.errors import ExtraError, InputError, MismatchError
from silot.federation import Holder, LocalFederation, Transcript
from tests.lazily import package
from tests.problems import SECRET, SECRET_TEXT, assert_refused

pl = package("polars")

RNG = np.random.default_rng(0)
# Features whose units differ: columns that are mixed up change every number.
SCALE = np.array([1.0, 30.0, 0.05])
X, Y, Z = (RNG.normal(k, 1, (n, 3)) * SCALE for k, n in ((0, 40), (1, 31), (0.5, 50)))
NAMES = ("age", "dose", "weight")
OTHER = ("weight", "age", "dose")

Make = Callable[[dict[str, Any]], Any]


def pandas_frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def arrow_table(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


makers = pytest.mark.parametrize("make", [pl.DataFrame, pandas_frame, arrow_table])


def frame(make: Make, points: Any, order: tuple[str, ...] = NAMES, **more: Any) -> Any:
    return make({**{name: points[:, NAMES.index(name)] for name in order}, **more})


def labels_of(points: Any) -> list[str]:
    return ["high" if age > 0.5 else "low" for age in points[:, 0]]


# The index of pandas: which field belongs to which record.


def by_index(values: Any, index: Any) -> Any:
    return pytest.importorskip("pandas").Series(values, index=list(index))


TURN = [2, 0, 3, 1]
KINDS, MASS = np.array(["p", "q", "r", "s"]), np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "index", [[10, 11, 12, 13], list("wxyz"), [(1, "a"), (1, "b"), (2, "a"), (2, "b")]]
)
def test_fields_in_another_order_are_matched_by_their_index(index: list[Any]) -> None:
    pandas = pytest.importorskip("pandas")
    index = (
        pandas.MultiIndex.from_tuples(index) if isinstance(index[0], tuple) else pandas.Index(index)
    )
    data = pandas.DataFrame({"a": MASS}, index=index)
    turned = [by_index(part[TURN], index[TURN]) for part in (KINDS, MASS)]
    found = silot.Measure(data, labels=turned[0], weights=turned[1])
    assert found.names is not None and found.names.tolist() == KINDS.tolist()
    assert found.masses.tolist() == MASS.tolist()


@pytest.mark.parametrize("what", ["labels", "weights"])
@pytest.mark.parametrize(
    ("own", "other", "fits"),
    [
        ("wxyz", "wxyz", True), ("wxyz", range(4), False), (range(4), range(1, 5), False),
        (range(4), range(4), True), ("wwyz", "wwyz", True), ("wwyz", "wywz", False),
        ("wxyz", "wxyy", False), (["0", "1", "2", "3"], range(4), False),
    ],
)  # fmt: skip
def test_fields_of_another_index_are_refused(what: str, own: Any, other: Any, fits: bool) -> None:
    data = pandas_frame({"a": MASS}).set_axis(list(own))
    field = by_index(KINDS if what == "labels" else MASS, other)

    def read(value: Any) -> silot.Measure:
        return silot.Measure(data, **{what: value})

    if not fits:
        cure = f"{what}.to_numpy()"
        assert_refused(lambda: read(field), MismatchError, "frame-index", quoting=cure)
    # Without an index the place of a field says whose it is.
    for value in (field.to_numpy(), field.tolist(), pl.Series(field.to_numpy())):
        assert (read(value).masses if what == "weights" else read(value).names).tolist() == (
            field.tolist()
        )
    if fits:
        assert read(field).size == 4


def test_labels_and_weights_are_matched_with_one_another() -> None:
    labels, weights = by_index(KINDS, "wxyz"), by_index(MASS[TURN], "ywzx")
    found = silot.Measure(MASS[:, None], labels=labels, weights=weights)
    assert found.masses.tolist() == MASS.tolist()


def test_fewer_fields_are_refused_as_ever() -> None:
    labels = by_index(KINDS[:3], range(3))
    assert_refused(
        lambda: silot.Measure(pandas_frame({"a": MASS}), labels=labels),
        MismatchError, "labels-shape",
    )  # fmt: skip


# Tables of other libraries keep their names.


class Stream:
    """A relation of duckdb, or of whoever hands on its table by the protocol of Arrow."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


class Dataset:
    """What is used of a data set of Hugging Face."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns

    def with_format(self, form: str) -> Any:
        assert form == "arrow"
        return _Rows(self._columns)


class _Rows:
    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns

    def __getitem__(self, rows: slice) -> Any:
        return arrow_table(self._columns)


Dataset.__module__ = "datasets.arrow_dataset"


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_a_stream_of_arrow_keeps_its_names(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = narwhals.from_arrow

    def only(data: Any, backend: str, allowed: str = backend) -> Any:
        if backend != allowed:
            raise ModuleNotFoundError(backend)
        return read(data, backend=backend)

    monkeypatch.setattr(narwhals, "from_arrow", only)
    one, two = (Stream(frame(pl.DataFrame, X, order)) for order in (NAMES, OTHER))
    assert silot.Measure(one).columns == NAMES
    assert silot.distance(one, two).value == 0.0
    twice = Stream(pytest.importorskip("pyarrow").table([[1.0], [2.0]], names=["a", "a"]))
    assert_refused(lambda: silot.Measure(twice), InputError, "frame-columns")


def test_a_stream_without_a_library_to_read_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError

    monkeypatch.setattr(narwhals, "from_arrow", fail)
    data = Stream(frame(pl.DataFrame, X))
    assert_refused(lambda: silot.Measure(data), ExtraError, "extra-parquet", quoting="Stream")


def test_a_data_set_keeps_its_names() -> None:
    one, two = (
        Dataset({name: X[:, NAMES.index(name)] for name in order}) for order in (NAMES, OTHER)
    )
    assert silot.Measure(one).columns == NAMES
    assert silot.distance(one, two).value == 0.0


def test_numbers_of_any_type_of_pandas_are_numbers() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    data = pandas.DataFrame(
        {
            "Int64": pandas.array([1, 2], dtype="Int64"),
            "boolean": pandas.array([True, False], dtype="boolean"),
            "Float32": pandas.array([0.5, 2], dtype="Float32"),
            "arrow": pandas.array([1, 2], dtype=pandas.ArrowDtype(arrow.int8())),
            "decimal": pandas.array(
                [Decimal("1.1"), Decimal("2.2")], dtype=pandas.ArrowDtype(arrow.decimal128(5, 1))
            ),
            "object": pandas.Series([Decimal("1.1"), 7], dtype=object),
        }
    )
    rows = [[1, 1, 0.5, 1, 1.1, 1.1], [2, 0, 2, 2, 2.2, 7]]
    assert silot.Measure(data).points.tolist() == rows
    for odd in (["1", 2], [Decimal(1), 10**400], [{}, 1]):
        mixed = pandas.DataFrame({"a": pandas.Series(odd, dtype=object)})
        assert_refused(lambda data=mixed: silot.Measure(data), InputError, "measure-dtype")
    missing = pandas.DataFrame({"a": pandas.Series([Decimal(1), None], dtype=object)})
    assert_refused(lambda: silot.Measure(missing), InputError, "measure-nan")


def test_columns_in_two_levels_are_called_by_both() -> None:
    pandas = pytest.importorskip("pandas")
    levels = pandas.MultiIndex.from_tuples([("a", "b"), ("a", "c")])
    data = pandas.DataFrame(np.eye(2), columns=levels)
    assert silot.Measure(data).columns == ("('a', 'b')", "('a', 'c')")
    assert silot.distance(data, data[[("a", "c"), ("a", "b")]]).value == 0.0


# Reading.


@makers
def test_a_frame_is_the_measure_of_its_columns(make: Make) -> None:
    mass = np.arange(1.0, 41.0)
    data = frame(make, X, kind=labels_of(X), mass=mass)
    found = silot.Measure(data, weights="mass", labels="kind")
    assert np.array_equal(found.points, X)
    assert np.array_equal(found.masses, mass)
    assert found.labels is not None and found.labels.tolist() == labels_of(X)
    assert found.columns == NAMES


@makers
def test_features_can_be_chosen(make: Make) -> None:
    found = silot.Measure(frame(make, X, note=["x"] * 40), columns=["weight", "age"])
    assert np.array_equal(found.points, X[:, [2, 0]])
    assert found.columns == ("weight", "age")


@makers
def test_truth_values_and_whole_numbers_are_numbers(make: Make) -> None:
    found = silot.Measure(make({"ill": [True, False], "age": [40, -3]}))
    assert found.points.tolist() == [[1.0, 40.0], [0.0, -3.0]]


@makers
def test_a_frame_is_read_as_its_file(make: Make, tmp_path: Any) -> None:
    columns = {"a": [1.5, 2.0, -1.0], "b": [1, 2, 3], "kind": [3.0, 7.0, 3.0]}
    pl.DataFrame(columns).write_parquet(tmp_path / "site.parquet")
    read = load_measure(tmp_path / "site.parquet", label_column="kind")
    given = silot.Measure(make(columns), labels="kind")
    assert np.array_equal(read.points, given.points)
    assert read.columns == given.columns == ("a", "b")
    assert read.names is not None and given.names is not None
    assert read.names.tolist() == given.names.tolist() == ["3", "7", "3"]


def test_missing_values_of_pandas_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    whole = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64"), "b": [1, 2, 3]})
    assert_refused(
        lambda: silot.Measure(whole),
        InputError,
        "measure-nan",
        quoting="'a' (1, the first in record ",
    )
    kinds = pandas.DataFrame({"a": [1.0, 2.0], "kind": ["x", None]})
    assert_refused(
        lambda: silot.Measure(kinds, labels="kind"),
        InputError,
        "labels-missing",
        quoting="'kind' (1, the first in record 2)",
    )
    categories = pandas.DataFrame({"a": [1.0, 2.0], "kind": pandas.Categorical([1, 2])})
    names = silot.Measure(categories, labels="kind").names
    assert names is not None and names.tolist() == ["1", "2"]


def test_names_of_pandas_that_are_no_texts_become_texts() -> None:
    pandas = pytest.importorskip("pandas")
    assert silot.Measure(pandas.DataFrame(np.eye(2))).columns == ("0", "1")
    twice = pandas.DataFrame(np.eye(2), columns=["a", "a"])
    assert_refused(lambda: silot.Measure(twice), InputError, "frame-columns")
    same = pandas.DataFrame(np.eye(2), columns=["1", 1])
    assert_refused(lambda: silot.Measure(same), InputError, "frame-columns")


@pytest.mark.parametrize(
    ("columns", "options", "code", "quoting"),
    [
        ({"a": [1.0], "name": [f"x{SECRET}"]}, {}, "measure-dtype", "'name'"),
        ({"a": [1.0]}, {"labels": "kind"}, "frame-columns", "'kind'"),
        ({"a": [1.0]}, {"weights": "mass"}, "frame-columns", "'mass'"),
        ({"a": [1.0]}, {"columns": ["b"]}, "frame-columns", "'b'"),
        ({"a": [1.0], "w": ["x"]}, {"weights": "w"}, "weights-dtype", "'w'"),
        ({"a": [1.0]}, {"labels": "a"}, "measure-empty", "feature"),
        ({"a": []}, {}, "measure-empty", "no record"),
        ({"a": [1.0, None], "b": [SECRET, 1.0]}, {}, "measure-nan", "'a' (1, "),
        ({"a": [1.0, 2.0], "b": [1.0, np.inf]}, {}, "measure-infinite", "'b' (1, "),
        ({"a": [1.0], "b": [[SECRET]]}, {}, "measure-dtype", "'b'"),
    ],
)  # fmt: skip
def test_frames_that_fail_name_the_column(
    columns: dict[str, Any], options: dict[str, Any], code: str, quoting: str
) -> None:
    data = pl.DataFrame(columns)
    assert_refused(lambda: silot.Measure(data, **options), InputError, code, quoting=quoting)


def test_a_query_that_was_not_run_is_refused() -> None:
    query = pl.DataFrame({"a": [1.0]}).lazy()
    assert_refused(lambda: silot.Measure(query), InputError, "frame-lazy", quoting="collect()")


def test_names_of_columns_are_given_for_arrays_too() -> None:
    found = silot.Measure(X, columns=NAMES)
    assert found.ordered(OTHER).points.tolist() == X[:, [2, 0, 1]].tolist()
    for columns in (["a", "b"], ["a", "b", "b"], ["a", "b", 3]):
        with pytest.raises(InputError) as caught:
            silot.Measure(X, columns=columns)  # pyright: ignore[reportArgumentType]
        assert caught.value.code == "option-columns"


def test_a_copy_keeps_the_names() -> None:
    import copy

    assert copy.deepcopy(silot.Measure(X, columns=NAMES)).columns == NAMES


def test_nan_in_files_names_the_columns(tmp_path: Any) -> None:
    path = tmp_path / "site.csv"
    path.write_text(f"age,dose,name\n1,,2\n2,,NA\n{SECRET},1,1\n")
    with pytest.raises(InputError) as caught:
        load_measure(path)
    assert (
        "'dose' (2, the first in line 2), 'name' (1, the first in line 3)" in caught.value.message
    )
    assert SECRET_TEXT not in str(caught.value)


# Every public function: columns in another order give the same numbers, others are refused.


def labelled(points: Any) -> silot.Measure:
    return silot.Measure(points, labels=labels_of(points))


def adapted(a: Any, b: Any, labels: str | None = None) -> Any:
    return silot.adapt({"a": a, "b": b}, labels=labels, model="logistic", seed=0).plan.links


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "distance": lambda x, y, z: silot.distance(x, y).value,
    "fedwad": lambda x, y, z: silot.distance(x, y, method="fedwad", rounds=3).value,
    "matrix": lambda x, y, z: silot.distance_matrix([x, y, z]).values.tolist(),
    "pooled": lambda x, y, z: silot.pooled_distance({"a": x, "b": y}, z).value,
    "barycenter": lambda x, y, z: silot.barycenter([x, y, z], support=5).points.tolist(),
    "value": lambda x, y, z: silot.value_holders({"a": x, "b": y}, z).shares,
    "records": lambda x, y, z: silot.value_records(x, y, fdr=0).scores.tolist(),
    "federation": lambda x, y, z: (
        silot.federation.LocalFederation({"a": x, "b": y})
        .run(silot.distances.direct("a", "b"))
        .value
    ),
    "adapt": lambda x, y, z: adapted(x, labelled(Y), None),
    "audit": lambda x, y, z: (
        silot.audit(_run(), truth={"x": x, "y": y}, outsiders=z).exact_rates
    ),
}  # fmt: skip


def _run() -> Transcript:
    found = silot.distance(X, Y, method="trianglewad").transcript
    assert found is not None
    return found


@makers
@pytest.mark.parametrize("call", CALLS)
def test_the_order_of_columns_changes_nothing(call: str, make: Make) -> None:
    ask = CALLS[call]
    arrays = ask(X, Y, Z)
    same = ask(frame(make, X), frame(make, Y), frame(make, Z))
    assert same == arrays
    if call != "adapt":
        mixed = ask(frame(make, X), frame(make, Y, OTHER), frame(make, Z, OTHER))
        assert mixed == arrays


@pytest.mark.parametrize("call", [name for name in CALLS if name != "adapt"])
def test_names_that_do_not_fit_are_named(call: str) -> None:
    other = frame(pl.DataFrame, Y).rename({"dose": "Dose"})
    with pytest.raises(MismatchError) as caught:
        CALLS[call](frame(pl.DataFrame, X), other, frame(pl.DataFrame, Z))
    assert caught.value.code == "columns-mismatch"
    assert "'dose'" in caught.value.message and "'Dose'" in caught.value.message


def test_the_order_of_holders_changes_nothing() -> None:
    x, y = frame(pl.DataFrame, X), frame(pl.DataFrame, Y, OTHER)
    one = silot.value_holders({"a": x, "b": y}, frame(pl.DataFrame, Z), seed=3)
    two = silot.value_holders({"b": y, "a": x}, frame(pl.DataFrame, Z), seed=3)
    assert one.shares == two.shares


def test_an_array_between_frames_of_other_orders_is_refused() -> None:
    x, y = frame(pl.DataFrame, X), frame(pl.DataFrame, Y, OTHER)
    assert_refused(
        lambda: silot.pooled_distance({"a": x, "b": y}, Z),
        MismatchError,
        "columns-mismatch",
        quoting="'your own data' has no names",
    )


@pytest.mark.heavy
def test_labels_of_frames_are_named_by_their_column() -> None:
    data = [frame(pl.DataFrame, each, OTHER, kind=labels_of(each)) for each in (X, Y, Z)]
    arrays = [labelled(each[:, [2, 0, 1]]) for each in (X, Y, Z)]
    arrays = [silot.Measure(a.points, labels=labels_of(e)) for a, e in zip(arrays, (X, Y, Z))]  # noqa: B905
    assert (
        silot.distance(data[0], data[1], labels="kind").value
        == silot.distance(arrays[0], arrays[1], labels=True).value
    )
    assert (
        silot.value_holders(data[:2], data[2], labels="kind").shares
        == silot.value_holders(arrays[:2], arrays[2], labels=True).shares
    )
    assert (
        silot.value_records(data[0], data[2], labels="kind").scores.tolist()
        == silot.value_records(arrays[0], arrays[2], labels=True).scores.tolist()
    )
    assert adapted(data[0], data[1].drop("kind"), "kind") == adapted(arrays[0], Y[:, [2, 0, 1]])
    assert_refused(
        lambda: silot.distance(data[0], data[1], labels=True), InputError, "measure-dtype",
        quoting="'kind'",
    )  # fmt: skip
    assert_refused(
        lambda: silot.distance(data[0].drop("kind"), data[1].drop("kind"), labels=True),
        InputError, "labels-absent", quoting="name of their column",
    )  # fmt: skip
    assert_refused(
        lambda: adapted(data[0], data[1], "sort"), InputError, "frame-columns", quoting="'sort'"
    )


def test_a_model_takes_the_columns_it_was_trained_on() -> None:
    devices = {"a": labelled(X), "b": frame(pl.DataFrame, Y, OTHER)}
    found = silot.adapt(devices, model="logistic", seed=0)
    assert found.columns == OTHER
    expected = found.predict("b", Y[:, [2, 0, 1]]).tolist()
    assert found.predict("b", frame(pl.DataFrame, Y, NAMES, note=["x"] * 31)).tolist() == expected
    short = frame(pl.DataFrame, Y).drop("dose")
    assert_refused(lambda: found.predict("b", short), InputError, "frame-columns", quoting="'dose'")


def test_an_empty_label_of_a_frame_is_no_label_to_an_adaptation() -> None:
    some = [None if k % 3 == 0 else kind for k, kind in enumerate(labels_of(X))]
    marked = silot.Measure(X, labels=[kind or "" for kind in some])
    data = frame(pl.DataFrame, X, kind=some)
    assert adapted(data, Y, "kind") == adapted(marked, Y)


@pytest.mark.heavy
def test_public_records_are_matched_with_the_holders() -> None:
    pytest.importorskip("opendp")
    rng = np.random.default_rng(1)
    many, public = rng.normal(size=(3000, 3)) * SCALE, rng.normal(size=(120, 3)) * SCALE
    much = {"privacy_epsilon": 500.0}
    halves = {"a": frame(pl.DataFrame, many[:1500]), "b": frame(pl.DataFrame, many[1500:], OTHER)}
    found = silot.api.sketches(halves, public=frame(pl.DataFrame, public, OTHER), **much)
    plain = silot.api.sketches({"a": many[:1500], "b": many[1500:]}, public=public, **much)
    # The cells are public, and in the order of the first holder's columns. Both are drawn anew.
    one, two = (each.distance("a", "b").value for each in (found, plain))
    assert one == pytest.approx(two, rel=0.5)
    odd = frame(pl.DataFrame, public).rename({"dose": "Dose"})
    assert_refused(
        lambda: silot.api.sketches(halves, public=odd), MismatchError, "columns-mismatch",
        quoting="public records",
    )  # fmt: skip


# Arrays of other libraries.


def test_tensors_are_read_without_their_gradient() -> None:
    torch = pytest.importorskip("torch")
    points = torch.tensor(X, requires_grad=True)
    weights = torch.arange(1.0, 41.0, requires_grad=True)
    kinds = torch.arange(40) % 3
    found = silot.Measure(points, weights, kinds)
    assert np.array_equal(found.points, X)
    assert found.masses.tolist() == list(range(1, 41))
    assert found.names is not None and set(found.names) == {"0", "1", "2"}
    assert silot.distance(points, torch.tensor(Y)).value == silot.distance(X, Y).value
    half = torch.tensor([[0.5, 3.0]], dtype=torch.bfloat16, requires_grad=True)
    assert silot.Measure(half).points.tolist() == [[0.5, 3.0]]


def test_what_numpy_cannot_read_has_a_code() -> None:
    torch = pytest.importorskip("torch")
    nowhere = torch.zeros((3, 2), device="meta")
    assert_refused(lambda: silot.Measure(nowhere), InputError, "measure-dtype", quoting="Tensor")
    complex_ = torch.zeros((3, 2), dtype=torch.complex64)
    assert_refused(lambda: silot.Measure(complex_), InputError, "measure-dtype")


def test_sparse_data_are_refused_with_what_they_would_take() -> None:
    from scipy import sparse

    rows = sparse.random_array((1000, 500), density=0.01, rng=0)
    for given in (rows.tocsr(), sparse.csc_matrix(rows)):
        with pytest.raises(InputError) as caught:
            silot.distance(given, given)
        assert caught.value.code == "measure-sparse"
        assert "toarray()" in caught.value.message and "0.004 GB" in caught.value.message
    assert silot.Measure(rows.toarray()).size == 1000
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"to_dense\(\)"):
        silot.Measure(torch.eye(3).to_sparse())


def test_holders_with_columns_in_another_order_are_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    one = Measure(rows, columns=("a", "b"))
    other = Measure(rows[:, ::-1], columns=("b", "a"))
    for second in (Holder(other, Policy.open()), other):
        with pytest.raises(MismatchError) as caught:
            LocalFederation({"x": Holder(one, Policy.open()), "y": second})
        assert caught.value.code == "columns-mismatch"
    LocalFederation({"x": Holder(one, Policy.open()), "y": Holder(one, Policy.open())})
