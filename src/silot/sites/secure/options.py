"""The public options of a secure distance: all parties must give the same."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from silot_transport._check import flag, real

from ...data.measure import Embedding
from ...errors import InputError
from ._effort import effort_for
from ._engine import PARTIES, check_protocol
from ._inputs import SecureInputs
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
        Who is told the number: ``"a"``, ``"b"`` or ``"third"``, the coordinator. By default the
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
        _positive(self.scale, "scale")
        two = flag(self.two_party, "two_party", "option-two-party")
        if not self.protocol:
            object.__setattr__(self, "protocol", "cheetah" if two else "aby3")
        check_protocol(self.protocol)
        object.__setattr__(self, "two_party", self.parties == 2)
        if not self.receiver:
            object.__setattr__(self, "receiver", "a" if self.two_party else "third")
        if self.receiver not in ROLES[: self.parties]:
            raise InputError(
                f"receiver is {self.receiver!r}; give one of {', '.join(ROLES[: self.parties])}.",
                code="option-receiver",
            )
        if self.accuracy not in get_args(Accuracy):
            raise InputError(
                f"accuracy is {self.accuracy!r}; give one of {', '.join(get_args(Accuracy))}.",
                code="option-accuracy",
            )
        if self.privacy_epsilon is not None:
            _positive(self.privacy_epsilon, "privacy_epsilon")
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
            _positive(self.diameter, "diameter")
            if self.privacy_epsilon is None:
                raise InputError(
                    "diameter clips records for the sake of noise. Give privacy_epsilon too.",
                    code="option-diameter",
                )

    @property
    def parties(self) -> int:
        """Number of parties that compute."""
        return PARTIES[self.protocol]

    def public(self) -> dict[str, str | float | bool | None]:
        """Options by name, as parties compare them."""
        return asdict(self)

    def digest(self) -> str:
        """Return a digest by which parties see whether they agree."""
        return hashlib.sha256(json.dumps(self.public(), sort_keys=True).encode()).hexdigest()

    def tolerance(self, sizes: tuple[int, ...]) -> float:
        """Most that the bounds may be apart when noise is added, in units of ``diameter``²."""
        return max(1.0 / min(sizes), 0.002)

    def sensitivity(self, sizes: tuple[int, ...]) -> float:
        r"""Most that replacing one record moves the number before noise.

        .. math:: \Delta = D^2 / n + \tau D^2

        The first term is what it moves :math:`W^2`; the second is what the computed number may
        be off, on either side together.
        """
        if self.diameter is None:
            return math.inf
        return self.diameter**2 * (1.0 / min(sizes) + self.tolerance(sizes))

    def program(self, sizes: tuple[int, ...], split: int, dimension: int) -> Program:
        """Return the program for public sizes."""
        effort = effort_for(
            self.protocol,
            sizes,
            dimension,
            self.accuracy,
            noisy=self.privacy_epsilon is not None,
        )
        noise = None
        if self.diameter is not None and self.privacy_epsilon is not None:
            if self.diameter > effort.largest * self.scale:
                # A holder would stop for its records, which no noise covers.
                raise InputError(
                    f"diameter is more than {effort.largest:g} scales. Agree on a larger scale.",
                    code="option-diameter",
                )
            largest = (self.diameter / self.scale) ** 2
            spread = self.sensitivity(sizes) / self.privacy_epsilon / self.scale**2
            noise = Noise(
                largest=largest,
                tolerance=largest * self.tolerance(sizes),
                failed=-(largest + 60.0 * len(sizes) * spread),
            )
        return Program(self.protocol, sizes, split, dimension, effort, noise)

    def inputs(self, program: Program) -> SecureInputs:
        """Return what each holder prepares for the program."""
        noise = 0.0
        if self.privacy_epsilon is not None:
            noise = self.sensitivity(program.sizes) / self.privacy_epsilon / self.scale**2
        return SecureInputs(
            scale=self.scale,
            largest=program.effort.largest,
            unit=program.effort.unit,
            lightest=program.effort.lightest,
            diameter=self.diameter or 0.0,
            noise=noise,
            embedding=self.embedding,
        )


def _positive(value: object, name: str) -> None:
    code = f"option-{name.replace('_', '-')}"
    number = real(value, name, code)
    if not 0 < number < math.inf:
        raise InputError(f"{name} is {value!r}; a number above 0 is needed.", code=code)
