"""Maps of holders: distances between all of them, made beside their worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

from ..distances.worth.result import Contributions
from ..errors import InputError, SilotError
from ..federation.disclosure import Disclosure
from ..federation.party import Own
from ..federation.result import Bill, Run
from ..federation.run import Progress
from ..sites.secure._engine import missing_spu
from ._holders import Parties
from ._methods import Comparison

MapMethod = Literal["direct", "sketch", "secure"]


@dataclass(frozen=True)
class HolderMap:
    """How the distances of a map are found beside the worth of holders."""

    method: MapMethod | None
    options: Mapping[str, Any]
    parties: Parties

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
        if apart and self.parties.own is None and self.parties.labels and label_metric == "vectors":
            raise InputError(
                f"map is {self.method!r}, and the barycenter of label vectors is no data that it "
                "could compare. Give validation data, or label_metric='classes'.",
                code="option-map",
            )
        if apart:
            self._comparison(self.parties)
        if apart and self.method == "secure" and find_spec("spu") is None:
            raise missing_spu()

    def added(
        self, worth: Contributions, progress: Callable[[Progress], None] | None
    ) -> Contributions:
        """Add a map made by runs of its own, whose bill and disclosure count.

        Where they fail, the map alone is left out, and the status says so.
        """
        if self.method in (None, "direct"):
            return worth
        if len(worth.holders) < 2:
            return worth.with_note("no map of holders: it takes two")
        parties = replace(self.parties, names=tuple(worth.names))
        if parties.own is None and worth.barycenter is not None:
            parties = replace(parties, own=Own(worth.barycenter.measure))
        steps = progress and (lambda done, of: progress(Progress("map", done, of)))
        try:
            between = self._comparison(parties, seed=worth.seed).matrix(steps)
        except SilotError as error:
            without = worth.with_note(
                f"no map of holders: {error.message.rstrip('.')} ({error.code})"
            )
            # What it told and charged before it failed is told and charged.
            run: Run | None = error.run
            return without if run is None else _with_bill(without, run, run.disclosure)
        return _with_bill(replace(worth, between=between), between.bill, between.disclosure)

    def _comparison(self, parties: Parties, **options: Any) -> Comparison:
        return Comparison.of(str(self.method), parties, options={**options, **self.options})


def _with_bill(worth: Contributions, more: Run | Bill, disclosure: str) -> Contributions:
    """The same result with the bill of another run added."""
    levels = [Disclosure[level.upper()] for level in (worth.disclosure, disclosure) if level]
    return replace(
        worth,
        rounds=worth.rounds + more.rounds,
        bytes_sent=worth.bytes_sent + more.bytes_sent,
        bytes_received=worth.bytes_received + more.bytes_received,
        seconds=worth.seconds + more.seconds,
        privacy_mu=worth.privacy_mu + more.privacy_mu,
        disclosure=str(max(levels)),
    )
