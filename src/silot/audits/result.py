"""Results of audits: of the messages of a run, and of a holder's policy."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..data.reported import Reported

Array = npt.NDArray[np.float64]

SILENCE = "another attack may recover more: that nothing was recovered is no proof of safety"
"""The warning of every verdict."""

NEEDS = "needs "
"""How a reason begins that whoever runs the audit can remove."""

NEVER_TRIED = (
    "attacks by somebody who knows some of the records",
    "combining several runs about the same records",
    "long searches for records behind means of several",
    "other questions that the holder's policy allows (`silot privacy audit --policy`)",
    "timing of single steps of a holder's computation",
)
"""Kinds of attack on every method that are not among those of ``silot.audit``."""

_UNDECIDED = "undecided: not recovered by these attacks"


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """One attack on one party's records."""

    name: str
    """Name of the attack."""
    target: str
    """Party whose records it is after."""
    applicable: bool = True
    """Whether the messages have what it needs."""
    finished: bool = True
    """Whether it ended before the time limit of the audit; where not, it says nothing."""
    reason: str = ""
    """Why it does not apply, or was not finished."""
    rows: int = 0
    """Number of rows it guessed."""
    exact_rate: float | None = None
    """Share of the true records recovered exactly: every value to a millionth of the largest of its
    column. ``None`` without the truth."""
    reidentification_rate: float | None = None
    """Share of the true records that are nearest to their own guess. Where guesses come in no
    order, they are matched with the records first, as well as can be."""
    chance: float | None = None
    """What a guess that knows nothing of single records scores there."""
    relative_rmse: float | None = None
    """Root mean square error, as a multiple of that of guessing every column's mean."""
    certified: bool | None = None
    """Whether the messages themselves prove the rows, without the truth: encoding them again gives
    the message, and no other rows do. ``None`` where there is no such check."""
    certified_rate: float | None = None
    """Share of the guessed rows that are proven so."""
    matching_rate: float | None = None
    """Share of guessed rows whose nearest word is the right one, with a vocabulary and the truth.
    """
    cosine: float | None = None
    """Mean cosine of a guessed row with the true vector, with a vocabulary and the truth."""
    membership_auc: float | None = None
    """How well a score tells records from outsiders (.5 is guessing): a cross-fitted likelihood
    ratio for membership attacks, the distance to the nearest guess for the others, which a trained
    attack beats."""
    membership_interval: tuple[float, float] | None = None
    """95 % interval of that (DeLong), for membership attacks."""
    membership_tpr: float | None = None
    """Share of the records that are named where 1 % of the outsiders are, for membership attacks.
    """
    agreement: float | None = None
    """How often a copy of the model, trained on its answers alone, gives the model's label for
    inputs that it was not trained on."""
    agreement_chance: float | None = None
    """What always naming the commonest label scores there."""
    facts: bool = False
    """Whether it read facts (sizes, numbers of rounds) rather than records."""
    note: str = ""
    """A sentence that the verdict adds."""
    ordered: bool = False
    """Whether the i-th row stands for the i-th record."""
    recovered: Array | None = field(default=None, repr=False)
    """The rows (k, d); not in ``to_dict``."""

    @property
    def verdict(self) -> str:
        """What the attack achieved, in words."""
        return f"{self._finding()}{f'; {self.note}' if self.note else ''}"

    @property
    def tells_members(self) -> bool:
        """Whether it separates records from outsiders: the 95 % interval is above .5."""
        return self.membership_interval is not None and self.membership_interval[0] > 0.5

    @property
    def tells_more(self) -> bool:
        """Whether it recovered something else than records."""
        return self.tells_members or self.agreement is not None or self.facts

    def _finding(self) -> str:
        if not self.finished:
            return f"not finished: {self.reason}"
        if not self.applicable:
            return f"not tried: {self.reason}"
        if self.membership_interval is not None:
            return self._membership()
        if self.agreement is not None:
            chance = _percent(self.agreement_chance or 0.0)
            return (
                f"a copy trained on the answers gives the model's label for "
                f"{_percent(self.agreement)} of inputs it was not trained on (the commonest label: "
                f"{chance})"
            )
        return "facts were read" if self.facts else self._recovered()

    def _recovered(self) -> str:
        if self.exact_rate is None:
            return self._unmeasured()
        if self.exact_rate > 0:
            share = f"{_percent(self.exact_rate)} of the records were"
            return f"{'every record was' if self.exact_rate == 1.0 else share} recovered exactly"
        near, chance = self.reidentification_rate or 0.0, self.chance or 0.0
        return (
            f"no record was recovered exactly by this attack, which proves nothing; "
            f"{_percent(near)} of the records are nearest to their own guess; guesses without "
            "information reach "
            f"{_percent(chance)}"
        )

    def _membership(self) -> str:
        low, high = self.membership_interval or (0.0, 1.0)
        text = (
            f"membership AUC {self.membership_auc or 0.0:.3f} (95 % interval {low:.3f} to "
            f"{high:.3f}), {_percent(self.membership_tpr or 0.0)} of the records identified "
            "at 1 % false alarms"
        )
        if self.tells_members:
            return text
        return f"{text}: this score does not separate members here, but a better one may"

    def _unmeasured(self) -> str:
        if self.certified:
            return f"{self.rows} rows were recovered, and the messages prove that they are records"
        if self.certified_rate:
            proven = _percent(self.certified_rate)
            return f"{self.rows} rows were guessed; the messages prove {proven} of them"
        return f"{self.rows} rows were guessed; nothing in the messages proves them"

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON; not the rows."""
        hidden = ("facts", "note", "ordered", "recovered")
        names = [field.name for field in fields(self) if field.name not in hidden]
        return {**{name: getattr(self, name) for name in names}, "verdict": self.verdict}


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Reported):
    """What attacks compute from what one party saw of a run.

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
    level
        Level of the most detailed answer that was seen, ``""`` where none was.
    refused
        How many questions were refused or failed.
    time_limit
        Seconds after which attacks were stopped; ``None`` where all came to their end.
    """

    view: ClassVar = "view:audit"

    viewpoint: str
    protocol: str
    targets: tuple[str, ...]
    attacks: tuple[Attack, ...]
    image_shape: tuple[int, ...] | None = None
    truth: dict[str, Array] = field(default_factory=dict[str, Array], repr=False)
    level: str = ""
    refused: int = 0
    time_limit: float | None = None

    def of(self, target: str) -> tuple[Attack, ...]:
        """Return the attacks on one party."""
        return tuple(attack for attack in self.attacks if attack.target == target)

    def best(self, target: str) -> Attack | None:
        """Return the attack that recovered most of a party's records, ``None`` if none guessed."""
        applied = [one for one in self.of(target) if one.applicable and one.recovered is not None]
        return max(applied, key=_strength, default=None)

    @property
    def exact_rates(self) -> dict[str, float | None]:
        """Largest exact rate by target; ``None`` where nothing was measured.

        Nothing is measured without the truth, or where no attack applied: 0 would read as a result.
        """
        return {
            target: max(
                (one.exact_rate for one in self.of(target) if one.exact_rate is not None),
                default=None,
            )
            for target in self.targets
        }

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of all attacks on every party, in words."""
        return {target: self._about(target) for target in self.targets}

    @property
    def verdict(self) -> str:
        """All verdicts as one text, which attacks were tried and finished, and what they prove."""
        tried = f"tried: {', '.join(self.tried) or 'nothing'}"
        cut = [f"not finished: {', '.join(self.not_finished)}"] if self.not_finished else []
        not_tried = f"not tried: {'; '.join(self.not_tried)}"
        return ". ".join([self.findings, tried, *cut, not_tried, SILENCE])

    @property
    def findings(self) -> str:
        """All verdicts as one text, which must never be shown without ``SILENCE``."""
        if not self.targets:
            return "no records were attacked: there is no message of another party"
        return "; ".join(f"{target}: {text}" for target, text in self.verdicts.items())

    @property
    def tried(self) -> tuple[str, ...]:
        """Attacks that applied to some party, and were finished."""
        return tuple(dict.fromkeys(one.name for one in self.attacks if one.applicable))

    @property
    def not_finished(self) -> tuple[str, ...]:
        """Attacks that the time limit cut off, and on whom."""
        targets: dict[str, list[str]] = {}
        for one in self.attacks:
            if not one.finished:
                targets.setdefault(one.name, []).append(one.target)
        return tuple(f"{name} on {' and '.join(whom)}" for name, whom in targets.items())

    @property
    def not_tried(self) -> tuple[str, ...]:
        """Attacks that did not run, with the reason, and kinds of attack that silot lacks."""
        tried = set(self.tried)
        reasons: dict[str, str] = {}
        for one in self.attacks:
            if not one.applicable and one.finished and one.name not in tried:
                reasons.setdefault(one.name, one.reason)
        # Whoever runs the audit can give what these need.
        needs = [f"{name} ({why})" for name, why in reasons.items() if why.startswith(NEEDS)]
        others = [name for name, why in reasons.items() if not why.startswith(NEEDS)]
        lacking = [f"{', '.join(others)} (the messages lack what they work on)"] if others else []
        return (*needs, *lacking, *NEVER_TRIED)

    def _about(self, target: str) -> str:
        best = self.best(target)
        records = self._nothing(target) if best is None else self._recovered(best)
        more = [f"{one.verdict} ({one.name})" for one in self.of(target) if one.tells_more]
        parts = [*more, records] if records.startswith(_UNDECIDED) else [records, *more]
        cut = sum(not one.finished for one in self.of(target))
        if cut:
            parts.append(f"{cut} attack(s) were not finished")
        if self.level == "record" and (best is None or best.exact_rate != 1.0):
            parts.append("answers of level record were seen: treat the records as disclosed")
            if best is None or not best.certified:
                parts.append("longer searches may recover them")
        return "; ".join(parts)

    def _nothing(self, target: str) -> str:
        tried = any(one.applicable for one in self.of(target))
        cut = any(not one.finished for one in self.of(target))
        how = "no attack guesses records"
        if not tried:
            how = "no attack was finished" if cut else "no attack applies to these messages"
        text = f"{_UNDECIDED}, {how}"
        if self.refused:
            text += (
                f"; {self.refused} questions were refused or failed, which says nothing about "
                "other questions"
            )
        return text

    def _recovered(self, best: Attack) -> str:
        by = f" ({best.name})"
        if best.exact_rate is None:
            if best.certified:
                return f"{best.rows} records recovered, proven by the messages{by}"
            if best.certified_rate:
                proven = _percent(best.certified_rate)
                return f"{best.rows} rows guessed, {proven} of them proven by the messages{by}"
            return f"{_UNDECIDED} for certain; {best.rows} rows guessed{by}"
        if best.exact_rate > 0:
            return f"{_percent(best.exact_rate)} of the records recovered exactly{by}"
        near, chance = best.reidentification_rate or 0.0, best.chance or 0.0
        return (
            f"{_UNDECIDED}; the best guess is nearest to its own record for {_percent(near)} "
            f"of them; guesses without information reach {_percent(chance)}{by}"
        )

    @property
    def value(self) -> dict[str, float | None]:
        """Share of each party's records that an attack recovered exactly."""
        return self.exact_rates

    @property
    def disclosure(self) -> str:
        """The level of the run that was attacked."""
        return self.level

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON; no records."""
        return {
            "viewpoint": self.viewpoint,
            "protocol": self.protocol,
            "targets": list(self.targets),
            "level": self.level,
            "refused": self.refused,
            "exact_rates": self.exact_rates,
            "verdict": self.verdict,
            "tried": list(self.tried),
            "not_finished": list(self.not_finished),
            "time_limit": self.time_limit,
            "not_tried": list(self.not_tried),
            "warning": SILENCE,
            "attacks": [attack.to_dict() for attack in self.attacks],
        }

    def __repr__(self) -> str:
        return f"Audit({self.protocol} seen by {self.viewpoint!r}: {self.verdict})"


def _strength(attack: Attack) -> tuple[float, float, float, float]:
    # Smaller errors are those of rounding, which differ from machine to machine.
    return (
        attack.exact_rate or 0.0,
        float(bool(attack.certified)) + (attack.certified_rate or 0.0),
        attack.reidentification_rate or 0.0,
        -(np.inf if attack.relative_rmse is None else max(attack.relative_rmse, 1e-9)),
    )


def _percent(share: float) -> str:
    text = f"{100 * share:.1f}"
    # Rounding must not turn nearly all into all.
    return f"{'99.9' if text == '100.0' and share < 1 else text.removesuffix('.0')} %"


@dataclass(frozen=True, kw_only=True)
class PolicyAttack:
    """An attack on single people, and how well it does.

    Attributes
    ----------
    name
        What is attacked, and by what.
    knows
        What the attacker knows beforehand.
    auc, interval
        Area under its curve, with the 95 % interval of the tries; guessing has 0.5.
    power, power_error
        Share of the present records that it finds at 1 % false alarms, and its standard error;
        guessing has 0.01.
    bound_auc, bound_power
        What the budget proves that no attack exceeds; ``None`` where nothing bounds it.
    """

    name: str
    knows: str
    auc: float
    interval: tuple[float, float]
    power: float
    bound_auc: float | None
    bound_power: float | None
    power_error: float = 0.0

    @property
    def is_above(self) -> bool:
        """Whether it does better than the bound, by more than three standard errors."""
        # The interval is 1.96 standard errors each way.
        error = (self.interval[1] - self.auc) / 1.96
        return self.bound_auc is not None and self.auc - 3.0 * error > self.bound_auc + 1e-9


def _compared_with_proof(attack: PolicyAttack) -> str:
    """Say where a measured area lies: a measurement may exceed a true limit by its error."""
    if attack.is_above:
        return "this is more than three standard errors above the proven limit"
    if attack.bound_auc is not None and attack.auc > attack.bound_auc:
        return "within the error of the measurement, this agrees with the proven limit"
    return "this is below the proven limit"


@dataclass(frozen=True, kw_only=True)
class PolicyAudit(Reported):
    """What an asker learns about single people under a policy, for each attack.

    Attributes
    ----------
    attacks
        One entry an attack.
    records, dimension
        Size of the data.
    recovered
        Number of records that were sent as they are.
    bound
        What the policy discloses at most, by its own account.
    untried
        What was not tried.
    """

    view: ClassVar = "view:policy"

    attacks: tuple[PolicyAttack, ...]
    records: int
    dimension: int
    recovered: int
    bound: str
    untried: str

    @property
    def status(self) -> str:
        """The result of the audit in a sentence, and what was not tried."""
        if self.recovered:
            text = f"{self.recovered} of {self.records} records are sent to every asker"
        elif not self.attacks:
            text = "nothing is answered"
        else:
            best = max(self.attacks, key=lambda attack: attack.auc)
            text = f"the best attack ({best.name}) has an area under the curve of {best.auc:.3f}"
            if best.bound_auc is None:
                text += ", and no proof limits it"
            else:
                text += f"; {_compared_with_proof(best)} {best.bound_auc:.3f}"
        return f"{text}. Not tried: {self.untried}"

    @property
    def value(self) -> float | None:
        """Area under the curve of the best attack; ``None`` where nothing is answered."""
        return max((attack.auc for attack in self.attacks), default=None)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where it lies in 95 % of cases."""
        return max(self.attacks, key=lambda attack: attack.auc).interval if self.attacks else None

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            **vars(self),
            "attacks": [vars(attack) for attack in self.attacks],
            "status": self.status,
        }
