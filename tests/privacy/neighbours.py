"""Random neighbouring files, and how far a release of one is from a release of the other.

Two files are neighbours when one has a record that the other has not. The program that writes
them chooses the types of their columns as such programs do: from all the records.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silot import Policy, load_measure
from silot.data.measure import label_name
from silot.distances.questions import encode_classes
from silot.distances.sketches.questions import (
    CountRecords,
    SketchPeriod,
    SketchRecords,
    SketchTree,
    SummarizeRecords,
)
from silot.errors import SilotError
from silot.federation import Answer, Failure, Holder
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.federation.release import Release
from silot.privacy import Ledger, mechanism
from silot.records.counted import Bins
from silot.records.questions.suspects import CountSuspects
from silot.records.screen import Screen
from tests.lazily import package

pl = package("polars")

POLICY = Policy(privacy_epsilon=50.0)
MU = 0.01

# Labels of one column by the way they are written; a record of another way changes its type.
WAYS: dict[str, Sequence[Any]] = {
    "small": [0, 1, 2, 3],
    "whole": [-5, 7, 2**53, 2**53 + 1, 2**62 + 1],
    "float": [0.0, 1.0, -0.0, 3.0],
    "fraction": [0.5, 2.5, 0.1, 1e-5, 1e300],
    "single": [np.float32(0.1), np.float32(2.0), np.float32(16_777_218.0)],
    "half": [np.float16(2.0), np.float16(1000.0), np.float16(1001.0)],
    "short": [np.int8(1), np.uint8(200), np.int64(3)],
    "truth": [True, False],
    "text": ["a", "b", "unknown", "other"],
    "number": ["1", "2", "1.0", "2.5", "1e3", "1e+03", "007", "0x1", "-1", "+1", "1,5", "250.00"],
    "odd": ['5" x', "a,b", "a\nb", "a\r\nb", '"', "'", " 1", "1 ", "\u00e9", "e\u0301", "x" * 40],
    "word": ["true", "False", "TRUE", "nan", "None", "inf", "2020-01-01"],
    "missing": ["", "NA", "null", None, float("nan")],
    "bytes": [b"1", b"a", b"\xff"],
    "day": [datetime.date(2020, 1, 1), datetime.date(2021, 5, 6)],
    "decimal": [Decimal("1.00"), Decimal("2.50"), Decimal("3")],
}
NUMBERS: dict[str, Sequence[Any]] = {
    "small": [0, 1, 2, -1],
    "whole": [2**53 + 1, -(2**60) - 3, 10, 2**63 - 1],
    "float": [0.0, -0.0, 0.1, 1e-300, -3.75, 1e149],
    "single": [np.float32(0.1), np.float32(3e38), np.float32(-1.5)],
    "half": [np.float16(0.1), np.float16(65504)],
    "truth": [True, False],
    "short": [np.int8(-3), np.uint8(255), np.uint64(2**63 + 11)],
    "decimal": [Decimal("1.10"), Decimal("0.00001"), Decimal("12345678901234567.8")],
}
# As a hand writes them in a csv; the last are no numbers, and such a file is not loaded.
WRITTEN = ["1", "1.0", " 2", "+3", "1e3", ".5", "5.", "true", "FALSE", "0.1", "1e-300",
           "9007199254740993", "1_0", "1,5", "x", "", "NA", "inf"]  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A file, its neighbours that lack one of its records each, and what is public about them.

    ``alone`` holds the record that each neighbour lacks, where it is to be read alone too.
    """

    whole: Path
    without: tuple[Path, ...]
    alone: tuple[Path | None, ...]
    options: dict[str, Any]
    dimension: int
    labelled: bool
    classes: tuple[str, ...]
    mass_limit: float
    kind: str


@dataclass(frozen=True)
class Style:
    """How a program writes tables: ``typed`` by columns first, in a csv too, or categories."""

    quoting: int
    typed: bool


@dataclass(frozen=True)
class Movement:
    """How far a release moved, in units of its sensitivity, and whether that is one record's.

    ``additive``: the difference is what the record alone gives, in a file of its own.
    """

    release: str
    ratio: float
    additive: bool


