"""Wasserstein distances between all devices, by the protocols for two, and by sketches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from ..data.measure import Embedding
from ..distances.direct import exact_distance
from ..distances.questions.distances import Records
from ..distances.result import Distance
from ..distances.sides import agreed_dimension, received_weights
from ..errors import HolderError, InputError, SilotError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.parallel import parallel
from ..federation.protocol import Answers, Protocol, Questions, Steps
from ..sketch.derived import LEAST_NU, Book
from ..sketch.methods import METHODS
from ..sketch.result import Sketches
from ..sketch.sketch import sketches
from ..transport._check import as_order
from .between import Devices, ask_width, symmetric, within
from .divergence import Divergences

T = TypeVar("T")
Found = dict[tuple[str, str], Distance]
_UNIT = "the unit of the features: Wasserstein distance of order "


def in_step(
    method: str, holders: Sequence[str], *, seed: int = 0, quorum: int = 2, **options: Any
) -> Protocol[Divergences]:
    """A distance method between every two devices, several pairs at once, with its options."""
    build = METHODS[method].build
    devices = Devices.of(holders, quorum, seed)
    # Options are checked here, before anything is asked.
    sample = build(*devices.names[:2], seed=devices.seed, **options)
    order = as_order(options.get("p", 2))
    stages = len(_stages(devices.names))

    def start() -> Steps[Divergences]:
        run = devices.fresh()
        told = yield from ask_width(run, options.get("embedding", "none"))
        found: Found = {}
        unread: dict[tuple[str, str], SilotError] = {}
        for stage in _stages(tuple(sorted(told.names))):
            pairs = [pair for pair in stage if not set(pair) & set(run.missing)]
            runs = {
                str(k): _caught(build(*pair, seed=run.seed, **options).start(), run.missing)
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
        return _result(run, found, sample.name, order, told.within**0.5)

    return Protocol(
        sample.name,
        devices.names,
        Disclosure.RECORD,
        start,
        {name: value for name, value in sample.parameters.items() if name != "seed"}
        | {"seed": devices.seed},
        expected_rounds=1 + stages * sample.expected_rounds,
    )


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


def direct(
    holders: Sequence[str],
    *,
    p: int = 2,
    seed: int = 0,
    quorum: int = 2,
    embedding: Embedding = "none",
) -> Protocol[Divergences]:
    """Exact distances of pooled records: the baseline. Discloses every record."""
    devices, order = Devices.of(holders, quorum, seed), as_order(p)

    def start() -> Steps[Divergences]:
        run = devices.fresh()
        answers = yield from run.ask(dict.fromkeys(run.names, Records(embedding=embedding)))
        clouds = run.read(answers, lambda _, answer: _read_records(answer))
        agreed_dimension({name: points.shape[1] for name, (points, _) in clouds.items()})
        found: Found = {}
        for a, b in combinations(sorted(clouds), 2):
            found[a, b] = exact_distance(clouds[a], clouds[b], (a, b), order, run.seed)
        spread = [_variance(*clouds[name]) for name in sorted(clouds)]
        return _result(run, found, "direct", order, float(np.mean(spread)) ** 0.5)

    return Protocol(
        "direct",
        devices.names,
        Disclosure.RECORD,
        start,
        {"p": order, "seed": devices.seed, "embedding": embedding},
    )


def _read_records(answer: Answer) -> tuple[Array, Array]:
    cloud = within(answer.array("points", ndim=2))
    return cloud, received_weights(answer, len(cloud))


def sketch(
    holders: Sequence[str], *, seed: int = 0, quorum: int = 2, **options: Any
) -> Protocol[Divergences]:
    """Distances from one differentially private release of every device, as ``sketches``."""
    devices = Devices.of(holders, quorum, seed)
    if options.pop("p", 2) != 2:
        raise InputError("sketches tell W2 only. Give p=2.", code="option-p")
    sample = sketches(devices.names, seed=devices.seed, **options)

    def start() -> Steps[Divergences]:
        run = devices.fresh()
        while True:
            left = [name for name in run.names if name not in run.missing]
            before = len(run.missing)
            try:
                book = yield from _noted(
                    sketches(left, seed=run.seed, **options).start(), run.missing
                )
            except HolderError:
                if len(run.missing) == before:
                    raise
                run.check()
                # Once more without those: what a device released before costs it nothing.
                continue
            return _sketched(run, book)

    return Protocol(
        "sketch",
        devices.names,
        Disclosure.SKETCH,
        start,
        sample.parameters,
        expected_rounds=sample.expected_rounds,
    )


def _sketched(run: Devices, found: Sketches) -> Divergences:
    book = found.book
    assert isinstance(book, Book)
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


def _result(run: Devices, found: Found, method: str, order: int, scale: float) -> Divergences:
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
