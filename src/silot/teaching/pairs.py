"""Wasserstein distances between all devices, by the protocols for two, and by sketches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..distances.direct import Direct, compute_exact_distance
from ..distances.fedwad import FedWaD
from ..distances.methods import Pairwise
from ..distances.questions import Records
from ..distances.result import Distance
from ..distances.sides import agree_on_dimension, read_weights
from ..distances.sketches.decoded import LEAST_NU, DecodedSketches
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch, sketches
from ..distances.trianglewad import TriangleWad
from ..errors import HolderError, InputError, SilotError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.message import Scalar
from ..federation.parallel import parallel
from ..federation.protocol import Answers, Protocol, Questions, Steps
from ..options import anything, option
from .between import Devices, Divergence, ask_width, symmetric, within
from .divergence import Divergences

T = TypeVar("T")
PairDistances = dict[tuple[str, str], Distance]
_UNIT = "the unit of the features: Wasserstein distance of order "


class OfPairs(Divergence):
    """Distances by a method for two, with its options; the words are those of the method."""

    method: ClassVar[type[Pairwise]]
    idle: ClassVar[tuple[str, ...]] = ("seed",)
    """Options of the method that are not asked for: they say nothing of many devices."""

    distance: Pairwise | None = option(
        "The distance between two devices; the method's, as it is, when None.",
        anything("Pairwise, or None"),
        default=None,
    )

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "method" in vars(cls):
            for word in ("disclosure", "sends", "guarantees", "privacy"):
                setattr(cls, word, getattr(cls.method, word))

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        return tuple(name for name in cls.method.options if name not in cls.idle)

    @classmethod
    def build(cls, *, seed: int = 0, quorum: int = 2, **options: Any) -> Divergence:
        unknown = sorted(set(options) - set(cls.takes()))
        if unknown:
            raise cls.stranger(unknown[0])
        return cls(distance=cls.method(seed=seed, **options), seed=seed, quorum=quorum)

    @cached_property
    def pair(self) -> Pairwise:
        """The distance between two devices."""
        return self.distance or self.method(seed=self.seed)

    @cached_property
    def sample(self) -> Protocol[Distance]:
        """The protocol of two."""
        return self.pair.between("a", "b")

    def parameters(self) -> dict[str, Scalar]:
        own = {name: value for name, value in self.sample.parameters.items() if name != "seed"}
        return own | {"seed": self.seed}


class InStep(OfPairs):
    """A distance method between every two devices, several pairs at once."""

    needs = "n - 1 times the rounds of one pair, n the number of devices"

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 1 + len(_stages(names)) * self.sample.expected_rounds

    def steps(self, run: Devices) -> Steps[Divergences]:
        told = yield from ask_width(run, self.pair.embedding)
        found: PairDistances = {}
        unread: dict[tuple[str, str], SilotError] = {}
        for stage in _stages(tuple(sorted(told.names))):
            pairs = [pair for pair in stage if not set(pair) & set(run.missing)]
            runs = {
                str(k): _caught(self.pair.between(*pair).start(), run.missing)
                for k, pair in enumerate(pairs)
            }
            results = yield from parallel(runs)
            for k, pair in enumerate(pairs):
                result = results[str(k)]
                if isinstance(result, Distance):
                    found[pair] = result
                elif not set(pair) & set(run.missing):
                    # Nobody failed to answer: what an answer held is wrong.
                    unread[pair] = result
            run.check()
        _leave_out(run, unread)
        return _result(run, found, self.name, self.pair.p, told.within**0.5)


class FedWaDs(InStep):
    """FedWaD between every two devices."""

    name = "fedwad"
    method = FedWaD


class TriangleWads(InStep):
    """TriangleWad between every two devices."""

    name = "trianglewad"
    method = TriangleWad


def _leave_out(run: Devices, unread: Mapping[tuple[str, str], SilotError]) -> None:
    """Leave out whose answers could not be read: the device that all such pairs share.

    What a pair told does not say which of the two told it; the other pairs do.
    """
    while pairs := [pair for pair in unread if not set(pair) & set(run.missing)]:
        error = unread[pairs[0]]
        first, second, *_ = Counter(name for pair in pairs for name in pair).most_common()
        if first[1] == second[1]:
            who = " and ".join(map(repr, pairs[0]))
            raise type(error)(f"{who}: {error.message}", code=error.code)
        run.missing[first[0]] = Failure(error.code)
    run.check()


class Pooled(OfPairs):
    """Exact distances of pooled records: the baseline. Discloses every record."""

    name = "direct"
    method = Direct
    needs = Direct.needs
    idle = ("seed", "why")

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return 1

    def parameters(self) -> dict[str, Scalar]:
        return {"p": self.pair.p, "seed": self.seed, "embedding": self.pair.embedding}

    def steps(self, run: Devices) -> Steps[Divergences]:
        pair = self.pair
        questions = dict.fromkeys(run.names, Records(embedding=pair.embedding))
        answers = yield from run.ask(questions)
        clouds = run.read(answers, lambda _, answer: _read_records(answer))
        agree_on_dimension({name: points.shape[1] for name, (points, _) in clouds.items()})
        found: PairDistances = {}
        for a, b in combinations(sorted(clouds), 2):
            found[a, b] = compute_exact_distance(clouds[a], clouds[b], (a, b), pair.p, run.seed)
        spread = [_variance(*clouds[name]) for name in sorted(clouds)]
        return _result(run, found, self.name, pair.p, float(np.mean(spread)) ** 0.5)


def _read_records(answer: Answer) -> tuple[Array, Array]:
    cloud = within(answer.array("points", ndim=2))
    return cloud, read_weights(answer, len(cloud))


class Sketched(OfPairs):
    """Distances from one differentially private release of every device, as ``sketches``."""

    name = "sketch"
    method = Sketch
    needs = Sketch.needs
    idle = ("seed", "why")

    def most_rounds(self, names: tuple[str, ...]) -> int:
        return self.sample.expected_rounds

    def parameters(self) -> dict[str, Scalar]:
        return dict(self.sample.parameters)

    def steps(self, run: Devices) -> Steps[Divergences]:
        options = {k: v for k, v in self.pair.values().items() if k not in ("p", "why")}
        while True:
            left = [name for name in run.names if name not in run.missing]
            before = len(run.missing)
            try:
                book = yield from _noted(sketches(left, **options).start(), run.missing)
            except HolderError:
                if len(run.missing) == before:
                    raise
                run.check()
                # Once more without those: what a device released before costs it nothing.
                continue
            return _sketched(run, book)


def _sketched(run: Devices, found: Sketches) -> Divergences:
    book = found.book
    assert isinstance(book, DecodedSketches)
    decoded = {name: book.pages[name].decoded for name in sorted(found.names)}
    place = {name: k for k, name in enumerate(found.names)}
    values = {(place[a], place[b]): book.distance(a, b).value for a, b in combinations(decoded, 2)}
    spread = [k.scatter + _variance(k.atoms, k.weights.sum(axis=0)) for k in decoded.values()]
    return Divergences(
        names=found.names,
        values=symmetric(len(found.names), values),
        method="sketch",
        unit=_UNIT + "2",
        law="normal",
        scale=float(np.mean(spread)) ** 0.5,
        status=book.status + run.note,
        converged=book.nu >= LEAST_NU,
        seed=run.seed,
        details={"cells": found.cells, "nu": found.nu},
        missing=run.codes,
    )


def _result(
    run: Devices, found: PairDistances, method: str, order: int, scale: float
) -> Divergences:
    names = tuple(name for name in run.names if name not in run.missing)
    place = {name: k for k, name in enumerate(names)}
    kept = {
        (place[a], place[b]): distance
        for (a, b), distance in found.items()
        if a in place and b in place
    }
    slow = [k for k in kept.values() if not k.converged]
    text = f"converged: all {len(kept)} pairs"
    if slow:
        text = (
            f"{len(slow)} of {len(kept)} pairs did not converge; "
            f"{' and '.join(slow[0].holders)}: {slow[0].status}"
        )
    values, lower, upper = (
        symmetric(len(names), {key: getattr(k, what) for key, k in kept.items()})
        for what in ("value", "lower", "upper")
    )
    return Divergences(
        names=names,
        values=values,
        method=method,
        unit=f"{_UNIT}{order}",
        law="normal",
        scale=scale,
        lower=lower,
        upper=upper,
        status=text + run.note,
        converged=not slow,
        seed=run.seed,
        details={"p": order},
        missing=run.codes,
    )


def _stages(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """All pairs, in stages that ask nobody twice: the circle of a tournament."""
    ring: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    stages: list[list[tuple[str, str]]] = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        facing = zip(ring[:half], reversed(ring[half:]), strict=True)
        stages.append(
            [(min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None]
        )
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return stages


def _noted(steps: Steps[T], missing: dict[str, Failure]) -> Steps[T]:
    """Steps of another protocol; when a failure ends them, who failed is noted."""
    questions: Questions = {}
    answers: Answers = {}
    try:
        questions = next(steps)
        while True:
            answers = yield questions
            questions = steps.send(answers)
    except StopIteration as stop:
        return stop.value
    except HolderError:
        for name in questions:
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                missing[name] = answer
        raise


def _caught(steps: Steps[Distance], missing: dict[str, Failure]) -> Steps[Distance | SilotError]:
    """Steps of a pair; an error they end in is their result."""
    try:
        return (yield from _noted(steps, missing))
    except (HolderError, InputError, WireError) as error:
        return error


def _variance(atoms: Array, weights: Array) -> float:
    """Total variance of a weighted cloud."""
    masses = weights / weights.sum()
    return float(masses @ ((atoms - masses @ atoms) ** 2).sum(axis=1))
