"""What attacks on a transcript recovered."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """One attack on one party's records.

    Attributes
    ----------
    name
        Name of the attack.
    target
        Party whose records it is after.
    applicable
        Whether the messages have what it needs.
    reason
        Why not, where it is not.
    rows
        Rows it guessed.
    exact_rate
        Share of the true records recovered exactly: every value to a millionth of the largest
        of its column. ``None`` without the truth.
    reidentification_rate
        Share of the true records that are nearest to their own guess. Where guesses come in no
        order, they are matched with the records first, as well as can be.
    chance
        What a guess that knows nothing of single records scores there.
    relative_rmse
        Root mean square error, as a multiple of that of guessing every column's mean.
    certified
        Whether the messages themselves prove the rows, without the truth: encoding them again
        gives the message, and no other rows do. ``None`` where there is no such check.
    certified_rate
        Share of the guessed rows that are proven so.
    matching_rate, cosine
        Share of guessed rows whose nearest word is the right one, and the mean cosine with the
        true vector; with a vocabulary and the truth only.
    membership_auc
        How well the distance to the nearest guess tells records from outsiders (.5 is
        guessing); a trained attack does better.
    note
        What to add.
    ordered
        Whether the i-th row stands for the i-th record.
    recovered
        The rows (k, d); not in ``to_dict``.
    """

    name: str
    target: str
    applicable: bool = True
    reason: str = ""
    rows: int = 0
    exact_rate: float | None = None
    reidentification_rate: float | None = None
    chance: float | None = None
    relative_rmse: float | None = None
    certified: bool | None = None
    certified_rate: float | None = None
    matching_rate: float | None = None
    cosine: float | None = None
    membership_auc: float | None = None
    note: str = ""
    ordered: bool = False
    recovered: Array | None = field(default=None, repr=False)

    @property
    def verdict(self) -> str:
        """What it did, in words."""
        return f"{self._finding()}{f'; {self.note}' if self.note else ''}"

    def _finding(self) -> str:
        if not self.applicable:
            return f"not applicable: {self.reason}"
        if self.exact_rate is None:
            return self._unmeasured()
        if self.exact_rate == 1.0:
            return "every record was recovered exactly"
        if self.exact_rate > 0:
            return f"{_percent(self.exact_rate)} of the records were recovered exactly"
        near, chance = self.reidentification_rate or 0.0, self.chance or 0.0
        return (
            f"no record was recovered exactly by this attack; {_percent(near)} are nearest to "
            f"their guess, where chance gives {_percent(chance)}"
        )

    def _unmeasured(self) -> str:
        if self.certified:
            return f"{self.rows} rows were recovered, and the messages prove that they are records"
        if self.certified_rate:
            proven = _percent(self.certified_rate)
            return f"{self.rows} rows were guessed; the messages prove {proven} of them"
        return f"{self.rows} rows were guessed; nothing in the messages proves them"

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON; not the rows."""
        return {
            "name": self.name,
            "target": self.target,
            "applicable": self.applicable,
            "reason": self.reason,
            "rows": self.rows,
            "exact_rate": self.exact_rate,
            "reidentification_rate": self.reidentification_rate,
            "chance": self.chance,
            "relative_rmse": self.relative_rmse,
            "certified": self.certified,
            "certified_rate": self.certified_rate,
            "matching_rate": self.matching_rate,
            "cosine": self.cosine,
            "membership_auc": self.membership_auc,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What a party could compute from what it saw of a run.

    An audit shows what is broken. It never shows that anything is safe: other attacks, or the
    same with more knowledge, may do better.

    Attributes
    ----------
    viewpoint
        Party whose view was attacked from.
    protocol
        Name of the method.
    targets
        Parties whose records were attacked.
    attacks
        Every attack on every target.
    image_shape
        Shape of a record as a picture, where it is one.
    truth
        The true records by party, where they were given; not in ``to_dict``.
    """

    viewpoint: str
    protocol: str
    targets: tuple[str, ...]
    attacks: tuple[Attack, ...]
    image_shape: tuple[int, ...] | None = None
    truth: dict[str, Array] = field(default_factory=dict[str, Array], repr=False)

    def of(self, target: str) -> tuple[Attack, ...]:
        """Attacks on one party."""
        return tuple(attack for attack in self.attacks if attack.target == target)

    def best(self, target: str) -> Attack | None:
        """The attack that recovered most of a party's records; ``None`` if none applied."""
        applied = [attack for attack in self.of(target) if attack.applicable]
        return max(applied, key=_strength, default=None)

    @property
    def exact_rates(self) -> dict[str, float | None]:
        """Largest exact rate by target; ``None`` where the truth was not given."""
        found: dict[str, float | None] = {}
        for target in self.targets:
            rates = [one.exact_rate for one in self.of(target) if one.exact_rate is not None]
            found[target] = max(rates) if rates else (0.0 if target in self.truth else None)
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        """What the attacks together say of every party, in words."""
        return {target: self._about(target) for target in self.targets}

    @property
    def verdict(self) -> str:
        """All verdicts as one text."""
        return "; ".join(f"{target}: {text}" for target, text in self.verdicts.items())

    def _about(self, target: str) -> str:
        best = self.best(target)
        if best is None:
            return "not recovered by these attacks, none of which applies to what was seen"
        by = f" ({best.name})"
        if best.exact_rate is None:
            if best.certified:
                return f"{best.rows} records recovered, proven by the messages{by}"
            if best.certified_rate:
                proven = _percent(best.certified_rate)
                return f"{best.rows} rows guessed, {proven} of them proven by the messages{by}"
            return f"not recovered by these attacks for certain; {best.rows} rows guessed{by}"
        if best.exact_rate > 0:
            return f"{_percent(best.exact_rate)} of the records recovered exactly{by}"
        near, chance = best.reidentification_rate or 0.0, best.chance or 0.0
        return (
            f"not recovered by these attacks; the best guess is nearest to its own record for "
            f"{_percent(near)} of them, chance gives {_percent(chance)}{by}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON; no records."""
        return {
            "viewpoint": self.viewpoint,
            "protocol": self.protocol,
            "targets": list(self.targets),
            "exact_rates": self.exact_rates,
            "verdict": self.verdict,
            "attacks": [attack.to_dict() for attack in self.attacks],
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def __repr__(self) -> str:
        return f"Audit({self.protocol} seen by {self.viewpoint!r}: {self.verdict})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(one.target)}</td><td>{html.escape(one.name)}</td>"
            f"<td>{html.escape(one.verdict)}</td></tr>"
            for one in self.attacks
            if one.applicable
        )
        return f"<p>{html.escape(self.verdict)}</p><table>{rows}</table>"


def _strength(attack: Attack) -> tuple[float, float, float, float]:
    return (
        attack.exact_rate or 0.0,
        float(bool(attack.certified)) + (attack.certified_rate or 0.0),
        attack.reidentification_rate or 0.0,
        -(attack.relative_rmse if attack.relative_rmse is not None else np.inf),
    )


def _percent(share: float) -> str:
    text = f"{100 * share:.1f}"
    # Rounding must not turn nearly all into all.
    return f"{'99.9' if text == '100.0' and share < 1 else text.removesuffix('.0')} %"
