"""One result of each kind, of twenty sites whose names and columns have forty characters."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import silot
from silot.distillation import LabelSpace
from silot.estimators import ShiftDetector
from silot.render.shown import Shown
from tests.distillation.test_view import distillation
from tests.render.factory import contents_of, contributions, record_scores
from tests.teaching.test_links_view import network
from tests.teaching.test_view import adaptation

SITES = [f"hospital-of-a-rather-long-name-{k:02d}.exampl" for k in range(20)]
LONG = "pressure_of_the_blood_at_the_first_visit"
COLUMNS = [LONG, "age", "weight", "score of a scale that has a long name ab"]
SCHEMA = {"features": COLUMNS, "label": "class", "classes": ["yes", "no"]}
assert {len(name) for name in [*SITES, LONG, COLUMNS[-1]]} == {40}


def sites(size: int = 30, count: int = len(SITES)) -> dict[str, silot.Measure]:
    """Records of each site; every fifth is of other people."""
    rng = np.random.default_rng(0)
    measures = {}
    for k, name in enumerate(SITES[:count]):
        points = rng.normal(size=(size, len(COLUMNS))) + 3.0 * (k % 5 == 0)
        labels = np.where(points[:, 1] > points[:, 2], "yes", "no")
        measures[name] = silot.Measure(points, labels=labels, columns=COLUMNS)
    return measures


def own() -> silot.Measure:
    points = np.random.default_rng(9).normal(size=(80, len(COLUMNS)))
    labels = np.where(points[:, 1] > points[:, 2], "yes", "no")
    return silot.Measure(points, labels=labels, columns=COLUMNS)


def releases() -> dict[str, silot.Measure]:
    return {name: silot.Measure(np.tile(item.points, (20, 1)), columns=COLUMNS)
            for name, item in sites().items()}  # fmt: skip


def _distance() -> Any:
    x, y = list(sites(count=2).values())
    return replace(silot.distance(x, y, why=True), holders=tuple(SITES[:2]))


def _shift() -> Any:
    rng = np.random.default_rng(0)
    return ShiftDetector().fit(rng.normal(size=(60, 9))).detect(rng.normal(size=(60, 9)) + 1.0)


def _records() -> tuple[Any, ...]:
    scores, truth = record_scores(SITES[0], 600)
    return ([scores, record_scores(SITES[1], 200, seed=1)[0]], {"truth": {SITES[0]: truth}})


def _contents() -> tuple[Any, ...]:
    scores, _ = record_scores(SITES[0], 300, broken=0.3)
    return (
        scores,
        {"contents": {SITES[0]: contents_of(scores, [f"{LONG} {k}" for k in range(300)])}},
    )


def _audit() -> Any:
    run = silot.distance(
        *[item.points for item in sites(count=2).values()], method="fedwad", rounds=2
    )
    return silot.audit(run.transcript)


LABELS = LabelSpace(np.linspace(0, 1, 9)[:, None], [f"{LONG[:38]}_{k}" for k in range(9)])


def shown_kinds() -> list[type[Shown]]:
    """Return every class that people look at, but for the bases of several."""
    for module in pkgutil.walk_packages(silot.__path__, "silot."):
        with contextlib.suppress(ImportError):  # what an extra brings may be missing here
            importlib.import_module(module.name)

    def below(kind: type[Shown]) -> list[type[Shown]]:
        return [each for sub in kind.__subclasses__() for each in (sub, *below(sub))]

    kinds = [kind for kind in below(Shown) if kind.__module__.startswith("silot.")]
    return [kind for kind in kinds if kind.view]


# Results, or results with what a page shows beside them; made when a test first asks for one.
KINDS: dict[str, Callable[[], Any]] = {
    "distance": _distance,
    "matrix": lambda: silot.distance_matrix(sites()),
    "worth": lambda: silot.value_holders(sites(), own(), why=True, shapley=True),
    "worth of few rounds": lambda: contributions(
        SITES, missing={LONG: "policy-level"}, converged=False
    ),
    "records": _records,
    "records with contents": _contents,
    "groups": lambda: silot.cluster(sites(200)),
    "barycenter": lambda: silot.barycenter(sites(), rounds=3, support=6),
    "coreset": lambda: silot.coreset(sites(), 6, rounds=3),
    "adapt": lambda: adaptation(20, names=SITES, missing={LONG: "holder-timeout"}),
    "links": lambda: (network(20, names=SITES)[0], network(20, names=SITES)[1]),
    "train": lambda: silot.train(sites(), rounds=2),
    "distill": lambda: distillation(LABELS, teachers=SITES, excluded={LONG: "prediction-nan"}),
    "releases": lambda: silot.api.sketches(releases(), public=own().points),
    "compare": lambda: silot.compare(sites(60), own()),
    "shift": _shift,
    "audit": _audit,
    "policy": lambda: silot.audits.audit_policy(silot.Policy(), own().points, draws=50),
}


@cache
def kind_of(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a result, what stands beside it, and options of its page."""
    made = KINDS[name]()
    if not isinstance(made, tuple):
        return made, (), {}
    result, *beside = made
    options = beside.pop() if beside and isinstance(beside[-1], dict) else {}
    return result, tuple(beside), options
