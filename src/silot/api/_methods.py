"""Run a distance method that a user chose by name between parties (methods: ``distances``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from threading import Lock
from typing import Any

from silot_transport._threads import on_cores

from ..data.measure import Covariance
from ..distances.direct import Collected, Direct
from ..distances.fedwad import FedWaD
from ..distances.methods import (
    METHODS,
    PAIRWISE,
    Pairwise,
    check_method_options,
    find_method,
    pair_rounds,
)
from ..distances.private import PrivateDistance
from ..distances.result import Distance, DistanceMatrix
from ..distances.sides import name_columns
from ..distances.sketches.release_options import Private
from ..distances.sketches.result import Sketches
from ..distances.sketches.sketch import Sketch
from ..distances.trianglewad import TriangleWad
from ..errors import InputError, SilotError
from ..federation.accounts import Spending, prepare_release, run_private
from ..federation.parties import Parties
from ..federation.protocol import COORDINATOR, Protocol
from ..federation.result import Cost, with_earlier
from ..federation.run import B, Progress, Runtime
from ..sites.secure.forecast import Forecast
from ..sites.secure.method import Secure

# Bytes of the records of a holder from which on threads pay.
_LARGE = 1 << 13
# A method is one of METHODS once its module is imported.
__all__ = [
    "METHODS",
    "PAIRWISE",
    "Comparison",
    "Direct",
    "FedWaD",
    "Pairwise",
    "PrivateDistance",
    "Secure",
    "Sketch",
    "TriangleWad",
    "find_method",
    "read_method",
]


DISTANCES = METHODS.values()
"""All methods: also those that compare a holder with data of the caller alone."""


def read_method(method: str | Pairwise, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and options of a method, by name with options or as one object."""
    if not isinstance(method, Pairwise):
        kind = find_method(method)
        # Before data are looked at: what is wrong with them hides a misspelt option.
        spent = set(Spending.options) if issubclass(kind, Private) else set()
        check_method_options(kind, {k: v for k, v in options.items() if k not in spent})
        return kind.name, dict(options)
    if METHODS.get(method.name) is not type(method):
        raise InputError(
            f"method is an object of {type(method).__name__}, which has no name of its own. Give "
            "the class a name.",
            code="option-method",
        )
    if method.embedding != "none":
        raise InputError(
            "labels= and covariance= say how labels are compared: leave embedding out of "
            "the method.",
            code="option-method",
        )
    if options:
        raise InputError(
            f"method is an object, and {next(iter(options))!r} is given beside it. Give options to "
            f"{type(method).__name__}(...), or the method by its name.",
            code="option-method",
        )
    return method.name, method.chosen()


