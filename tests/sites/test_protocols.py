"""Every protocol over sites and over holders in this process: the same messages and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.distances.methods import list_comparisons
from silot.distances.pooled import Pooled
from silot.distances.sketches.sketch import Sketching
from silot.distillation import Teacher
from silot.federation import Holder, LocalFederation
from silot.federation import party as module
from silot.federation.question import decode_question, question_kinds
from silot.federation.run import Clock, Progress, Reply, Runtime, run
from silot.privacy import Ledger
from silot.sites.connection import Sites
from silot.sites.endpoint import Endpoint
from silot.sites.teacher import TeachingHolder
from silot.teaching.divergences import DIVERGENCES, divergences

from .project import ASKER, asker, carry, sites

NAMES = ("north", "south", "west")
RECORD = Policy(level="record", privacy_epsilon=50.0)


def cloud(
    place: int, count: int, *, width: int = 3, weighted: bool = False, labels: int = 1 << 30
) -> Measure:
    """Records of two classes, those after so many without a label."""
    rng = np.random.default_rng(place)
    points = rng.normal(size=(count, width)) + 0.2 * place
    names = np.where(points[:, 0] > 0.2 * place, "sick", "well")
    names[labels:] = ""
    weights = rng.uniform(0.5, 2.0, count) if weighted else None
    return Measure(points, labels=names, weights=weights)


PUBLIC, MINE = cloud(7, 150), cloud(8, 150)


@dataclass(frozen=True)
class Case:
    """A public computation, the kinds of questions it asks, and of what data."""

    run: Callable[[Any], Any]
    kinds: str
    rules: Policy = RECORD
    width: int = 3
    weighted: bool = False
    labels: int = 1 << 30
    needs: str = "numpy"

    def party(self, place: int, ledger: Path) -> Holder:
        """As the process of a site makes it; the first has labels of all its records."""
        labels = self.labels if place else 1 << 30
        data = cloud(
            place, 420 + 5 * place, width=self.width, weighted=self.weighted, labels=labels
        )
        # Sites of one test are on machines of their own: their ledgers have states of their own.
        account = Ledger(ledger, state=ledger.parent)
        teacher = Teacher(
            lambda x: _predicted(x, place), size=400, labels=["sick", "well"], policy=self.rules,
            ledger=account, inputs=PUBLIC.points,
        )  # fmt: skip
        # Secure distances have an engine, and tests of their own.
        seat = Endpoint(NAMES[place], (Path(),) * 3, asker().root, frozenset(), None, "")
        return TeachingHolder(teacher, data, self.rules, account, cloud(place, 100), seat)


def _predicted(inputs: np.ndarray, place: int) -> np.ndarray:
    sick = 1 / (1 + np.exp(inputs[:, 0] - 0.2 * place))
    return np.stack([sick, 1 - sick], axis=1)


class Recorded:
    """A runtime whose messages are kept as they are to the parties."""

    def __init__(self, inner: Runtime) -> None:
        self.inner, self.names = inner, inner.names
        self.said: list[tuple[str, bytes, object]] = []

    def exchange(self, messages: Mapping[str, bytes], clock: Clock) -> Mapping[str, Reply | Any]:
        replies = self.inner.exchange(messages, clock)
        for name in sorted(messages):
            reply = replies[name]
            told = reply.payload if isinstance(reply, Reply) else reply
            self.said.append((name, messages[name], told))
        return replies

    def run(self, protocol: Any, *, progress: Callable[[Progress], None] | None = None) -> Any:
        return run(protocol, self, progress=progress)


def plain(result: Any) -> Any:
    """What a result says, but for clocks."""

    def timeless(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: timeless(value) for key, value in body.items() if key != "seconds"}
        return [timeless(value) for value in body] if isinstance(body, list) else body

    return timeless(result.to_dict())


RELEASE: dict[str, Any] = {"public": PUBLIC, "privacy_epsilon": 10.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "fedwad": {"support": 10, "rounds": 2}, "trianglewad": {"support": 12}, "sketch": RELEASE,
    "private": {"privacy_epsilon": 10.0},
    "fedbary": {"support": 10, "rounds": 2}, "target": {"support": 10}, "classifier": {
    "iterations": 20, "rounds": 2},
}  # fmt: skip
"""Of methods by name, to be quick; all others are run as they are."""

ASKS = {
    "direct": "records",
    "fedwad": "describe distance-to interpolate moments",
    "trianglewad": "describe interpolate moments",
    "sketch": "count-records sketch-records",
}
VALUES = {
    **ASKS, "target": "describe distance-with-error", "direct": "describe records",
    "private": "summarize-records",
    "fedbary": "describe distance-to interpolate moments",
}  # fmt: skip
BARYCENTER = "describe distance-with-error interpolate-by-class"
LINKS = {
    **ASKS, "mmd": "mean-features spread",
    "classifier": "domain-errors domain-scores spread train-domain",
    "fedwad": f"{ASKS['fedwad']} spread", "trianglewad": f"{ASKS['trianglewad']} spread",
}  # fmt: skip
TRAINING = "count-labelled evaluate-combination mean-features spread train-model"
# Of two holders: "private" compares one with data of the asker.
METHODS = [name for name, kind in silot.api.METHODS.items() if kind.asks and name != "private"]


def distance(method: str = "direct", **options: Any) -> Callable[[Any], Any]:
    chosen = OPTIONS.get(method, {}) | options
    return lambda fed: silot.distance("north", "south", method=method, federation=fed, **chosen)


def matrix(method: str) -> Callable[[Any], Any]:
    return lambda fed: silot.distance_matrix(fed, method, **OPTIONS.get(method, {}))


def value(own: Measure | None, method: str = "target", **options: Any) -> Callable[[Any], Any]:
    chosen = OPTIONS.get(method, {}) | options
    return lambda fed: silot.value_holders(fed, own, method=method, **chosen)


def barycenter(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.barycenter(fed, support=8, rounds=3, **options)


def coreset(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.coreset(fed, 8, rounds=4, **options)


def train(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.train(fed, rounds=3, **options)


def pooled(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.pooled_distance(fed, MINE, **options)


def records(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.value_records(fed, MINE, name="south", **options)


def counts(own: Measure | None, **options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.count_broken(fed, own, **RELEASE, **options)


def sketched(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.api.sketches(fed, **options)


def linked(method: str) -> Callable[[Any], Any]:
    chosen = OPTIONS.get(method, {})
    return lambda fed: run(divergences(fed.names, method=method, **chosen), fed)


def adapted(**options: Any) -> Callable[[Any], Any]:
    return lambda fed: silot.adapt(fed, model="logistic", iterations=40, **options)


def distilled(**options: Any) -> Callable[[Any], Any]:
    def made(fed: Any) -> Any:
        import torch

        model = torch.nn.Linear(3, 2)
        with torch.no_grad():
            model.weight.fill_(0.1)
            model.bias.fill_(0.0)
        space = silot.distillation.LabelSpace.one_hot(["sick", "well"])
        how = {"epochs": 2, "question_batch": 128} | options
        return silot.distill(model, fed, PUBLIC.points, labels=space, **how)

    return made


CASES = {
    **{f"distance {name}": Case(distance(name), ASKS[name]) for name in METHODS},
    **{f"labels {name}": Case(distance(name, labels=True), ASKS[name]) for name in METHODS},
    **{
        f"covariance {word}": Case(
            distance("trianglewad", labels=True, covariance=word), ASKS["trianglewad"]
        )
        for word in ("diagonal-of-root", "full")
    },
    **{
        f"weights {name}": Case(
            distance(name, **({"mass_limit": 2.0} if name == "sketch" else {})), ASKS[name],
            weighted=True,
        )
        for name in METHODS
    },
    "why": Case(distance(labels=True, why=True), "records"),
    **{f"matrix {name}": Case(matrix(name), ASKS[name]) for name in METHODS},
    **{f"value {name}": Case(value(MINE, name), VALUES[name]) for name in list_comparisons()},
    **{
        f"value of the barycenter {name}": Case(
            value(None, name), ASKS["sketch"] if name == "sketch" else BARYCENTER
        )
        for name in list_comparisons()
    },
    "value labels": Case(
        value(MINE, labels=True, why=True),
        "class-sizes cost-parts describe judge-records labelled-distance-with-error",
    ),
    "value vectors": Case(
        value(MINE, labels=True, label_metric="vectors", shapley=True, weights=None),
        "class-sizes describe distance-with-error judge-records records",
    ),
    "value without intervals": Case(value(MINE, intervals=False), "describe distance-to"),
    "value labels without intervals": Case(
        value(MINE, labels=True, intervals=False, faults=False),
        "class-sizes describe labelled-distance-to",
    ),
    "value map": Case(value(MINE, map="direct"), "describe distance-with-error records"),
    "value map sketch": Case(
        value(MINE, map="sketch", map_options=RELEASE),
        "count-records describe distance-with-error sketch-records",
    ),
    "value private labels": Case(
        value(MINE, "private", labels=True, label_metric="vectors"), "summarize-records"
    ),
    "value private by default": Case(
        value(MINE, "private", privacy_epsilon=1.0), "summarize-records", Policy()
    ),
    "value of statistics": Case(
        value(MINE),
        "describe distance-to distance-with-error",
        Policy(level="statistics", questions=frozenset({"distance-to"})),
    ),
    "value of statistics with labels": Case(
        value(MINE, labels=True),
        "class-sizes describe judge-records labelled-distance-to labelled-distance-with-error",
        Policy(level="statistics", questions=frozenset({"class-sizes", "labelled-distance-to"})),
    ),
    "value of weights": Case(value(MINE), "describe distance-with-error", weighted=True),
    "barycenter": Case(barycenter(), "describe distance-to interpolate-by-class"),
    "barycenter labels": Case(
        barycenter(labels=True), "class-sizes describe interpolate-by-class labelled-distance-to"
    ),
    "barycenter of a few a round": Case(
        barycenter(active=2), "describe distance-to interpolate-by-class"
    ),
    "cluster": Case(
        lambda fed: silot.cluster(fed), "records"
    ),
    "compare": Case(lambda fed: silot.compare(fed, MINE), "describe labelled-records"),
    "compare labels": Case(
        lambda fed: silot.compare(fed, MINE, labels=True), "class-sizes labelled-records"
    ),
    "coreset": Case(coreset(), "describe distance-to interpolate-by-class"),
    "coreset of a few a round": Case(
        coreset(active=1, labels=True, test=MINE),
        "class-sizes describe interpolate-by-class labelled-distance-to",
    ),
    "train": Case(train(), "count-labelled spread train-alone train-round"),
    "train fedrep": Case(
        train(algorithm="fedrep", active=1, groups={"north": 0, "south": 1, "west": 0}),
        "count-labelled spread train-alone train-round",
    ),
    "coreset sketch": Case(
        coreset(method="sketch", labels=True, test=MINE, **RELEASE), ASKS["sketch"]
    ),
    "barycenter sketch": Case(barycenter(method="sketch", **RELEASE), ASKS["sketch"]),
    "pooled": Case(pooled(), "describe interpolant-costs moments"),
    "pooled labels": Case(pooled(labels=True), "describe interpolant-costs moments"),
    "pooled hidden": Case(pooled(hidden=True), "describe interpolant-costs moments"),
    "pooled one": Case(
        lambda fed: run(Pooled().among(["south"], silot.federation.Own(MINE)), fed),
        "describe interpolant-distance moments",
    ),
    "records": Case(records(), "describe screen-records"),
    "records labels": Case(records(labels=True), "describe screen-records"),
    "records published": Case(
        records(method="published"), "describe interpolate score-records"
    ),
    "records private": Case(counts(cloud(8, 600)), "count-suspects"),
    "records private, public ones trusted": Case(counts(None), "count-suspects"),
    "sketches": Case(sketched(validation=MINE, labels=True, **RELEASE), ASKS["sketch"]),
    "sketches of a box": Case(
        sketched(public_mean=[0.0, 0.0], public_scale=[1.0, 1.0]), "count-records sketch-tree",
        width=2,
    ),
    "sketches of a period": Case(
        lambda fed: run(Sketching(period="2026-10", cells=4, **RELEASE).among(fed.names), fed),
        "sketch-period",
    ),
    **{f"links {name}": Case(linked(name), LINKS[name]) for name in DIVERGENCES},
    "adapt": Case(adapted(budget=0.9), f"{TRAINING} class-features score-models", labels=0),
    "adapt some labels": Case(
        adapted(),
        "class-features count-labelled evaluate-combination score-models spread train-model",
        labels=40,
    ),
    "adapt bound": Case(
        adapted(objective="bound"), TRAINING, labels=0
    ),
    "distill": Case(distilled(noise=64), "describe-teacher predict", needs="torch"),
    "distill shared": Case(
        distilled(noise=64, shared=True), "describe-teacher predict predict-noise", needs="torch"
    ),
    "distill private": Case(
        distilled(noise=64, privacy_epsilon=10.0), "describe-teacher release-predictions",
        needs="torch",
    ),
}  # fmt: skip


def same_noise(sensitivity: float, mu: float) -> Callable[[Any], Any]:
    """Noise that is the same at every ledger: theirs is drawn by each anew."""
    drawn, scale = np.random.default_rng(5), sensitivity / mu
    return lambda exact: exact + np.rint(drawn.normal(size=exact.shape) * scale).astype(np.int64)


def accounts(folder: Path) -> dict[str, list[Any]]:
    """What ledgers keep, but for clocks and the names of runs."""
    found: dict[str, list[Any]] = {}
    for name in NAMES:
        with Ledger(folder / f"{name}.ledger", create=False, readonly=True, state=folder) as ledger:
            found[name] = [
                (row.event, row.key, row.mechanism, row.mu, row.asker, row.digest)
                for row in ledger.entries()
            ]
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", CASES)
def test_messages_results_and_ledgers_are_those_of_a_local_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    if find_spec(case.needs) is None:
        pytest.skip(f"{case.needs} is not installed")
    monkeypatch.setattr(module, "noise_for", same_noise)
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
    parties = {
        place: {
            each: case.party(k, tmp_path / place / f"{each}.ledger") for k, each in enumerate(NAMES)
        }
        for place in ("here", "there")
    }
    here = Recorded(LocalFederation(parties["here"], asker=ASKER))
    there = Recorded(Sites(asker(), carry(sites(parties["there"])), NAMES))
    expected, found = case.run(here), case.run(there)
    assert plain(found) == plain(expected)
    assert there.said == here.said
    assert accounts(tmp_path / "there") == accounts(tmp_path / "here")
    assert {decode_question(message).kind for _, message, _ in here.said} == set(case.kinds.split())


def test_every_kind_of_question_is_in_the_suite() -> None:
    """New methods of distances, worth and divergences are run above, or fail for want of kinds."""
    asked = {kind for case in CASES.values() for kind in case.kinds.split()}
    ours = {name for name, kind in question_kinds().items() if kind.__module__.startswith("silot.")}
    assert ours - {"secure-distance"} == asked