def draw(rng: np.random.Generator, folder: Path, alone: float = 1.0) -> Drawn:
    """A random file and all its neighbours with one record less.

    ``alone`` is the share of records that are put into files of their own too.
    """
    kind = str(rng.choice(["csv", "csv.gz", "parquet", "npz"], p=[0.4, 0.1, 0.25, 0.25]))
    n, d = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    labelled, weighted = bool(rng.random() < 0.75), bool(rng.random() < 0.4)
    columns = [_column(rng, NUMBERS, n, kind) for _ in range(d)]
    weights = [abs(w) for w in _column(rng, NUMBERS, n, kind)] if weighted else None
    if weights and rng.random() < 0.8:
        weights = rng.choice([1.0, 0.5, 3.0, 0.0, 1e-12], n + 1).tolist()
    labels = _column(rng, WAYS, n, kind) if labelled else None
    if kind.startswith("csv") and rng.random() < 0.3:
        place = int(rng.integers(d))
        some = rng.choice(WRITTEN[: rng.choice([12, len(WRITTEN)])], n + 1)
        columns[place] = [str(text) for text in some]
    options: dict[str, Any] = {}
    if kind != "npz":
        options |= {"label_column": "y"} if labelled else {}
        options |= {"weight_column": "w"} if weights else {}
        options |= {"missing_label": "none"} if labelled and rng.random() < 0.5 else {}
    # One program writes both: it puts what it likes in quotes, and may type columns first.
    style = Style(
        int(rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])),
        bool(rng.random() < 0.5),
    )
    parts = [*columns, *([weights] if weights else []), *([labels] if labels else [])]
    heads = [*(f"x{k}" for k in range(d)), *(["w"] if weights else []),
             *(["y"] if labelled else [])]  # fmt: skip

    def written(name: str, kept: Sequence[int]) -> Path:
        table = {head: [part[k] for k in kept] for head, part in zip(heads, parts, strict=True)}
        return _write(folder / f"{name}.{kind}", table, style)

    rows = range(n + 1)
    return Drawn(
        written("whole", rows),
        tuple(written(f"without{extra}", [k for k in rows if k != extra]) for extra in rows),
        tuple(written(f"alone{k}", [k]) if rng.random() < alone else None for k in rows),
        options, d, labelled, _classes(rng, labels or []), float(rng.choice([0.0, 1.0, 2.5])), kind,
    )  # fmt: skip


def _column(
    rng: np.random.Generator, ways: dict[str, Sequence[Any]], n: int, kind: str
) -> list[Any]:
    names = [name for name in ways if kind.startswith("csv") or name != "bytes"]
    first, other = (ways[str(name)] for name in rng.choice(names, 2))
    column = [first[int(k)] for k in rng.integers(len(first), size=n + 1)]
    if rng.random() < 0.35:
        # Anywhere: it may be the record the files differ in, or stand in both.
        column[int(rng.integers(n + 1))] = other[int(rng.integers(len(other)))]
    return column


def _classes(rng: np.random.Generator, labels: Sequence[Any]) -> tuple[str, ...]:
    names = {"0", "1", "a", "1.0", "True"}
    for label in labels:
        try:
            names.add(label_name(label))
        except SilotError:
            continue
    known = sorted(names)
    return tuple(str(name) for name in rng.permutation(known)[: int(rng.integers(1, 6))])


def _write(path: Path, columns: dict[str, list[Any]], style: Style) -> Path:
    if path.suffix == ".npz":
        # As numpy makes an array of a list; what is an object then cannot be loaded.
        arrays = {name: np.array(column) for name, column in columns.items()}
        points = np.array([columns[name] for name in columns if name.startswith("x")]).T
        stored = {"X": points} | {k: v for k, v in arrays.items() if k in ("y", "w")}
        np.savez(path, **stored)
    elif path.suffix == ".parquet":
        frame = {name: _series(column) for name, column in columns.items()}
        if style.typed and "y" in frame and frame["y"].dtype == pl.String:
            frame["y"] = frame["y"].cast(pl.Categorical)
        pl.DataFrame(frame).write_parquet(path)
    else:
        text = io.StringIO()
        writer = csv.writer(text, quoting=style.quoting)  # type: ignore[arg-type]
        writer.writerow(columns)
        parts = [_typed(column) if style.typed else column for column in columns.values()]
        writer.writerows(zip(*parts, strict=True))
        data = text.getvalue().encode()
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def _typed(column: list[Any]) -> list[Any]:
    """Values as numpy makes them of one type, where that keeps what each of them says."""
    plain = all(
        isinstance(value, bool | str) or (type(value) in (int, float) and abs(value) < 2**53)
        for value in column
    )
    return np.array(column).tolist() if plain else column


def _series(column: Sequence[Any]) -> pl.Series:
    types = {type(value) for value in column}
    if len(types) == 1 and issubclass(types.copy().pop(), np.generic):
        return pl.Series(np.array(column))
    plain = [value.item() if isinstance(value, np.generic) else value for value in column]
    return pl.Series(plain, strict=False)


def _length(rng: np.random.Generator) -> float:
    """A public length: an ordinary one, or one beyond what is allowed on either side."""
    return float(10.0 ** (rng.integers(-3, 4) if rng.random() < 0.6 else rng.uniform(-200, 200)))


def questions(rng: np.random.Generator, pair: Drawn) -> Iterator[Release]:
    """One question of every kind, about files and their neighbours."""
    scale = _length(rng)
    common: dict[str, Any] = {
        "privacy_mu": MU, "mass_limit": pair.mass_limit,
        "resolution": int(rng.choice([16, 1024, 1 << 20])),
    }  # fmt: skip
    yield CountRecords(**common)
    cells = {"centres": _length(rng) * rng.normal(size=(3, pair.dimension)), "radius": scale,
             "radius2": 2 * scale if rng.random() < 0.7 else _length(rng)}  # fmt: skip
    yield SketchRecords(**common, **cells)
    yield SketchPeriod(**common, **cells, period="2026-10")
    if pair.labelled:
        yield SketchRecords(**common, **cells, classes=encode_classes(list(pair.classes)))
    yield from summaries(rng, pair.dimension, pair.classes if pair.labelled else (), **common)
    yield suspects_of(pair.dimension, (), **common)
    if pair.labelled:
        yield suspects_of(pair.dimension, pair.classes, **common)
    if pair.dimension == 2:
        corner = np.full(2, scale)
        yield SketchTree(**common, low=-corner, high=corner, depth=2)


