"""Questions that are answered with noise, and charged to the holder's ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .answer import Answer
from .disclosure import Disclosure
from .question import Array, Codes, Names, Question


@dataclass(frozen=True, kw_only=True)
class Release(Question):
    r"""Base of questions whose answer is differentially private.

    A release is a vector of integers of the records, :math:`f(D)`, plus discrete Gaussian noise
    of a scale that spends ``privacy_mu``, with :math:`\Delta` the most that adding or removing one
    record moves :math:`f` in the Euclidean norm. The holder draws the noise and charges
    ``privacy_mu`` to its ledger first; the exact vector never leaves it. All fields are public:
    none may be fitted on the records of any holder. ``exact`` must not raise for some records and
    answer for others, for that would distinguish them without noise; what the question lacks is
    for ``check`` and ``sensitivity`` to say.

    Attributes
    ----------
    privacy_mu
        What the release spends: mu of Gaussian differential privacy, as
        ``silot.privacy.accounting`` counts it.
    """

    mechanism: ClassVar[str] = ""
    """What ledgers call it; its noise is discrete Gaussian, whatever stands here."""

    level: ClassVar[Disclosure] = Disclosure.PRIVATE

    privacy_mu: float

    @property
    def sensitivity(self) -> float:
        """Most that one record moves ``exact``, in the Euclidean norm."""
        raise InputError(f"{type(self).__name__} is not a question.", code="question-unknown")

    def public(self) -> dict[str, Any]:
        """Return what a ledger notes: the fields, arrays by their shape and digest."""
        noted: dict[str, Any] = {"sensitivity": self.sensitivity}
        for item in fields(self):
            value = cast("object", getattr(self, item.name))
            if isinstance(value, np.ndarray):
                array = np.ascontiguousarray(cast("npt.NDArray[Any]", value))
                digest = hashlib.sha256(array.tobytes()).hexdigest()
                value = {"shape": list(array.shape), "sha256": digest}
            noted[item.name] = value
        return noted

    def check(self, dimension: int, labelled: bool) -> None:
        """Raise what can be known to fail without the records; nothing is charged then."""

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        """Compute the vector before noise, from records and their masses (1 without weights)."""
        raise InputError(f"{type(self).__name__} is not a question.", code="question-unknown")

    def answer_of(self, noisy: Codes) -> Answer:
        """Build the answer from the vector with its noise."""
        raise InputError(f"{type(self).__name__} is not a question.", code="question-unknown")

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        """Refuse: only a holder with a ledger answers a release."""
        raise InputError(
            f"{self.kind!r} is answered with noise, by a holder with a ledger.",
            code="ledger-absent",
        )
