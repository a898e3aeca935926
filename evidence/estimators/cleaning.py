"""Cleaning before a classifier: nine tables with wrong labels and broken features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import has_fit_parameter

from evidence.common import Array, Context, Flags, stream
from evidence.fedbary._data import TABLES, Pool, wrong_labels
from evidence.report import Claim, Judged, Report, Table, number, verdict
from silot.estimators import CleanedClassifier, RecordScreener

SEEDS = (5, 10)
TRUSTED, NOISY, TESTED = 100, 300, 600
WRONG, BROKEN = 0.25, 0.1
CLASSIFIERS = {
    "forest": RandomForestClassifier(100, random_state=0),
    "logistic": LogisticRegression(max_iter=500),
    "neighbours": KNeighborsClassifier(5),
}
FITTED_ON = ("all", "cleaned", "trusted", "sound")
REPAIRED = Claim("repaired records are classified better than broken ones", "4 of 5 (a wish)")
ON_KEPT = Claim(
    "cleaning costs .3 points at most, and gains", "9 of 9 tables, and gains on 7 or more"
)


@dataclass(frozen=True)
class Scores:
    """Accuracies (seeds,) on clean records, by classifier and what it was fitted on; and more.

    ``fitted``: by name of the classifier and of ``FITTED_ON``. ``broken, repaired``: of a
    forest fitted on clean records, on records of broken features, and on these repaired.
    ``found, lost``: share of the broken training records left out, and of the sound ones.
    """

    name: str
    fitted: dict[tuple[str, str], Array]
    broken: Array
    repaired: Array
    found: float
    lost: float


QUICK = {"SEEDS": (1,)}


def run(context: Context) -> Report:
    seeds = context.size(SEEDS)
    found: list[Scores] = []
    for index, make in enumerate(TABLES.values()):
        found.append(_measured(make(context), index, seeds))
        context.say(found[-1].name)
    tables = [
        *(_accuracies(name, found) for name in CLASSIFIERS),
        Table.of(
            "What was left out of the training records; and accuracy of a forest fitted on "
            "clean records, on test records half of which are broken, and on these repaired.",
            found,
            {
                "table": lambda each: each.name,
                "broken left out": lambda each: f"{each.found:.0%}",
                "sound left out": lambda each: f"{each.lost:.1%}",
                "test, broken": lambda each: f"{each.broken.mean():.3f}",
                "repaired": lambda each: f"{each.repaired.mean():.3f}",
                "gain": lambda each: _gain(each.repaired, each.broken),
            },
        ),
    ]
    return Report(
        title="Estimators: cleaning before a classifier",
        about="Training records of which some have wrong labels and others broken features; 100 "
        "others are trusted. `silot.estimators.CleanedClassifier` screens the records with the "
        "trusted ones, leaves out those flagged, and fits a classifier on the others, trusted ones "
        "included, weighted by the probability that they are not faulty where it takes weights. "
        "`RecordScreener` as a transformer repairs records to be classified.",
        setup=[
            f"{TRUSTED} trusted and {NOISY} other training records, up to {TESTED} clean records "
            f"to test on; {seeds} draws a table.",
            f"{WRONG:.0%} of the {NOISY} have a wrong label, any other class; {BROKEN:.0%} have a "
            "quarter of their columns replaced by noise of five standard deviations.",
            "All parameters as they are by default: fdr .1; nothing was tuned on these tables.",
            "`all`: no cleaning, trusted records included. `sound`: without exactly the broken "
            "ones, which nobody knows.",
            "Repair: a forest fitted on trusted and other clean records classifies test "
            "records of which half have broken features.",
        ],
        claims=judged(tables),
        tables=tables,
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by gains of every table of data and their standard errors."""
    judged: list[Judged] = []
    for name, table in zip((*CLASSIFIERS, "repaired"), tables, strict=True):
        gains = [[number(part) for part in row[-1].split(" ± ")] for row in table.rows]
        count, better = len(gains), sum(gain > 0 for gain, _ in gains)
        fine = sum(gain >= -0.003 for gain, _ in gains)
        clear = sum(gain > 2 * error for gain, error in gains)
        words = f"gains on {better} of {count}, beyond two standard errors on {clear}"
        claim, holds = REPAIRED, better >= 0.8 * count
        if name in CLASSIFIERS:
            claim, holds = ON_KEPT, fine == count and better >= 7 / 9 * count
            words = f"{name}: {fine} of {count}; {words}"
        judged.append(claim.judged(words, verdict(holds, partly=better > 0.5 * count)))
    return judged


