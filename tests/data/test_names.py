"""Names that look the same are one: columns, labels and categories, from every source."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import silot
from silot import Measure, Schema
from silot.data.label_names import label_name
from silot.data.loading import column_names, load_identifiers, load_measure
from silot.data.names import canonical, header_names, similar
from silot.data.reading import read_by_schema
from silot.data.site import Site
from silot.errors import FileError, InputError, MismatchError, SilotError
from tests.lazily import package
from tests.problems import SECRET, assert_refused
from tests.tiers import examples

pl = package("polars")

PAIRS = [
    ("M\u00fcller", "Mu\u0308ller"), ("covid-19", "covid\u201319"), ("covid-19", "covid\u221219"),
    ("Crohn's", "Crohn\u2019s"), ("Crohn's", "Crohn`s"), ('say "a"', "say \u201ea\u201c"),
    ("ill", "i\u200bll"), ("ill", "ill\u00ad"), ("ill", "\u202bill\u202c"), ("ill", "\ufeffill"),
    ("A1", "\uff21\uff11"), ("ill", "ill "), ("not ill", "not\u00a0\u2009ill"),
    ("not ill", "not  ill"), ("ok \u2764", "ok \u2764\ufe0f"), ("10\u301c20", "10\uff5e20"),
    ("\uac00", "\u1100\u1161"),
]  # fmt: skip
pairs = pytest.mark.parametrize(("name", "other"), PAIRS)

_DASHES, _QUOTES = "-\u2010\u2011\u2012\u2013\u2014\u2212\uff0d", "'\u2018\u2019\u02bc\u00b4`"
_UNSEEN = ["", "\u200b", "\u00ad", "\u200e", "\u200f", "\u2060", "\ufe0f"]


@st.composite
def respelt(draw: st.DrawFn, name: str) -> str:
    """Return a name as another keyboard, program or system may write it."""
    forms: Any = st.sampled_from(["NFC", "NFD"])
    signs: list[str] = []
    for sign in name:
        if sign in "-'":
            sign = draw(st.sampled_from(_DASHES if sign == "-" else _QUOTES))
        elif sign == " ":
            sign = draw(st.sampled_from([" ", "\u00a0", "  ", "\t", "\u3000"]))
        elif sign.isascii() and draw(st.integers(0, 4)) == 0:
            sign = chr(ord(sign) + 0xFEE0)
        signs.append(sign + draw(st.sampled_from(_UNSEEN)))
    return draw(st.sampled_from(["", " "])) + unicodedata.normalize(draw(forms), "".join(signs))


NAMES = ["M\u00fcller-L\u00fcdenscheid", "age", "covid-19", "Crohn's disease", "\u00e9tat n 3", "x"]
two_spellings = st.sampled_from(NAMES).flatmap(lambda name: st.tuples(respelt(name), respelt(name)))


@given(two_spellings)
def test_spellings_that_look_the_same_are_one_name(both: tuple[str, str]) -> None:
    assert canonical(both[0]) == canonical(both[1]) == canonical(canonical(both[0]))
    assert label_name(both[0]) == label_name(both[1])


@given(st.text())
def test_a_canonical_name_is_its_own(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("stra\u00dfe", "strasse"), ("Ill", "ill"), ("\u0131", "i"), ("\u0130", "I"),
        ("\u00e9", "e"), ("10\u00b3", "103"), ("x\u2082", "x2"), ("\u2460", "1"), ("a", "\u0430"),
        ("a b", "ab"), ("a_b", "a-b"), ("a.b", "a b"), ("1e3", "1000"), ("007", "7"),
    ],
)  # fmt: skip
def test_names_that_look_different_stay_so(name: str, other: str) -> None:
    assert canonical(name) != canonical(other)
    assert label_name(name) != label_name(other)


# Every place that a name comes from. W is exactly 0, or the names were not taken for one.

X = np.random.default_rng(3).normal(size=(30, 2))
Make = Callable[[dict[str, Any], Path], Any]


def as_csv(columns: dict[str, Any], path: Path) -> Any:
    pl.DataFrame(columns).write_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def as_parquet(columns: dict[str, Any], path: Path) -> Any:
    pl.DataFrame(columns).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_pandas(columns: dict[str, Any], _: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns)
    return frame.assign(k=pandas.Categorical(frame["k"])) if "k" in frame else frame


def as_polars(columns: dict[str, Any], _: Path) -> Any:
    frame = pl.DataFrame(columns)
    return frame.with_columns(k=pl.col("k").cast(pl.Categorical)) if "k" in columns else frame


def as_batch(columns: dict[str, Any], _: Path) -> Any:
    return pytest.importorskip("pyarrow").record_batch(
        {k: np.asarray(v) for k, v in columns.items()}
    )


makers = pytest.mark.parametrize("make", [as_csv, as_parquet, as_pandas, as_polars, as_batch])


def read(data: Any, labels: str | None = None, columns: list[str] | None = None) -> Measure:
    if isinstance(data, Path):
        return load_measure(data, label_column=labels, columns=columns)
    return Measure(data, labels=labels, columns=columns)


@pytest.mark.parametrize("make", [as_csv, as_pandas, as_polars, as_batch])
@pytest.mark.heavy
@settings(max_examples=examples(10))
@given(both=two_spellings)
def test_columns_are_one_whoever_writes_them(
    make: Make, both: tuple[str, str], tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("names")
    one = read(make({both[0]: X[:, 0], "dose": X[:, 1]}, folder / "a"))
    two = read(make({"dose": X[:, 1], both[1]: X[:, 0]}, folder / "b"))
    assert silot.distance(one, two, permutations=19).value == 0.0
    chosen = read(make({both[0]: X[:, 0], "dose": X[:, 1]}, folder / "c"), columns=[both[1]])
    assert chosen.columns == (canonical(both[0]),)


@makers
@pairs
def test_labels_are_one_without_a_schema(make: Make, name: str, other: str, tmp_path: Path) -> None:
    measures: list[Measure] = []
    for place, label in enumerate((name, other)):
        columns = {"-\u2013"[place]: X[:, 0], "k": [label, "well"] * 15}
        measures.append(read(make(columns, tmp_path / f"{place}"), labels="k "))
    assert measures[0].names is not None and measures[1].names is not None
    assert measures[0].names.tolist() == measures[1].names.tolist()
    result = silot.distance(*measures, labels=True, permutations=19)
    # The status says so where a class is of one side alone.
    assert result.value == 0.0 and "class" not in result.status


@pairs
def test_labels_of_an_npz_are_one(name: str, other: str, tmp_path: Path) -> None:
    for place, label in enumerate((name, other)):
        np.savez(tmp_path / f"{place}.npz", X=X, y=[label, "well"] * 15)
    one, two = (load_measure(tmp_path / f"{place}.npz").names for place in (0, 1))
    assert one is not None and two is not None and one.tolist() == two.tolist()


@pairs
def test_a_schema_and_a_site_file_are_read_by_the_same_rule(
    name: str, other: str, tmp_path: Path
) -> None:
    """Columns, categories, classes, codes and sentinels, each written in another way there."""

    def schema(text: str) -> Schema:
        path = tmp_path / "schema.yml"
        columns = (
            f"{quoted(text)}: {{kind: number, range: [0, 9], sentinels: [{quoted(text)}]}}, "
            f"dx: {{kind: category, categories: [{quoted(text)}, well]}}"
        )
        label = f"{{column: {quoted('L' + text)}, classes: [{quoted(text)}, well]}}"
        path.write_text(f"silot: schema\ncolumns: {{{columns}}}\nlabel: {label}\n")
        return Schema.load(path)

    assert schema(name).hash == schema(other).hash
    columns = {name: ["1", "2", "3"], "dx": [name, "well", name], "L" + name: [name, "well", name]}
    truth = schema(name).measure(pl.DataFrame(columns))
    assert np.array_equal(schema(other).measure(pl.DataFrame(columns)).points, truth.points)
    site = tmp_path / "site.yml"
    entry = f"{{from: {quoted('F' + other)}, codes: {{{quoted('C' + other)}: {quoted(other)}}}}}"
    site.write_text(f"columns: {{dx: {entry}}}\n")
    columns["F" + name] = ["C" + name, "well", "C" + name]
    coded = {text: values for text, values in columns.items() if text != "dx"}
    pl.DataFrame(coded).write_csv(tmp_path / "t.csv")
    read = read_by_schema(tmp_path / "t.csv", schema(other), Site.load(site)).measure
    assert np.array_equal(read.points, truth.points)
    assert silot.distance(read, truth, labels=True, permutations=19).value == 0.0


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_identifiers_and_columns_of_arrays_are_called_by_the_same_rule(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("p\u2013id,a\nx,1\ny,2\n")
    assert load_identifiers(tmp_path / "t.csv", "p-id") == ["x", "y"]
    assert column_names(tmp_path / "t.csv") == ["p-id", "a"]
    one, two = Measure(X, columns=["a\u00a0b", "c"]), Measure(X[:, ::-1], columns=["c", "a b"])
    assert silot.distance(one, two, permutations=19).value == 0.0


# Refusals.


@makers
def test_two_columns_that_look_the_same_are_refused_with_their_code_points(
    make: Make, tmp_path: Path
) -> None:
    data = make({"a\u2013b": [1.0], "c": [2.0], "a-b": [SECRET]}, tmp_path / "t")
    with pytest.raises(SilotError, match=r"no\. 1 and 3 .*\(U\+2013 against U\+002D\)") as caught:
        read(data)
    assert caught.value.code in ("frame-columns", "file-columns")


@pytest.mark.parametrize("kind", [Schema, Site])
def test_a_document_does_not_name_a_column_twice(kind: Any) -> None:
    entry = {"kind": "yes/no"} if kind is Schema else {"unit": "kg"}
    with pytest.raises(InputError, match=r"no\. 1 and 2 .*U\+0308") as caught:
        kind.of({"columns": {"Mu\u0308ller": entry, "M\u00fcller": entry}})
    assert caught.value.code == kind.wrong


def test_two_codes_of_a_site_that_look_the_same_are_refused() -> None:
    with pytest.raises(InputError, match="two of the codes are the same"):
        Site.of({"columns": {"dx": {"codes": {"a\u2013": "x", "a-": "y"}}}})


@pytest.mark.parametrize(
    ("name", "present", "hint"),
    [
        ("age", "Age", "'Age'"), ("body mass", "body_mass", "'body_mass'"),
        ("gr\u00f6\u00dfe", "GR\u00d6SSE", "'GR\u00d6SSE'"), ("x2", "x\u00b2", "'x\u00b2'"),
        ("\u0430ge", "age", "'age' (U+0061 against U+0430)"), ("age", "edge", ""),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_there_is_shown(name: str, present: str, hint: str) -> None:
    assert similar(name, ["dose", present]) == hint
    frame = pl.DataFrame({"dose": [1.0], present: [2.0]})
    text = f"there is {hint}: write it so" if hint else "there is 'dose', 'edge'."
    assert_refused(lambda: Measure(frame, labels=name), InputError, "frame-columns", quoting=text)
    schema = Schema.of({"columns": {name: {"kind": "number", "range": [0, 9]}}})
    text = f"{name!r} (there is {hint})" if hint else f"{name!r}. Say"
    assert_refused(lambda: schema.measure(frame), InputError, "schema-columns", quoting=text)
    if hint:
        two = Measure([[1.0]], columns=[name]), Measure([[1.0]], columns=[present])
        with pytest.raises(MismatchError, match="looks like one of them"):
            silot.distance(*two)


def test_the_names_of_a_table_that_may_be_values_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"Smith,Jones {SECRET}\nx,y\n")
    assert_refused(
        lambda: load_measure(tmp_path / "t.csv", label_column="smith"),
        FileError, "file-columns", quoting="no. 1, no. 2",
    )  # fmt: skip


def test_columns_are_numbered_from_one_and_texts() -> None:
    assert header_names([0, ("a", "b"), None, "x "]) == ["0", "('a', 'b')", "None", "x"]
    with pytest.raises(FileError, match=r"no\. 2 and 4 have one name\."):
        header_names(["a", "b", "c", "b"])
