"""The public options of a secure distance: all parties must give the same."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Literal, get_args

from ...data.measure import Embedding
from ...distances.shared_options import embedding_option, switch
from ...errors import InputError
from ...options import Options, anything, none_or, number, option, word
from ._effort import choose_effort
from ._engine import PARTIES, check_protocol
from ._inputs import SecureInputs, mu_of_laplace
from ._program import Noise, Program

Role = Literal["a", "b", "third"]
Accuracy = Literal["fast", "normal"]
ROLES: tuple[Role, ...] = ("a", "b", "third")


class SecureFields(Options):
    """The options of a secure distance, as a user gives them."""

    scale: float = option("Public length of about the spread of the data.", number(), default=1.0)
    two_party: bool = switch("Compute without any third party. Slower, for about 100 records.")
    protocol: str = option(
        "Protocol of secret sharing; ``two_party`` chooses it.",
        anything("'aby3' or 'cheetah'"),
        default="",
        flag=False,
    )
    receiver: str = option(
        "The party that receives the number. The coordinator by default.",
        anything("'a', 'b' or 'third'"),
        default="",
        flag=False,
    )
    privacy_epsilon: float | None = option(
        "Budget of the noise that is added to the number.", none_or(number()), default=None
    )
    diameter: float | None = option(
        "With privacy_epsilon: public diameter of the ball that records are clipped to.",
        none_or(number()),
        default=None,
    )
    embedding: Embedding = embedding_option()
    accuracy: Accuracy = option(
        "How accurate the value is: fast is usually within 2 %, normal within 0.5 %.",
        word(*get_args(Accuracy)),
        default="normal",
    )


class SecureOptions(SecureFields):
    """Public options of one secure distance.

    Records may lie up to 65,536 scales from their mean (64 with two parties), and distances below
    about 1e-4 scales (1e-2) cannot be distinguished from 0. The scale must not be read off private
    data.

    By default the protocol is ``"aby3"``, and the receiver ``"third"``, which is the coordinator;
    with two parties they are ``"cheetah"`` and ``"a"``.

    Noise is added to the squared distance before it is opened, so that what is opened is
    differentially private for replacing one record of either holder, as long as the bounds are
    close for neighbouring data too (``docs/secure.md``). The ball is around the origin.

    Accuracy ``"normal"`` takes up to four parts; before each further one all parties learn that
    the bounds were not close yet. ``"fast"`` takes one part.

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

    def fit(self) -> None:
        for name in ("scale", "privacy_epsilon", "diameter"):
            none_or(number(above=0)).of(
                getattr(self, name), name, f"option-{name.replace('_', '-')}"
            )
        if not self.protocol:
            object.__setattr__(self, "protocol", "cheetah" if self.two_party else "aby3")
        check_protocol(self.protocol)
        object.__setattr__(self, "two_party", self.parties == 2)
        if not self.receiver:
            object.__setattr__(self, "receiver", "a" if self.two_party else "third")
        word(*ROLES[: self.parties]).of(self.receiver, "receiver", "option-receiver")
        if self.privacy_epsilon is not None and self.diameter is None:
            raise InputError(
                "privacy_epsilon needs a diameter: the public bound that records are clipped "
                "to, which decides how much noise is enough.",
                code="option-diameter",
            )
        if self.privacy_epsilon is not None and self.embedding != "none":
            raise InputError(
                "label vectors depend on all records, so noise for one record is not enough. "
                "Leave labels or privacy_epsilon out.",
                code="release-embedding",
            )
        if self.diameter is not None and self.privacy_epsilon is None:
            raise InputError(
                "diameter clips records for the sake of noise. Give privacy_epsilon too.",
                code="option-diameter",
            )

    @property
    def parties(self) -> int:
        """Number of parties that compute."""
        return PARTIES[self.protocol]

    def public(self) -> dict[str, str | float | bool | None]:
        """Return the options by name, as parties compare them."""
        return self.values()

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
