"""What the divergence protocols share: who answers, and how wide their data are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from silot_transport._check import whole

from ..data.measure import Embedding
from ..distances.sides import agree_on_dimension, describe_missing, keep_present
from ..errors import InputError, SilotError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Answers, Protocol, Questions, Steps, failure_error
from ..options import Options, anything, option, seed
from .divergence import Divergences
from .federated.questions.columns import Spread

T = TypeVar("T")

# Squares of larger numbers, and sums of these, come near to overflow.
_LARGEST = 1e100
_MOST_RECORDS = 1 << 31


@dataclass
class Devices:
    """Devices of one run: who still answers, and why the others do not."""

    names: tuple[str, ...]
    quorum: int
    seed: int
    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])

    @classmethod
    def of(cls, holders: Sequence[str], quorum: int, seed: int) -> Devices:
        """Check names and quorum."""
        names = tuple(holders)
        if len(names) < 2:
            raise InputError(
                f"{len(names)} device(s) given; a divergence needs two or more.",
                code="holder-names",
            )
        least = whole(quorum, "quorum", "option-quorum", least=2, most=len(names))
        return cls(names, least, whole(seed, "seed", "option-seed", least=0, most=2**63 - 1))

    def fresh(self) -> Devices:
        """The same devices before a run."""
        return Devices(self.names, self.quorum, self.seed)

    def ask(self, questions: Questions) -> Steps[dict[str, Answer]]:
        """Ask, and go on without those that fail, down to the quorum."""
        answers = yield questions
        left = self.left(answers, tuple(questions))
        return {name: answer for name in left if isinstance(answer := answers[name], Answer)}

    def read(
        self, answers: Mapping[str, Answer], reader: Callable[[str, Answer], T]
    ) -> dict[str, T]:
        """What the answers hold, without those that cannot be read, down to the quorum."""
        found: dict[str, T] = {}
        for name, answer in answers.items():
            try:
                found[name] = reader(name, answer)
            except SilotError as error:
                self.missing[name] = Failure(error.code)
        self.check()
        return found

    def left(self, answers: Answers, asked: Sequence[str]) -> tuple[str, ...]:
        """Names among the asked that answered; the others are missing from now on."""
        return keep_present(answers, asked, self.missing, self.quorum)

    def check(self) -> None:
        """Raise what the first failure means, when too few are left."""
        if len(self.names) - len(self.missing) < self.quorum:
            raise failure_error(*next(iter(self.missing.items())))

    @property
    def codes(self) -> dict[str, str]:
        """Why devices are missing."""
        return {name: self.missing[name].code for name in sorted(self.missing)}

    @property
    def note(self) -> str:
        """How a status names them."""
        return describe_missing(self.missing)


class Divergence(Options):
    """A way to compare all devices with one another.

    Attributes
    ----------
    name
        Name to ask for it by.
    disclosure
        Finest thing it discloses.
    sends, needs, guarantees, privacy
        In words.
    """

    disclosure: ClassVar[Disclosure] = Disclosure.RECORD
    sends: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    guarantees: ClassVar[str] = ""
    privacy: ClassVar[str] = ""

    seed: int = option(
        "Seed of everything drawn. The result does not depend on the order of ``holders``.",
        seed(),
        default=0,
    )
    quorum: int = option(
        "Fewest devices that must answer. One that fails is named in ``missing`` and left out.",
        # How many are too many, the devices say.
        anything("int, 2 or more"),
        default=2,
    )

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """Names of its options beside ``seed`` and ``quorum``."""
        return tuple(name for name in cls.options if name not in ("seed", "quorum"))

    @classmethod
    def check(cls, options: Mapping[str, object]) -> None:
        unknown = sorted(set(options) - set(cls.options))
        if unknown:
            raise cls.stranger(unknown[0])

    @classmethod
    def stranger(cls, name: str) -> InputError:
        """The error of an option that it has not."""
        return InputError(
            f"method {cls.name!r} has no option {name!r}; it takes {', '.join(cls.takes())}.",
            code="option-unknown",
        )

    @classmethod
    def build(cls, **options: Any) -> Divergence:
        """The divergence of options by name."""
        return cls(**options)

    def among(self, holders: Sequence[str]) -> Protocol[Divergences]:
        """The protocol of some devices."""
        devices = Devices.of(holders, self.quorum, self.seed)
        return Protocol(
            self.name,
            devices.names,
            self.disclosure,
            lambda: self.steps(devices.fresh()),
            self.parameters(),
            expected_rounds=self.most_rounds(devices.names),
        )

    def most_rounds(self, names: tuple[str, ...]) -> int:
        """Most exchanges it makes among some devices."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Scalar]:
        """Options as transcripts tell them."""
        raise NotImplementedError

    def steps(self, run: Devices) -> Steps[Divergences]:
        """Questions, and the divergences that follow from the answers."""
        raise NotImplementedError


@dataclass(frozen=True)
class Width:
    """Mean and variance of every device, and what follows for all together.

    Everything is added up in the order of names, or rounding would depend on the order given.
    """

    means: Mapping[str, Array]
    variances: Mapping[str, Array]
    records: int

    @property
    def names(self) -> tuple[str, ...]:
        """Devices that told, in the order they were given."""
        return tuple(self.means)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return len(self.means[self.names[0]])

    @property
    def centre(self) -> Array:
        """Mean of the devices' means."""
        return np.mean([self.means[name] for name in sorted(self.means)], axis=0)

    @property
    def within(self) -> float:
        """Total variance of a device's records, on average."""
        return float(np.mean([self.variances[name].sum() for name in sorted(self.means)]))

    @property
    def pooled(self) -> Array:
        """Variance of every feature over all devices, each counted alike."""
        centre = self.centre
        parts = [self.variances[k] + (self.means[k] - centre) ** 2 for k in sorted(self.means)]
        return np.mean(parts, axis=0)


def ask_width(devices: Devices, embedding: Embedding = "none") -> Steps[Width]:
    """Ask every device for its mean and variances."""
    answers = yield from devices.ask(dict.fromkeys(devices.names, Spread(embedding=embedding)))
    told = devices.read(answers, lambda _, answer: _width(answer))
    agree_on_dimension({name: len(mean) for name, (mean, _, _) in told.items()})
    return Width(
        {name: mean for name, (mean, _, _) in told.items()},
        {name: variance for name, (_, variance, _) in told.items()},
        min(records for _, _, records in told.values()),
    )


def _width(answer: Answer) -> tuple[Array, Array, int]:
    """Mean, variances, and number of records of a device."""
    mean = within(answer.array("mean", ndim=1), _LARGEST)
    variance = within(answer.array("variance", ndim=1, columns=len(mean)), _LARGEST**2)
    records = answer.number("records")
    if variance.min() < 0 or records != int(records) or not 1 <= records <= _MOST_RECORDS:
        raise odd("a variance below 0, or records that are no count")
    return mean, variance, int(records)


def within(numbers: Array, most: float = _LARGEST) -> Array:
    """Return numbers of an answer, or raise when one is larger than it can be."""
    if np.abs(numbers).max() > most:
        raise odd("numbers larger than they can be")
    return numbers


def odd(what: str) -> WireError:
    """An answer that is none."""
    return WireError(
        f"the answer has {what}. The holder runs other code, or a broken one.",
        code="answer-malformed",
    )


def symmetric(size: int, pairs: Mapping[tuple[int, int], float]) -> Array:
    """A matrix from its entries above (or below) the diagonal; zero where there is none."""
    matrix = np.zeros((size, size))
    for (i, j), value in pairs.items():
        matrix[i, j] = matrix[j, i] = value
    return matrix
