"""What all replies of a holder spend, seen from outside, from the file to the bytes."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_wine

from evidence.common import Array, Context, stream
from evidence.report import Claim, Report, Table, verdict
from silot import Measure, load_measure
from silot.privacy import epsilon_of
from tests.privacy import likelihood
from tests.privacy.likelihood import BLOCKS, Asked
from tests.privacy.neighbours import noiseless, told

SPENDS = Claim(
    "what a holder replies spends no more than the epsilon it says",
    "the promise of the package, not of a paper",
)


_DELTA, _RISK = 1e-5, 0.01
RUNS = (2_000, 20_000)  # as usual, and with --full
_EPSILONS = (1.0, 4.0)
# By name: what a summary has beside the sizes; a sketch is asked as `silot.api.sketches` does.
_KINDS: dict[str, tuple[str, ...]] = {
    "sketch": (), "sizes": (), "features": ("features",), "distance": ("distance",), "all": BLOCKS,
}  # fmt: skip


@dataclass(frozen=True)
class Neighbours:
    """Two files of one kind, that differ in the record which moves their releases most."""

    name: str
    without: Path
    with_: Path
    options: dict[str, str]
    public: Measure


QUICK = {"RUNS": (200,)}


def run(context: Context) -> Report:
    runs = context.size(RUNS)
    rows: list[list[str]] = []
    held: list[bool] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn")) as pool,
    ):
        pairs = _labelled(Path(folder)), _unlabelled(Path(folder))
        cases = product(pairs, _KINDS, _EPSILONS, (runs,))
        for row, is_held in pool.map(_audit, cases):
            rows.append(row)
            held.append(is_held)
            context.say(" | ".join(row))
    columns = ["data", "release", "epsilon", "moved, of the sensitivity", "mu claimed",
               "mu seen, at least", "epsilon of that mu", "epsilon seen directly, at least",
               "held"]  # fmt: skip
    return Report(
        title="Releases, audited from the file to the reply",
        about="A holder is asked, as bytes, all that `silot.api.sketches` asks (a count and a "
        "sketch), and summaries: the sizes alone, with random features, with the distance to a "
        "target, and all of them at once, by class where the data have labels. Holders of two "
        "files that differ in one record answer again and again with a new ledger. Whoever knows "
        "both files and all replies' likelihood ratio tells them apart as well as anybody can; "
        "99 % bounds on hits and false alarms bound from below what was spent.",
        setup=[
            f"{runs:,} releases a side; the threshold is chosen on half of them, and rates are "
            "counted on the other half (Clopper-Pearson).",
            "The record in one file only is far off and of a class of its own: among truth values "
            "and whole numbers a text, so that all other labels of the csv are written alike and "
            "those of a program that types its columns would change their names.",
            f"delta = {_DELTA:g}. Noise has no seed: figures vary.",
        ],
        claims=[SPENDS.judged(f"held in {sum(held)} of {len(held)}", verdict(all(held)))],
        tables=[Table("What was seen, at a confidence of 99 %.", columns, rows)],
    )


def _audit(case: tuple[Neighbours, str, float, int]) -> tuple[list[str], bool]:
    """Audit one kind of release at one epsilon: its row, and whether its claim held."""
    pair, kind, epsilon, runs = case
    measure = load_measure(pair.without, **pair.options)
    if kind == "sketch":
        asked = likelihood.asked_by_sketches(measure, pair.public, epsilon, privacy_delta=_DELTA)
    else:
        asked = likelihood.asked_by_summaries(measure, pair.public, epsilon, _KINDS[kind])
    claimed = likelihood.spent(asked)
    seen = likelihood.audit_files(
        asked, pair.without, pair.with_, pair.options, runs=runs, delta=_DELTA, risk=_RISK
    )
    held = seen.mu <= claimed and seen.epsilon <= epsilon
    return [
        pair.name, kind, f"{epsilon:g}", f"{_moved(pair, asked):.4f}", f"{claimed:.4f}",
        f"{seen.mu:.4f}", f"{epsilon_of(max(seen.mu, 1e-9), _DELTA):.2f}",
        f"{seen.epsilon:.3f}", "yes" if held else "no",
    ], held  # fmt: skip


def _moved(pair: Neighbours, asked: Asked) -> float:
    """Largest movement of an exact vector, in units of its sensitivity."""
    with noiseless():
        sides = [told(file, pair.options, asked) for file in (pair.without, pair.with_)]
    assert sides[0] is not None and sides[1] is not None
    return max(
        float(np.linalg.norm(after - before)) / question.sensitivity
        for question, before, after in zip(asked, *sides, strict=True)
    )


def _halves(points: Array, codes: Array, seed: int) -> tuple[Array, Array, Array, Array]:
    """A holder's records, drawn with replacement and moved a little, and public ones."""
    rng = stream(seed, 131)
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    rows = rng.permutation(len(scaled))
    own, public = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    drawn = rng.choice(own, 400)
    moved = scaled[drawn] + 0.1 * rng.normal(size=(400, scaled.shape[1]))
    return moved, codes[drawn], scaled[public], codes[public]


def _labelled(folder: Path) -> Neighbours:
    points, codes = load_wine(return_X_y=True)
    own, labels, public, classes = _halves(points[:, :4], codes, 1)
    names = ["x0", "x1", "x2", "x3", "y"]
    lines = [
        ",".join([*(repr(float(value)) for value in record), f"{code}.0"])
        for record, code in zip(own, labels, strict=True)
    ]
    for name, more in (("without", []), ("with", ["90,-90,90,90,unknown"])):
        text = "\n".join([",".join(names), *lines, *more])
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return Neighbours(
        "wine, 4 features, 400 records, labelled (csv)",
        folder / "without.csv", folder / "with.csv", {"label_column": "y"},
        Measure(public, labels=classes),
    )  # fmt: skip


def _unlabelled(folder: Path) -> Neighbours:
    points, codes = load_breast_cancer(return_X_y=True)
    own, _, public, _ = _halves(points[:, :6], codes, 2)
    for name, table in (("without", own), ("with", np.vstack([own, np.full(6, 80.0)]))):
        pl.DataFrame(table).write_parquet(folder / f"{name}.parquet")
    return Neighbours(
        "breast cancer, 6 features, 400 records (parquet)",
        folder / "without.parquet", folder / "with.parquet", {}, Measure(public),
    )  # fmt: skip
