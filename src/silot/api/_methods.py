"""The distance methods that users choose from, and how each is run between parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ..data.measure import Covariance
from ..distances.pairwise import check_asked
from ..distances.result import Distance, DistanceMatrix
from ..errors import InputError, SilotError
from ..federation.protocol import COORDINATOR, Protocol
from ..federation.recorded import Unanswered, Waiting
from ..federation.result import with_earlier
from ..federation.run import B, Progress
from ..secure.forecast import Forecast
from ..secure.method import Secure
from ..sketch.methods import METHODS, Pairwise, method_named
from ..sketch.releasing import Private
from ..sketch.result import Sketches
from ._holders import Parties, in_words
from .sketch import Spending, of_release, run_private

__all__ = ["METHODS", "Comparison", "Pairwise", "Secure", "chosen", "method_named"]


def chosen(method: str | Pairwise, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and options of a method that was given by name with options, or as one object."""
    if not isinstance(method, Pairwise):
        kind = method_named(method)
        if "embedding" in options:
            check_asked(kind, options)
        return kind.name, dict(options)
    if METHODS.get(method.name) is not type(method):
        raise InputError(
            f"method is an object of {type(method).__name__}, which has no name of its own. Give "
            "the class a name.",
            code="option-method",
        )
    if method.embedding != "none":
        raise InputError(
            "labels= and covariance= say what of labels is compared: leave embedding out of the "
            "method.",
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
        """As asked for by name, checked before any question is sent."""
        kind, spending, given = method_named(name), Spending(), dict(options or {})
        if issubclass(kind, Private):
            spending, given = Spending.parted(given)
            given = of_release(parties, given, spending)
            parties = parties.beside(given)
        embedding = covariance if parties.labels else "none"
        return cls(kind(**given, embedding=embedding), parties, spending)

    def between(
        self,
        a: str,
        b: str,
        progress: Callable[[Progress], None] | None = None,
        tell: Callable[[Forecast], None] | None = None,
    ) -> Distance:
        """Distance of two sides, of which the last may be the coordinator's own data.

        ``tell`` is called with the forecast of a computation that has one, before it starts.
        """
        own = self.parties.own if b == COORDINATOR else None
        protocol = self.method.between(a, None if own else b, own)
        result = self._run(protocol, progress, tell)
        if isinstance(self.method, Private):
            # Its classes are public ones.
            return result.named(self.parties.columns)
        return in_words(result, self.parties, (a, b))

    def released(self) -> Sketches | None:
        """One release of every holder, where the method has one that tells all distances."""
        release = self.method.release(self.parties.names, self.parties.own)
        if release is None:
            return None
        return replace(self._run(release), columns=self.parties.columns)

    def matrix(
        self,
        progress: Callable[[int, int], None] | None = None,
        released: Sketches | None = None,
    ) -> DistanceMatrix:
        """Distances of all pairs; those to the coordinator's own data as ``COORDINATOR``.

        What holders ``released`` already is not asked for again.
        """
        own = self.parties.own
        released = released or self.released()
        if released is not None:
            return released.matrix(own=own is not None, why=getattr(self.method, "why", False))
        names = (*self.parties.names, *([] if own is None else [COORDINATOR]))
        couples = list(combinations(names, 2))
        pairs: dict[tuple[str, str], Distance] = {}
        waiting: list[Waiting] = []
        for a, b in couples:
            try:
                pairs[(a, b)] = self.between(a, b)
            except Unanswered as unanswered:
                # By files: what all pairs have come to is asked together.
                waiting += unanswered.waiting
                continue
            except SilotError as error:
                error.run = with_earlier(error.run, list(pairs.values()))
                raise
            if progress is not None:
                progress(len(pairs), len(couples))
        if waiting:
            raise Unanswered(waiting)
        name, p = self.method.name, next(iter(pairs.values())).p
        return DistanceMatrix(names=names, pairs=pairs, method=name, p=p)

    def _run(
        self,
        protocol: Protocol[B],
        progress: Callable[[Progress], None] | None = None,
        tell: Callable[[Forecast], None] | None = None,
    ) -> B:
        if isinstance(self.method, Private):
            return run_private(self.parties, protocol, self.method, self.spending, progress)
        return self.parties.run(protocol, progress, tell)