def _measured(pool: Pool, index: int, seeds: int) -> Scores:
    fitted = {(name, on): np.zeros(seeds) for name in CLASSIFIERS for on in FITTED_ON}
    broken, repaired = np.zeros(seeds), np.zeros(seeds)
    found, lost = np.zeros(seeds), np.zeros(seeds)
    for seed in range(seeds):
        rng = stream(211, index, seed)
        room = min(TESTED, len(pool.x) - TRUSTED - NOISY)
        (trusted_x, trusted_y), (x, right), (test_x, test_y) = pool.draw(rng, TRUSTED, NOISY, room)
        y, flipped = wrong_labels(rng, right, WRONG)
        noisy, bad = _broken(rng, x, BROKEN)
        train_x, train_y = np.concatenate([trusted_x, noisy]), np.concatenate([trusted_y, y])
        trusted = np.arange(len(train_x)) < TRUSTED
        sound = np.concatenate([np.ones(TRUSTED, np.bool_), ~(bad | (flipped > 0))])
        # Screened once for all classifiers: records alone decide.
        model = CleanedClassifier(CLASSIFIERS["forest"]).fit(train_x, train_y, trusted=trusted)
        kept, ones = model.kept_, np.ones(len(trusted))
        parts = {
            "all": (kept | True, ones),
            "cleaned": (kept, model.weights_),
            "trusted": (trusted, ones),
            "sound": (sound, ones),
        }
        for (name, on), scores in fitted.items():
            part, weights = parts[on]
            classifier: Any = clone(CLASSIFIERS[name])
            takes = has_fit_parameter(classifier, "sample_weight")
            params = {"sample_weight": weights[part]} if takes else {}
            classifier.fit(train_x[part], train_y[part], **params)
            scores[seed] = classifier.score(test_x, test_y)
        found[seed], lost[seed] = np.mean(~kept[~sound]), np.mean(~kept[sound])
        clean = clone(CLASSIFIERS["forest"]).fit(
            np.concatenate([trusted_x, x]), np.concatenate([trusted_y, right])
        )
        worse, _ = _broken(rng, test_x, 0.5)
        broken[seed] = clean.score(worse, test_y)
        screener = RecordScreener().fit(trusted_x)
        repaired[seed] = clean.score(screener.transform(worse), test_y)
    return Scores(pool.name, fitted, broken, repaired, float(found.mean()), float(lost.mean()))


def _broken(rng: np.random.Generator, x: Array, share: float) -> tuple[Array, Flags]:
    """A share of the records with a quarter of their columns replaced by noise."""
    bad = rng.permutation(len(x)) < round(share * len(x))
    columns = np.argsort(rng.random(x.shape), axis=1) < max(x.shape[1] // 4, 1)
    noise = 5.0 * x.std(axis=0) * rng.standard_normal(x.shape)
    return np.where(bad[:, None] & columns, noise, x), bad


def _gain(one: Array, other: Array) -> str:
    """Mean gain in accuracy over the draws, and its standard error."""
    gains = one - other
    return f"{gains.mean():+.3f} ± {gains.std(ddof=1) / len(gains) ** 0.5:.3f}"


def _accuracies(name: str, found: list[Scores]) -> Table:
    return Table.of(
        f"Accuracy on clean records, classifier `{name}`, by what it was fitted on; the gain of "
        "`cleaned` over `all` with its standard error.",
        found,
        {
            "table": lambda each: each.name,
            **{on: lambda each, on=on: f"{each.fitted[name, on].mean():.3f}" for on in FITTED_ON},
            "gain": lambda each: _gain(each.fitted[name, "cleaned"], each.fitted[name, "all"]),
        },
    )