def summaries(
    rng: np.random.Generator, dimension: int, classes: Sequence[str], **common: Any
) -> Iterator[SummarizeRecords]:
    """Summaries of every kind: sizes, features, and a target with and without classes."""
    scale = _length(rng)
    named = encode_classes(list(classes)) if classes else ""
    waves = {"features": 6, "bandwidth": _length(rng), "draw": int(rng.integers(100)),
             "scale": rng.uniform(0.1, 3.0, dimension) * _length(rng)}  # fmt: skip
    target = {
        "target": scale * rng.normal(size=(5, dimension)),
        "target_weights": rng.dirichlet(np.ones(5)) * [1, 1, 1, 1, _length(rng) * _length(rng)],
        "reaches": scale * np.array([0.5, 4.0]), "p": int(rng.integers(1, 3)),
    }  # fmt: skip
    shares = rng.dirichlet(np.ones(4)) + 0.02
    yield SummarizeRecords(**common, classes=named)
    yield SummarizeRecords(**common, **waves, shares=shares[:2])
    yield SummarizeRecords(**common, **target, shares=shares)
    if classes:
        size = len(classes)
        table = _length(rng) * rng.random((size, size))
        yield SummarizeRecords(
            **common, **waves, **target, classes=named, shares=shares,
            table=(table + table.T) * (1.0 - np.eye(size)),
            target_codes=rng.integers(size, size=5),
        )  # fmt: skip


@cache
def _screen(dimension: int, classes: int) -> Screen:
    rng = np.random.default_rng([dimension, classes])
    codes = np.arange(60) % max(classes, 1)
    points = rng.normal(size=(60, dimension)) + codes[:, None]
    return Screen.fit(points, np.full(60, 1 / 60), codes if classes else None, classes, 0)[0]


def suspects_of(dimension: int, classes: Sequence[str], **common: Any) -> CountSuspects:
    """How many records are suspect, by models of public records; of one class labels are not."""
    screen = _screen(dimension, len(classes) if len(classes) > 1 else 0)
    return CountSuspects.of(
        screen,
        encode_classes(list(classes)) if screen.classes else "",
        feature_edges=Bins.of_features(screen).edges,
        label_edges=Bins.of_labels(screen).edges if screen.classes else np.zeros(0),
        **common,
    )


class _NoNoise:
    """What adds noise, adding none; the account of the budget stays as it is."""

    def map(self, distance: float) -> float:
        return 0.0

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return values


@contextmanager
def noiseless() -> Iterator[None]:
    """Holders reply without noise: for tests of what is before the noise, of the whole path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "_gaussian", lambda scale: _NoNoise())
        yield


def barred(question: Release) -> bool:
    """Whether the public fields of a question are out of range: no holder looks at records then."""
    try:
        return not question.sensitivity > 0
    except SilotError:
        return True


def told(file: Path, options: dict[str, Any], asked: Sequence[Release]) -> list[np.ndarray] | None:
    """What a holder of a file replies, as bytes, or ``None``: the file cannot be loaded.

    What is barred has no vector in the list, and every holder must refuse it.
    """
    try:
        holder = Holder(load_measure(file, **options), POLICY, Ledger())
    except SilotError:
        return None
    found: list[np.ndarray] = []
    for question in asked:
        answer = decode_reply(holder.reply(encode_question(question)))
        if barred(question):
            assert isinstance(answer, Failure) and answer.code == "question-fields", answer
            continue
        assert isinstance(answer, Answer), answer
        (vector,) = answer.arrays.values()
        found.append(vector)
    return found


def movements(rng: np.random.Generator, folder: Path, alone: float = 1.0) -> list[list[Movement]]:
    """Movements of every release, for each pair of neighbours of which both were loaded."""
    try:
        drawn = draw(rng, folder, alone)
    except pl.exceptions.ComputeError:
        return []  # polars does not write a column of such different objects
    asked = list(questions(rng, drawn))
    whole = told(drawn.whole, drawn.options, asked)
    moved: list[list[Movement]] = []
    for file, single in zip(drawn.without, drawn.alone, strict=True):
        other = None if whole is None else told(file, drawn.options, asked)
        if whole is None or other is None:
            continue
        own = None if single is None else told(single, drawn.options, asked)
        moved.append([])
        for place, question in enumerate(one for one in asked if not barred(one)):
            apart = whole[place] - other[place]
            ratio = float(np.linalg.norm(apart.astype(float))) / question.sensitivity
            # Where a record is transported to depends on the others: those releases do not add up.
            together = isinstance(question, SummarizeRecords) and question.target.size > 0
            same = own is None or together or bool(np.array_equal(apart, own[place]))
            moved[-1].append(Movement(f"{drawn.kind} {question.kind}", ratio, same))
    return moved
