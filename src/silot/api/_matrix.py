"""Distances between all pairs of measures that were checked, and maps made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from itertools import combinations
from typing import Any, Literal

from ..data.measure import Covariance, Measure
from ..distances.result import Distance, DistanceMatrix
from ..errors import InputError, SilotError
from ..federation.disclosure import Disclosure
from ..federation.local import Progress
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..secure import SecureOptions
from ..secure._engine import absent
from ..value.result import Contributions
from ..value.together import without_map
from ._methods import run_pair
from .sketch import check_sketches, run_sketch_matrix

MapMethod = Literal["direct", "sketch", "secure"]


def run_matrix(
    measures: dict[str, Measure],
    *,
    target: Measure | None = None,
    method: str,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> DistanceMatrix:
    """Distances of all pairs; those to ``target``, which is no holder's, as ``COORDINATOR``."""
    if method == "sketch":
        own = None if target is None else Own(target)
        return run_sketch_matrix(measures, own=own, labels=labels, covariance=covariance, **options)
    if target is not None:
        measures = {**measures, COORDINATOR: target}
    couples = list(combinations(measures, 2))
    pairs: dict[tuple[str, str], Distance] = {}
    for a, b in couples:
        sides = {name: measures[name] for name in (a, b)}
        pairs[(a, b)] = run_pair(method, sides, labels=labels, covariance=covariance, **options)
        if progress is not None:
            progress(len(pairs), len(couples))
    return DistanceMatrix(
        names=tuple(measures), pairs=pairs, method=method, p=next(iter(pairs.values())).p
    )


@dataclass(frozen=True)
class HolderMap:
    """How the distances of a map are found beside the worth of holders."""

    method: MapMethod | None
    options: Mapping[str, Any]
    measures: dict[str, Measure]
    target: Measure | None
    labels: bool | str

    def check(self, worth: object, label_metric: str) -> None:
        """Raise where a map cannot be made as asked for, before any question is sent.

        ``worth`` is the method that values the holders.
        """
        if self.method not in (None, "direct", "sketch", "secure"):
            raise InputError(
                f"map is {self.method!r}; give 'direct', 'sketch', 'secure' or None.",
                code="option-map",
            )
        if worth == "sketch" and self.method not in (None, "sketch"):
            raise InputError(
                f"map is {self.method!r}, and with method 'sketch' the sketches tell the distances "
                "of a map and nothing more is asked. Give map='sketch'.",
                code="option-map",
            )
        apart = self.method in ("sketch", "secure") and worth != "sketch"
        if self.options and not apart:
            raise InputError(
                f"{next(iter(self.options))!r} is an option of a map by 'sketch' or 'secure' "
                "beside another method. Leave it out, or give map=.",
                code="option-map",
            )
        if apart and self.target is None and self.labels and label_metric == "vectors":
            raise InputError(
                f"map is {self.method!r}, and the barycenter of label vectors is no data that it "
                "could compare. Give validation data, or label_metric='classes'.",
                code="option-map",
            )
        if apart and self.method == "sketch":
            check_sketches(self.measures, labels=self.labels, **self.options)
        elif apart:
            _check_secure(self.options)

    def added(
        self, found: Contributions, progress: Callable[[Progress], None] | None
    ) -> Contributions:
        """Add a map made by runs of its own, whose bill and disclosure count.

        Where they fail, the map alone is left out, and the status says so.
        """
        if self.method in (None, "direct"):
            return found
        if len(found.holders) < 2:
            return without_map(found, "it takes two")
        target = self.target
        if target is None and found.barycenter is not None:
            target = found.barycenter.measure
        try:
            between = run_matrix(
                {name: self.measures[name] for name in found.names},
                target=target,
                method=self.method,
                labels=self.labels,
                progress=progress and (lambda done, of: progress(Progress("map", done, of))),
                **{"seed": found.seed, **self.options},
            )
        except SilotError as error:
            return without_map(found, f"{error.message.rstrip('.')} ({error.code})")
        levels = [Disclosure[level.upper()] for level in (found.disclosure, between.disclosure)]
        bill = between.bill
        return replace(
            found,
            between=between,
            rounds=found.rounds + bill.rounds,
            bytes_sent=found.bytes_sent + bill.bytes_sent,
            bytes_received=found.bytes_received + bill.bytes_received,
            seconds=found.seconds + bill.seconds,
            privacy_mu=found.privacy_mu + bill.privacy_mu,
            disclosure=str(max(levels)),
        )


def _check_secure(options: Mapping[str, Any]) -> None:
    known = {item.name for item in fields(SecureOptions)} - {"embedding"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(
            f"map 'secure' has no option {unknown[0]!r}; it takes {', '.join(sorted(known))}.",
            code="option-unknown",
        )
    SecureOptions(**options)
    if find_spec("spu") is None:
        raise absent()