@dataclass(frozen=True)
class Comparison:
    """A distance method with its options, and the parties it compares."""

    method: Pairwise
    parties: Parties
    spending: Spending

    @classmethod
    def of(
        cls,
        name: str,
        parties: Parties,
        covariance: Covariance = "diagonal",
        options: Mapping[str, Any] | None = None,
    ) -> Comparison:
        """Build a comparison by the name of its method, before any question is sent."""
        kind, spending, own = find_method(name), Spending(), dict(options or {})
        if issubclass(kind, Private):
            spending, own = Spending.split(own)
            own = prepare_release(parties, own, spending)
            parties = parties.beside(own)
        embedding = covariance if parties.labels else "none"
        return cls(kind(**own, embedding=embedding), parties, spending)

    def between(
        self,
        a: str,
        b: str,
        progress: Callable[[Progress], None] | None = None,
        tell: Callable[[Forecast], None] | None = None,
    ) -> Distance:
        """Compute the distance of two sides; the last may be the coordinator's own data.

        ``tell`` is called with the forecast of a computation that has one, before it starts.
        """
        own = self.parties.own if b == COORDINATOR else None
        protocol = self.method.between(a, None if own else b, own)
        result = self._run(protocol, progress, tell)
        if isinstance(self.method, Private):
            # Its classes are public ones.
            return result.named(self.parties.columns)
        return name_columns(result, self.parties, (a, b))

    def released(self) -> Sketches | Collected | None:
        """Request one release, or the records, of every holder, if all distances follow from it."""
        release = self.method.release(self.parties.names, self.parties.own)
        if release is None:
            return None
        released = self._run(release)
        if isinstance(released, Sketches):
            return replace(released, columns=self.parties.columns)
        return released

    def matrix(
        self,
        progress: Callable[[int, int], None] | None = None,
        released: Sketches | Collected | None = None,
    ) -> DistanceMatrix:
        """Compute all pairs; the coordinator's own data are called ``COORDINATOR``.

        What holders ``released`` already is not asked for again.
        """
        own = self.parties.own
        released = released or self.released()
        if isinstance(released, Sketches):
            return released.matrix(own=own is not None, why=getattr(self.method, "why", False))
        if isinstance(released, Collected):
            return self._of_records(released, progress)
        names = (*self.parties.names, *([] if own is None else [COORDINATOR]))
        couples = list(combinations(names, 2))
        pairs: dict[tuple[str, str], Distance] = {}
        cost = Cost()
        rounds = pair_rounds(names) if self._together(names) else [[couple] for couple in couples]
        for apart in rounds:
            try:
                cost += self._measure(apart, pairs)
            except SilotError as error:
                error.run = with_earlier(error.run, list(pairs.values()), cost)
                raise
            if progress is not None:
                progress(len(pairs), len(couples))
        return DistanceMatrix(
            names=names,
            pairs={couple: pairs[couple] for couple in couples},
            method=self.method.name,
            p=next(iter(pairs.values())).p,
            # Holders have ledgers of their own: their charges are no sum.
            together=replace(cost, privacy_mu=0.0),
        )

    def _of_records(
        self, collected: Collected, progress: Callable[[int, int], None] | None
    ) -> DistanceMatrix:
        """Compute all pairs from the records of all, on all cores, at the cost of the one run."""
        names, done, lock = tuple(collected.samples), 0, Lock()
        couples, began = list(combinations(names, 2)), time.perf_counter()
        # One holder that differs from all others must be able to pass the test of all pairs.
        most = max(collected.method.permutations, 10 * len(names))
        method = replace(collected.method, permutations=most)
        together = replace(collected, method=method)

        def compute(couple: tuple[str, str]) -> Distance:
            nonlocal done
            started = time.perf_counter()
            distance = together.distance(*couple)
            distance = distance.with_part(collected, couple, time.perf_counter() - started)
            if progress is not None:
                # Verdicts come when they are read, and who watches is to see them come.
                _ = getattr(distance.test, "verdict", None)
                with lock:
                    done += 1
                    progress(done, len(couples))
            return name_columns(distance, self.parties, couple)

        size = sum(one.atoms.nbytes for one in collected.samples.values()) / len(names)
        pairs = on_cores(compute, couples, alone=size < _LARGE)
        seconds = collected.seconds + time.perf_counter() - began
        return DistanceMatrix(
            names=names,
            pairs=dict(zip(couples, pairs, strict=True)),
            method=method.name,
            p=method.p,
            # Holders have ledgers of their own: their charges are no sum.
            shared_cost=replace(collected.cost, privacy_mu=0.0, seconds=seconds),
        )

    def _together(self, names: Sequence[str]) -> bool:
        """Return whether pairs that share no holder may be asked in one exchange."""
        federation = self.parties.federation
        is_runtime = federation is None or isinstance(federation, Runtime)
        return (
            is_runtime and len(names) > 3 and self.method.between(names[0], names[1]).engine is None
        )

    def _measure(
        self, couples: Sequence[tuple[str, str]], pairs: dict[tuple[str, str], Distance]
    ) -> Cost:
        """Add the distances of pairs that share no side, and return their cost."""
        if len(couples) == 1:
            pairs[couples[0]] = distance = self.between(*couples[0])
            return distance.cost
        own, parties = self.parties.own, self.parties
        sides = [(a, None, own) if b == COORDINATOR else (a, b, None) for a, b in couples]
        outcomes, cost = parties.run_together([self.method.between(*side) for side in sides])
        for couple, one in zip(couples, outcomes, strict=True):
            if not isinstance(one, SilotError):
                pairs[couple] = name_columns(one, parties, couple)
        errors = [one for one in outcomes if isinstance(one, SilotError)]
        if errors:
            others = [error.run for error in errors[1:] if error.run is not None]
            run = with_earlier(errors[0].run, others)
            # What all in this exchange took, once.
            errors[0].run = None if run is None else replace(run, **vars(cost))
            raise errors[0]
        return cost

    def _run(
        self,
        protocol: Protocol[B],
        progress: Callable[[Progress], None] | None = None,
        tell: Callable[[Forecast], None] | None = None,
    ) -> B:
        if isinstance(self.method, Private):
            return run_private(self.parties, protocol, self.method, self.spending, progress)
        return self.parties.run(protocol, progress, tell)
