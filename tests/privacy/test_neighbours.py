"""No record of a file decides how the others are read, and none moves a release by more than 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import Measure, load_measure
from silot.data.tables import Table
from tests.lazily import package

from .neighbours import Movement, movements, noiseless

pl = package("polars")

pytestmark = pytest.mark.all_cases


def moved(folder: Path, files: range) -> Iterator[list[Movement]]:
    with noiseless():
        for k in files:
            yield from movements(np.random.default_rng([k, 0]), folder, alone=0.5)


def wrong(found: Iterable[list[Movement]]) -> list[Movement]:
    return [one for each in found for one in each if one.ratio > 1.0 or not one.additive]


@pytest.mark.slow
def test_one_record_of_a_file_moves_a_release_by_at_most_its_sensitivity(tmp_path: Path) -> None:
    found = list(moved(tmp_path, range(120)))
    assert wrong(found) == []
    # The property is no idle one: most files are loaded, of every kind, and some record is worst.
    assert len(found) >= 300
    kinds = Counter(one.release for each in found for one in each)
    assert min(kinds.values()) >= 5 and len(kinds) == 6 * 4
    assert max(one.ratio for each in found for one in each) > 0.999


# Planted bugs


def typed_by_the_column(self: Table, name: str) -> list[Any]:
    """Labels of a csv are numbers where all of them are."""
    fields = list(self.columns[name])
    try:
        return [float(value) for value in fields]
    except (TypeError, ValueError):
        return fields


def columns_of_numbers(self: Table, name: str) -> np.ndarray:
    """Features are truth values where all of them are."""
    found = real_numbers(self, name)
    return found if set(found) <= {0.0, 1.0} else found + (found == 1.0)


def relative_masses(points: Any, weights: Any, *others: Any, **options: Any) -> Measure:
    """Masses in units of the largest."""
    relative = None if weights is None else weights / max(weights.max(), 1e-9)
    return Measure(points, relative, *others, **options)


real_numbers = Table.numbers


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("silot.data.tables.Table.values", typed_by_the_column),
        ("silot.data.tables.Table.numbers", columns_of_numbers),
        ("silot.data.loading.Measure", relative_masses),
    ],
)
def test_planted_bugs_in_reading_are_caught(
    place: str, bug: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, bug)
    assert any(wrong([pair]) for pair in moved(tmp_path, range(300)))


# Single cases


@pytest.mark.parametrize(
    "other",
    ["unknown", "2.5", "A1", "true", "1e3", "-0.0", '"a,b"', '"5"" x"', "2020-01-01", "x y"],
)
@pytest.mark.parametrize(
    "labels", [("007", "012"), ("1.0", "2.0"), ("1", "2"), ("true", "false"), ("0x1", "1e3")]
)
def test_the_labels_of_a_csv_are_called_what_they_are_called_without_the_last(
    labels: tuple[str, str], other: str, tmp_path: Path
) -> None:
    lines = [f"{k},{label}" for k, label in enumerate(labels * 5)]
    names = []
    for more in ([], [f"99,{other}"]):
        (tmp_path / "site.csv").write_text("\n".join(["x,y", *lines, *more]))
        found = load_measure(tmp_path / "site.csv", label_column="y").names
        assert found is not None
        names.append(found[:10].tolist())
    assert names[0] == names[1]


def test_a_quote_that_stays_open_swallows_no_other_record(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    path.write_text('x,y\n1,5" pipe\n2,b\n3,6" pipe\n')
    found = load_measure(path, label_column="y")
    assert found.points.tolist() == [[1.0], [2.0], [3.0]]
    assert found.labels is not None and found.labels.tolist() == ['5" pipe', "b", '6" pipe']
    for text in ('x,y\n1,"a\n2,b\n', 'x,y\n1,"a"b\n2,c\n'):
        path.write_text(text)
        with pytest.raises(Exception, match="a quote is not closed"):
            load_measure(path, label_column="y")


@pytest.mark.parametrize(
    "value", [1e-5, 1e-7, 1.5e-12, 0.1, -2.5e-4, 123456.5, 3.0, 4.5e15, 1e-300]
)
def test_polars_writes_fractions_in_a_way_of_its_own_and_means_the_same(
    value: float, tmp_path: Path
) -> None:
    names = []
    for more in ([], ["unknown"]):
        # Other names than Python's: 0.00001 for 1e-05.
        labels = pl.Series([value, *more], strict=False)
        pl.DataFrame({"x": np.arange(1.0 + len(more)), "y": labels}).write_parquet(
            tmp_path / "site.parquet"
        )
        found = load_measure(tmp_path / "site.parquet", label_column="y").names
        assert found is not None
        names.append(str(found[0]))
    assert names[0] == names[1]
