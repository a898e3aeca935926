"""Noisy counts of faulty records, and the models by which holders look for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ..federation.result import RunResult
from .result import Estimate, RecordScores


@dataclass(frozen=True)
class Suspects:
    """Noisy numbers that a holder disclosed about its records."""

    records: float
    """Estimated number of records."""
    broken: Mapping[str, Estimate]
    """About how many records are faulty, with a 95 % interval: ``"label"``, ``"features"`` and
    ``"all"``."""
    flagged: Mapping[str, Estimate]
    """About how many the holder would flag at the level asked, for the same."""
    strange: float | None
    """Estimated number of records of classes that are not public; ``None`` without labels."""

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "records": self.records,
            "broken": {name: estimate.to_dict() for name, estimate in self.broken.items()},
            "flagged": {name: estimate.to_dict() for name, estimate in self.flagged.items()},
            "strange": self.strange,
        }


class Screener(Protocol):
    """Models that screen a holder's records where they are."""

    def screen(self, data: Any, name: str, fdr: float) -> RecordScores:
        """Scores, flags, suggestions and copies."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class BrokenCounts(RunResult):
    """Count the faulty records of each holder, and fit models to find them.

    Attributes
    ----------
    holders
        What each sent, by name: with noise, charged to its ledger.
    fdr
        The level that ``flagged`` is about, and that ``screen`` flags by default.
    size
        How many public records of equal weight the models count for.
    privacy_epsilon, privacy_delta
        The guarantee of each holder's release, and of that of the validation data.
    spent_mu
        The same as one number: releases add in its square.
    screener
        The models, of public records reweighted.
    """

    view: ClassVar = "view:counts"

    holders: Mapping[str, Suspects]
    fdr: float
    size: float
    privacy_epsilon: float
    privacy_delta: float
    spent_mu: float
    status: str
    converged: bool = True
    seed: int
    screener: Screener = field(repr=False)

    def screen(self, data: Any, *, name: str = "holder", fdr: float | None = None) -> RecordScores:
        """Screen a holder's own records; the result stays with the holder.

        Nothing is asked and nothing leaves: the models are of public records. Their weights come
        from a differentially private release, so the result is as private towards the validation
        records as that is; it says something of each of the holder's own records.

        Parameters
        ----------
        data
            The records, as for ``silot.value_records``; features in the order of the public ones.
        name
            What to call the holder.
        fdr
            Share of the flagged records that may be clean; that of the run by default.

        Returns
        -------
        RecordScores
            ``nearest`` are places among the public records.

        Raises
        ------
        InputError, MismatchError
            Data that do not fit the public records; ``validation-few`` where these are too few
            for the level.

        Examples
        --------
        >>> import numpy as np
        >>> from silot import count_broken
        >>> rng = np.random.default_rng(0)
        >>> public, valid, x = (rng.normal(size=(300, 3)) for _ in range(3))
        >>> x[7] = [9.0, -9.0, 9.0]
        >>> found = count_broken({"seller": x}, valid, public=public)
        >>> int(found.screen(x).worst[0])
        7
        """
        return self.screener.screen(data, name, self.fdr if fdr is None else fdr)

    @property
    def value(self) -> dict[str, float]:
        """About how many records of each holder are faulty."""
        return {name: item.broken["all"].value for name, item in self.holders.items()}

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Intervals of their numbers, which cover in 95 % of cases."""
        return {
            name: (item.broken["all"].low, item.broken["all"].high)
            for name, item in self.holders.items()
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "holders": {name: suspects.to_dict() for name, suspects in self.holders.items()},
            "fdr": self.fdr,
            "size": self.size,
            "privacy_epsilon": self.privacy_epsilon,
            "privacy_delta": self.privacy_delta,
            "spent_mu": self.spent_mu,
            "status": self.status,
            "converged": self.converged,
            **self._cost_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        text = ", ".join(
            f"{name}: about {suspects.broken['all'].value:.0f} of {suspects.records:.0f} broken"
            for name, suspects in self.holders.items()
        )
        return f"BrokenCounts({text})"
