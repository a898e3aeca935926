"""How far apart holders of one law would be by chance: asked of holders, or told by sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from silot_transport.chance import Chance

from ...distances.methods import Comparing, Joint
from ...distances.questions import OWN_SPLITS, OwnChance
from ...distances.result import DistanceMatrix
from ...errors import WireError
from ...federation.answer import WAITING, Answer, Failure
from ...federation.disclosure import Disclosure
from ...federation.protocol import Protocol, Steps, failure_error
from ...federation.question import Answerer
from ...federation.result import Billed

Array = npt.NDArray[np.float64]

LEVEL = 0.05
"""Chance that any distance is above its level, where all holders have one law."""


@dataclass(frozen=True, kw_only=True)
class Chances(Billed):
    """What two samples of each holder's own law show.

    Attributes
    ----------
    laws
        By holder that told it.
    missing
        By holder that told nothing, why: a code, or ``"records-few"``.
    status
        How many told it.
    """

    laws: Mapping[str, Chance] = field(repr=False)
    missing: Mapping[str, str]
    status: str

    def to_dict(self) -> dict[str, Any]:
        laws = {name: vars(law) for name, law in self.laws.items()}
        return {
            "laws": laws,
            "missing": dict(self.missing),
            "status": self.status,
            **self._bill_dict(),
        }


class OwnChances(Comparing, Joint[Chances]):
    """Ask every holder how far apart two samples of its own law are, at its size.

    Returns
    -------
    Protocol[Chances]
        Discloses three numbers of every holder that tells them; who refuses is left out.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> fed = LocalFederation({"a": np.random.default_rng(0).normal(size=(40, 2))})
    >>> 0.2 < fed.run(OwnChances().among(["a"])).laws["a"].mean < 0.8
    True
    """

    name = "own-chances"
    disclosure: ClassVar[Disclosure] = Disclosure.SCALAR

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Chances]:
        names = tuple(holders)
        return Protocol(
            self.name, names, self.disclosure, lambda: self._steps(names),
            self.values("p", "embedding"),
        )  # fmt: skip

    def _steps(self, names: tuple[str, ...]) -> Steps[Chances]:
        answers = yield dict.fromkeys(names, OwnChance(p=self.p, embedding=self.embedding))
        laws: dict[str, Chance] = {}
        missing: dict[str, str] = {}
        for name in names:
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                if answer.kind == WAITING:
                    # Whoever decides later is asked again: the run goes on then.
                    raise failure_error(name, answer)
                missing[name] = answer.code
            elif "mean" in answer.scalars:
                laws[name] = _law(answer)
            else:
                missing[name] = "records-few"
        status = f"told by {len(laws)} of {len(names)} holders"
        return Chances(laws=laws, missing=missing, status=status)


def _law(answer: Answer) -> Chance:
    mean, spread, error = numbers = [answer.number(name) for name in ("mean", "spread", "error")]
    if not (np.isfinite(numbers).all() and min(numbers) >= 0):
        raise WireError(
            "the answer has numbers that are no distances. The holder runs other code, or a "
            "broken one.",
            code="answer-malformed",
        )
    return Chance(mean, spread, error, OWN_SPLITS - 1)


@dataclass(frozen=True, eq=False)
class ChanceLevels:
    """What distances of pairs are by chance, where their holders have one law.

    Attributes
    ----------
    level
        What all distances of one law stay below in 95 % of cases (N, N); 0 where nothing is known.
    spread
        Standard deviation of such a distance (N, N).
    known
        Whether anything is known of the pair (N, N).
    """

    level: Array = field(repr=False)
    spread: Array = field(repr=False)
    known: npt.NDArray[np.bool_] = field(repr=False)

    @property
    def aside(self) -> npt.NDArray[np.bool_]:
        """Holders without whom all is known of the others (N,); none where nothing is of any."""
        aside = np.zeros(len(self.known), dtype=bool)
        if not self.known[np.triu_indices(len(aside), 1)].any():
            return aside
        while (lone := (~self.known & ~aside & ~aside[:, None]).sum(axis=0)).any():
            aside[int(lone.argmax())] = True
        return aside


def chance_levels(
    names: Sequence[str],
    laws: Mapping[str, Chance],
    matrix: DistanceMatrix,
    level: float = LEVEL,
) -> ChanceLevels:
    r"""Chance levels of pairs, from what two samples of each holder's law show.

    .. math::
        c_{ij} = m_{ij} + 2 e_{ij} + t_{1 - 0.05 / P} \, s_{ij}, \qquad
        m_{ij}^p = (m_i^p + m_j^p) / 2

    and likewise for the spread s and the error e: what a sample adds to ``W_p^p`` adds up over the
    two sides. P is the number of pairs, t the quantile of Student's law. Of a pair that did not
    both tell, only its own ``Distance.chance`` says anything: the law of one holder at its size
    says little of another size. ``level`` is used in place of 0.05.
    """
    size, p = len(names), matrix.p
    pairs = size * (size - 1) // 2
    levels, spread, known = np.zeros((size, size)), np.zeros((size, size)), np.eye(size) > 0
    for i, j in combinations(range(size), 2):
        sides = [laws[name] for name in (names[i], names[j]) if name in laws]
        own = matrix[names[i], names[j]].chance
        if len(sides) == 2:
            mean, far, error = (
                float(np.mean([getattr(side, part) ** p for side in sides]) ** (1.0 / p))
                for part in ("mean", "spread", "error")
            )
            freedom = min(side.freedom for side in sides)
            levels[i, j] = mean + 2.0 * error + float(stdtrit(freedom, 1.0 - level / pairs)) * far
            spread[i, j] = far
        elif own is not None:
            levels[i, j] = own
        known[i, j] = len(sides) == 2 or own is not None
    upper = np.triu_indices(size, 1)
    for part in (levels, spread, known):
        part.T[upper] = part[upper]
    return ChanceLevels(levels, spread, known)


__all__ = ["LEVEL", "ChanceLevels", "Chances", "OwnChances", "chance_levels"]
