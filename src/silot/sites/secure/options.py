"""The public options of a secure distance: all parties must give the same."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from silot_transport._check import flag

from ...data.measure import Embedding
from ...errors import InputError
from ...options import Check, number, word
from ._effort import choose_effort
from ._engine import PARTIES, check_protocol
from ._inputs import SecureInputs, mu_of_laplace
from ._program import Noise, Program

Role = Literal["a", "b", "third"]
Accuracy = Literal["fast", "normal"]
ROLES: tuple[Role, ...] = ("a", "b", "third")


@dataclass(frozen=True, kw_only=True)
class SecureOptions:
    r"""Public options of one secure distance.

    Attributes
    ----------
    scale
        Public length that fits the data: records may lie up to 65,536 scales from their mean
        (64 with two parties), and distances below about 1e-4 scales (1e-2) are not told apart
        from 0. It must not be read off private data.
    two_party
        Compute between the two holders alone, by CHEETAH: slower, for about 100 records.
    protocol
        ``"aby3"`` or ``"cheetah"``; chosen by ``two_party`` when left out.
    receiver
        Who receives the number: ``"a"``, ``"b"`` or ``"third"``, the coordinator. By default the
        coordinator, or ``"a"`` with two parties.
    privacy_epsilon
        Adds noise to the squared distance before it is opened, so that what is opened is
        differentially private for replacing one record of either holder, as long as the bounds
        are close for neighbouring data too (``docs/secure.md``).
    diameter
        Public diameter of the ball around the origin that records are clipped to; with
        ``privacy_epsilon`` only.
    embedding
        Label coordinates added to the records first.
    accuracy
        ``"normal"``: usually within 0.5 % of W2, in up to four parts; before each further one
        all parties learn that the bounds were not close yet. ``"fast"``: usually within 2 %, in
        one part.

    Raises
    ------
    InputError
        An option out of range; a protocol whose shares one party could open (code
        ``"secure-trust"``).

    Examples
    --------
    >>> SecureOptions(two_party=True).protocol
    'cheetah'
    """

    scale: float = 1.0
    two_party: bool = False
    protocol: str = ""
    receiver: str = ""
    privacy_epsilon: float | None = None
    diameter: float | None = None
    embedding: Embedding = "none"
    accuracy: Accuracy = "normal"

    def __post_init__(self) -> None:
        self._check("scale", number(above=0))
        two = flag(self.two_party, "two_party", "option-two-party")
        if not self.protocol:
            object.__setattr__(self, "protocol", "cheetah" if two else "aby3")
        check_protocol(self.protocol)
        object.__setattr__(self, "two_party", self.parties == 2)
        if not self.receiver:
            object.__setattr__(self, "receiver", "a" if self.two_party else "third")
        self._check("receiver", word(*ROLES[: self.parties]))
        self._check("accuracy", word(*get_args(Accuracy)))
        if self.privacy_epsilon is not None:
            self._check("privacy_epsilon", number(above=0))
            if self.diameter is None:
                raise InputError(
                    "privacy_epsilon needs a diameter: the public bound that records are clipped "
                    "to, which decides how much noise is enough.",
                    code="option-diameter",
                )
            if self.embedding != "none":
                raise InputError(
                    "label vectors depend on all records, so noise for one record is not enough. "
                    "Leave labels or privacy_epsilon out.",
                    code="release-embedding",
                )
        if self.diameter is not None:
            self._check("diameter", number(above=0))
            if self.privacy_epsilon is None:
                raise InputError(
                    "diameter clips records for the sake of noise. Give privacy_epsilon too.",
                    code="option-diameter",
                )

    def _check(self, name: str, check: Check) -> None:
        check.of(getattr(self, name), name, f"option-{name.replace('_', '-')}")

    @property
    def parties(self) -> int:
        """Number of parties that compute."""
        return PARTIES[self.protocol]

    def public(self) -> dict[str, str | float | bool | None]:
        """Return the options by name, as parties compare them."""
        return asdict(self)

    def digest(self) -> str:
        """Return a digest by which parties see whether they agree."""
        return hashlib.sha256(json.dumps(self.public(), sort_keys=True).encode()).hexdigest()

    def tolerance(self, sizes: tuple[int, ...]) -> float:
        """Return how far the bounds may be apart when noise is added, in units of ``diameter``²."""
        return max(1.0 / min(sizes), 0.002)

    def sensitivity(self, sizes: tuple[int, ...]) -> float:
        r"""Return how far replacing one record moves the number before noise, at most.

        .. math:: \Delta = D^2 / n + \tau D^2

        The first term is what it moves :math:`W^2`; the second is the error of the computed
        number, on either side together.
        """
        if self.diameter is None:
            return math.inf
        return self.diameter**2 * (1.0 / min(sizes) + self.tolerance(sizes))

    def program(self, sizes: tuple[int, ...], split: int, dimension: int) -> Program:
        """Return the program for public sizes."""
        is_noisy = self.privacy_epsilon is not None
        effort = choose_effort(self.protocol, sizes, dimension, self.accuracy, noisy=is_noisy)
        noise = None
        if self.diameter is not None and self.privacy_epsilon is not None:
            if self.diameter > effort.largest * self.scale:
                # A holder with such records would stop the run, which no noise hides.
                raise InputError(
                    f"diameter is more than {effort.largest:g} scales. Agree on a larger scale.",
                    code="option-diameter",
                )
            largest = (self.diameter / self.scale) ** 2
            # 60 scales of each holder's noise below every number: no noise bridges that by chance.
            failed = -(largest + 60.0 * len(sizes) * self._noise_scale(sizes))
            noise = Noise(largest, largest * self.tolerance(sizes), failed)
        return Program(self.protocol, sizes, split, dimension, effort, noise)

    def inputs(self, program: Program) -> SecureInputs:
        """Return what each holder prepares for the program."""
        effort = program.effort
        return SecureInputs(
            scale=self.scale, largest=effort.largest, unit=effort.unit, lightest=effort.lightest,
            diameter=self.diameter or 0.0, noise=self._noise_scale(program.sizes),
            embedding=self.embedding,
        )  # fmt: skip

    def _noise_scale(self, sizes: tuple[int, ...]) -> float:
        """Return the scale of each holder's noise, in units of ``scale`` squared; 0 for none."""
        if self.privacy_epsilon is None:
            return 0.0
        return self.sensitivity(sizes) / self.privacy_epsilon / self.scale**2

    @property
    def privacy_mu(self) -> float:
        """The mu that a run is charged; 0 for an exact number."""
        return 0.0 if self.privacy_epsilon is None else mu_of_laplace(self.privacy_epsilon)
