"""Broken records counted with noise and found by their holder, beside screening without privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import roc_auc_score

import silot
from evidence.common import Context, Flags, stream
from evidence.report import Claim, Judged, Report, Table, number, pick, verdict
from silot import Measure
from silot.records.result import RecordScores

SHARE = 0.15
# Epsilon of the validation data and of the holder; without the former public records are taken as
# they are.
BUDGETS = ((None, None), (1.0, 1.0), (4.0, 4.0), (None, 4.0))
SEEDS = (3, 10)  # as usual, and with --full
# Columns.
WHERE = ("data", "public distribution")
AUC, ERRORS = ("AUC labels", "AUC features"), ("error labels", "error features")


@dataclass(frozen=True)
class Case:
    """Public records, validation data, and a holder whose broken records are known."""

    public: Measure
    validation: Measure
    holder: Measure
    wrong: Flags
    noisy: Flags


QUICK = {"SEEDS": (1,), "BUDGETS": BUDGETS[:2]}


def run(context: Context) -> Report:
    seeds = context.size(SEEDS)
    rows: list[list[str]] = []
    for data, shares in product(("digits", "clusters"), ("the same", "other shares")):
        cases = [_case(data, shares != "the same", seed) for seed in range(seeds)]
        # AUC, error and whether intervals hold, each of labels and of features.
        found = {
            budget: np.mean([_outcome(case, *budget) for case in cases], axis=0)
            for budget in BUDGETS
        }
        for (sketched, epsilon), (auc, error, held) in found.items():
            rows.append([
                data, shares, "none" if epsilon is None else f"{epsilon:g}",
                "no" if sketched is None and epsilon is not None else "yes",
                *(f"{one:.3f}" for one in auc), *(f"{100 * one:.0f} %" for one in [*error, *held]),
            ])  # fmt: skip
            context.say(" | ".join(rows[-1]))
    table = Table(
        "Errors are means of |estimate / truth - 1|; held: intervals with the truth.",
        [*WHERE, "epsilon", "validation data", *AUC, *ERRORS, "held labels", "held features"],
        rows,
    )
    return Report(
        title="Broken records, counted with noise",
        about="`silot.count_broken`: models of public records, weighted by a private sketch of the "
        "validation data. AUC is of the scores a holder has of its own records; shares are what "
        "the coordinator estimates from noisy counts. Epsilon `none` is `silot.value_records`: "
        "models of the validation records themselves, and every record scored before the "
        "coordinator's eyes.",
        setup=[
            f"{100 * SHARE:.0f} % of a holder's records have a wrong label, and as many, drawn "
            "apart, noise of one standard deviation in every column.",
            "digits: 590 public, validation and holder's records, 64 features, 10 classes. "
            "clusters: 1000 of each, 8 features, 3 classes.",
            "the same: all three with the same distribution. other shares: half of the classes are "
            "four times as likely to be drawn among public records.",
            "validation data `no`: public records are trusted as they are, and not weighted.",
            f"delta = 1e-5; means of {seeds} draws. Noise has no seed, so figures vary a little.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge rows whose validation data are sketched, beside those without privacy."""
    rows = pick(tables, *WHERE, *AUC, *ERRORS)
    open_rows = {tuple(row[k] for k in WHERE): row for row in rows if row["epsilon"] == "none"}
    sketched = [row for row in rows if row["epsilon"] != "none" and row["validation data"] == "yes"]
    lost = max(
        number(open_rows[tuple(row[k] for k in WHERE)][auc]) - number(row[auc])
        for row in sketched for auc in AUC
    )  # fmt: skip
    off = max(number(row[error]) for row in sketched for error in ERRORS)
    return [
        Claim("AUC lost beside screening without privacy", "at most .02").judged(
            f"at most {lost:.3f}",
            verdict(lost <= 0.02, partly=lost <= 0.04),
            "The promise of the package, not of a paper.",
        ),
        Claim(
            "sketched validation data: mean relative error of the number of broken", "at most 30 %"
        ).judged(
            f"at most {off:.0f} %",
            verdict(off <= 30, partly=off <= 50),
            "Broken features make labels seem wrong too, with privacy and without.",
        ),
    ]


def _case(table: str, shifted: bool, seed: int) -> Case:
    rng = stream(61, len(table), seed)
    if table == "digits":
        points, labels = load_digits(return_X_y=True)
        size = 590
    else:
        points, labels = make_classification(
            4000, 8, n_informative=6, n_redundant=1, n_classes=3, class_sep=1.5, random_state=seed
        )
        size = 1000
    points = (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-9)
    odds = np.where(labels < (labels.max() + 1) / 2, 4.0 if shifted else 1.0, 1.0)
    public = rng.choice(len(points), size, replace=False, p=odds / odds.sum())
    rest = rng.permutation(np.setdiff1d(np.arange(len(points)), public))
    trusted, own = rest[:size], rest[size : 2 * size]
    x, y = points[own].copy(), labels[own].copy()
    wrong, noisy = (_some(rng, len(own)) for _ in range(2))
    classes = int(labels.max()) + 1
    y[wrong] = (y[wrong] + rng.integers(1, classes, int(wrong.sum()))) % classes
    x[noisy] += rng.normal(size=x[noisy].shape) * points.std(axis=0)
    others = [Measure(points[rows], labels=labels[rows]) for rows in (public, trusted)]
    return Case(*others, Measure(x, labels=y), wrong, noisy)


def _some(rng: np.random.Generator, size: int) -> Flags:
    found = np.zeros(size, dtype=bool)
    found[rng.choice(size, round(SHARE * size), replace=False)] = True
    return found


def _outcome(case: Case, sketched: float | None, epsilon: float | None) -> list[list[float]]:
    """AUC, relative error of the count and whether its interval holds, of labels and features."""
    scores: RecordScores
    if epsilon is None:
        scores = silot.value_records(case.holder, case.validation, labels=True)
        broken = scores.parts.broken
    else:
        counted = silot.count_broken(
            {"holder": case.holder}, None if sketched is None else case.validation,
            public=case.public, labels=True, privacy_epsilon=epsilon,
        )  # fmt: skip
        scores, broken = counted.screen(case.holder), counted.holders["holder"].broken
    kinds = (
        (broken["label"], scores.parts.labels, case.wrong),
        (broken["features"], scores.parts.features, case.noisy),
    )
    return [
        [float(roc_auc_score(truth, each)) for _, each, truth in kinds],
        [abs(one.value / truth.sum() - 1.0) for one, _, truth in kinds],
        [float(one.low <= truth.sum() <= one.high) for one, _, truth in kinds],
    ]
