"""Base classes of what is computed: a distance of two sides, or anything over several holders."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..data.measure import Embedding
from ..errors import InputError, MismatchError
from ..federation.answer import Answer
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Protocol, Steps, ask, required
from ..federation.question import Answerer, Question
from ..options import Options, anything, count, declared, none_or, number, option, order
from .result import Distance
from .shared_options import embedding_option, seed_option, switch
from .sides import Description, Reference, bound_by_moments, build_reference, describe, name_sides

P = ParamSpec("P")
R = TypeVar("R")


class Joint(Options, Generic[R]):
    """A computation over holders, with or without a measure of the coordinator's own."""

    disclosure: ClassVar[Disclosure] = Disclosure.RECORD

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[R]:
        """Build the protocol between these holders, and the coordinator's ``own`` measure."""
        raise NotImplementedError


class JointBuilder(typing.Protocol[P, R]):
    """What builds a protocol over holders from options by name."""

    def __call__(
        self, holders: Sequence[str], own: Answerer | None = None, *args: P.args,
        **options: P.kwargs,
    ) -> Protocol[R]:  # fmt: skip
        """Build the protocol: that of the class, ``among`` these holders."""
        ...


def build_joint(kind: Callable[P, Joint[R]]) -> JointBuilder[P, R]:
    """Return what builds the protocol of a class from options by name."""

    def build(
        holders: Sequence[str], own: Answerer | None = None, *args: P.args, **options: P.kwargs
    ) -> Protocol[R]:
        return kind(*args, **options).among(holders, own)

    return build


def resolve_quorum(quorum: int | None, names: Sequence[str], who: str = "holder") -> int:
    """Return how many holders must answer at least: all by default."""
    if not names:
        raise InputError(f"no {who} is named; one or more are needed.", code="holder-names")
    if quorum is not None and quorum > len(names):
        raise InputError(f"quorum is {quorum!r} for {len(names)} {who}s.", code="option-quorum")
    return len(names) if quorum is None else quorum


def require_own(own: Answerer | None, what: str) -> Answerer:
    """Return the coordinator's own measure, or raise where a computation lacks it."""
    if own is None:
        raise InputError(f"{what} needs data of your own. Give own=....", code="holder-names")
    return own


def check_weights(
    weights: Mapping[str, float], names: Sequence[str], *, who: str = "holder", of: str = "weight"
) -> dict[str, float]:
    """Return a positive number for every name, or raise an ``InputError`` that names the option."""
    if set(weights) != set(names):
        raise MismatchError(
            f"{of}s name {sorted(weights)} and the {who}s are {sorted(names)}.",
            code=f"option-{of}s",
        )
    if not all(real(value, of, f"option-{of}s") > 0 for value in weights.values()):
        raise InputError(f"{of}s must be positive numbers.", code=f"option-{of}s")
    return dict(weights)


def parse_weights(text: str | None, names: list[str]) -> dict[str, float] | None:
    """Read weights by the holders' names from the text of a flag."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(names):
        raise InputError(
            f"--weights is {text!r}; {len(names)} numbers with commas between are needed.",
            code="option-weights",
        )
    return dict(zip(names, values, strict=True))


def normalize_shares(weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Return weights of holders that sum to 1, equal ones by default."""
    shares = check_weights(dict.fromkeys(names, 1.0) if weights is None else weights, names)
    # Sorted, so that the order of the holders does not change the last digit.
    total = float(sum(sorted(shares.values())))
    return {name: float(value) / total for name, value in shares.items()}


@dataclass
class Turns:
    """Choose a few holders for each round, so that all of them take part in turn."""

    active: int | None
    """Holders a round; ``None`` for all."""
    seed: int
    """Of the order in a turn, which is drawn again for each turn."""
    _turn: int = 0
    _waiting: list[str] = field(default_factory=list[str])

    def next_holders(self, names: Sequence[str]) -> tuple[str, ...]:
        """Choose the holders of the next round from those that still take part."""
        if self.active is None:
            return tuple(names)
        self._waiting = [name for name in self._waiting if name in set(names)]
        if not self._waiting:
            # The order of names is the caller's, and must not matter.
            order = np.random.default_rng([self.seed, self._turn]).permutation(len(names))
            self._waiting = [sorted(names)[k] for k in order]
            self._turn += 1
        chosen, self._waiting = self._waiting[: self.active], self._waiting[self.active :]
        return tuple(chosen)

    @property
    def is_over(self) -> bool:
        """Whether every holder took part in this turn."""
        return not self._waiting


METHODS: dict[str, type[Pairwise]] = {}
"""The distance methods by name, those that disclose most first."""

INVERTIBLE = "none: every record can be reconstructed from the messages"


@dataclass(frozen=True)
class Sides:
    """The two sides of a distance: two holders, or one and the coordinator's own measure."""

    names: tuple[str, str]
    own: Answerer | None
    embedding: Embedding

    def ask(self, question: Question) -> Steps[tuple[Answer, Answer]]:
        """Send both sides the same question."""
        answers = yield from ask(dict.fromkeys(self.names, question), self.own)
        first, second = (required(answers, name) for name in self.names)
        return first, second

    def describe(self) -> Steps[Description]:
        """Request sizes and dimensions of both sides, which must fit together."""
        return (yield from describe(self.names, self.embedding, self.own))

    def bound_by_moments(self) -> Steps[float]:
        """Compute Gelbrich's lower bound from moments; 0 where a side refuses them."""
        return (yield from bound_by_moments(self.names, self.embedding, self.own))


class Comparing(Options):
    """Options of everything that measures distances."""

    p: int = option("Order of the distance.", order(), default=2)
    seed: int = seed_option("Seed of everything random.")
    embedding: Embedding = embedding_option()


class Pairwise(Comparing):
    """A distance between two holders, or a holder and the coordinator's own measure.

    A class with a ``name`` is a method: ``silot.distance(x, y, method=name)``, the command line,
    the matrix, worth and ``silot privacy methods`` have it.
    """

    disclosure: ClassVar[Disclosure] = Disclosure.RECORD
    sends: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    guarantees: ClassVar[str] = ""
    privacy: ClassVar[str] = INVERTIBLE
    compares_holders: ClassVar[bool] = True
    """Whether it compares two holders; others compare a holder with data of the asker alone."""
    asks: ClassVar[bool] = True
    """Whether holders answer its questions; a method with an engine of its own sends none."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # A class that inherits its name replaces nobody.
        if "name" in vars(cls):
            earlier = METHODS.get(cls.name)
            # A module may be imported again.
            if earlier and (earlier.__module__, earlier.__qualname__) != (
                cls.__module__,
                cls.__qualname__,
            ):
                raise InputError(
                    f"two distance methods are called {cls.name!r}: {earlier.__module__} has one. "
                    "Give it another name.",
                    code="option-method",
                )
            METHODS[cls.name] = cls
            ordered = sorted(METHODS.values(), key=lambda kind: (-kind.disclosure, kind.name))
            METHODS.clear()
            METHODS.update({kind.name: kind for kind in ordered})

    def steps(self, sides: Sides) -> Steps[Distance]:
        """Yield questions, and return the distance that follows from the answers."""
        raise NotImplementedError

    @property
    def most_rounds(self) -> int:
        """The largest number of exchanges with the holders."""
        return 1

    def parameters(self) -> dict[str, Scalar]:
        """Return the options that transcripts record: those that are one number or text."""
        plain = {item.name for item in declared(type(self)) if item.check.kind is not None}
        return {name: value for name, value in self.values().items() if name in plain}

    def between(
        self, a: str, b: str | None = None, own: Answerer | None = None
    ) -> Protocol[Distance]:
        """Build the protocol between two holders, or a holder and the ``own`` measure."""
        sides = Sides(name_sides(a, b, own), own, self.embedding)
        return Protocol(
            self.name,
            tuple(side for side in (a, b) if side is not None),
            self.disclosure,
            lambda: self.steps(sides),
            self.parameters(),
            expected_rounds=self.most_rounds,
        )

    def release(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Any] | None:
        """Build one answer of every holder that gives all distances: a release, or its records.

        Without one, where this is ``None``, distances are computed pair by pair.
        """
        return None

    @classmethod
    def check(cls, options: Mapping[str, object]) -> None:
        unknown = sorted(set(options) - set(cls.options))
        if unknown:
            # Callers say "labels" and "covariance" for the embedding.
            takes = ", ".join(name for name in cls.options if name != "embedding")
            having = [kind for kind in METHODS.values() if unknown[0] in kind.options]
            others = [kind.name for kind in having if kind.compares_holders]
            alone = [kind.name for kind in having if not kind.compares_holders]
            text = f" Methods that have it: {', '.join(others)}." if others else ""
            if alone:
                text += (
                    f" Method {alone[0]} also has it; it compares a holder with your own data: "
                    "`silot distance MINE HOLDER`, `silot value --validation MINE`."
                )
            raise InputError(
                f"method {cls.name!r} has no option {unknown[0]!r}; it takes {takes}.{text}",
                code="option-unknown",
            )


class PairBuilder(typing.Protocol[P]):
    """What builds the protocol of a distance from options by name."""

    def __call__(
        self, a: str, b: str | None = None, own: Answerer | None = None, *args: P.args,
        **options: P.kwargs,
    ) -> Protocol[Distance]:  # fmt: skip
        """Build the protocol: that of the class, ``between`` these sides."""
        ...


def build_pair(kind: Callable[P, Pairwise]) -> PairBuilder[P]:
    """Return what builds the protocol of a class from options by name."""

    def build(
        a: str, b: str | None = None, own: Answerer | None = None, *args: P.args,
        **options: P.kwargs,
    ) -> Protocol[Distance]:  # fmt: skip
        return kind(*args, **options).between(a, b, own)

    return build


class Referring(Comparing):
    """Options of everything that uses a public reference."""

    support: int | None = option(
        "Atoms S of the reference. With None, as many as the smaller side has records.",
        none_or(count()),
        default=None,
    )
    reference: npt.ArrayLike | None = option(
        "Atoms (S, d) to start from, instead of ``support`` random atoms.",
        anything("array (S, d), or None"),
        default=None,
    )
    reference_mean: float = option(
        "Mean of the random reference. In units of the features.",
        number(),
        default=0.0,
        code="option-reference",
    )
    reference_scale: float = option(
        "Standard deviation of the random reference. In units of the features.",
        number(),
        default=1.0,
        code="option-reference",
    )
    moments: bool = switch(
        "Request mean and covariance from both sides too, for the Gelbrich lower "
        "bound (p = 2). A side that refuses only weakens the bound.",
        default=True,
        flag=False,
    )

    def fit(self) -> None:
        _ = self.public

    @cached_property
    def public(self) -> Reference:
        """The reference as it stands before any side describes itself."""
        return build_reference(
            self.reference, self.support, self.reference_mean, self.reference_scale, self.seed
        )

    @property
    def asks_moments(self) -> bool:
        """Whether moments are requested: they bound W2 alone."""
        return self.moments and self.p == 2


class WithReference(Referring, Pairwise):
    """Base of distances that use a public reference."""

    def parameters(self) -> dict[str, Scalar]:
        # The size of a caller's own reference is that of its atoms.
        return {**super().parameters(), "support": self.public.support}


class _ComparingHolders(Iterable[type[Pairwise]]):
    """The methods that compare two holders, with those that are registered later."""

    def __iter__(self) -> Iterator[type[Pairwise]]:
        return (method for method in METHODS.values() if method.compares_holders)


PAIRWISE = _ComparingHolders()


def pair_rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Arrange all pairs in as few rounds as can be; nobody is in a round twice.

    One stays and all others go round, as in tournaments.

    Examples
    --------
    >>> pair_rounds("abcd")
    [[('a', 'd'), ('b', 'c')], [('a', 'c'), ('b', 'd')], [('a', 'b'), ('c', 'd')]]
    """
    order = {name: place for place, name in enumerate(names)}
    ring: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    rounds: list[list[tuple[str, str]]] = []
    for _ in range(len(ring) - 1):
        both = zip(ring[: len(ring) // 2], reversed(ring), strict=False)
        pairs = [sorted((a, b), key=order.__getitem__) for a, b in both if a and b]
        rounds.append(sorted((a, b) for a, b in pairs))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def find_comparison(method: str) -> type[Pairwise]:
    """Return the class of a method that compares holders with the coordinator's measure."""
    # FedBary with a fixed Q is FedWaD between every holder and the coordinator.
    name = "fedwad" if method == "fedbary" else method
    if not isinstance(name, str) or name not in METHODS or not METHODS[name].asks:
        raise InputError(
            f"method is {_describe_method(method)}; give one of {', '.join(list_comparisons())}.",
            code="option-method",
        )
    return METHODS[name]


def list_comparisons() -> list[str]:
    """List the names of methods that can compare holders with data of the coordinator."""
    return ["target", "fedbary", *(name for name, kind in METHODS.items() if kind.asks)]


def find_method(name: object) -> type[Pairwise]:
    """Return a method by name, or raise an ``InputError`` that lists all names."""
    if not isinstance(name, str) or name not in METHODS:
        raise InputError(
            f"method is {_describe_method(name)}; give one of {', '.join(METHODS)}.",
            code="option-method",
        )
    return METHODS[name]


def check_method_options(kind: type[Pairwise], options: Mapping[str, object]) -> None:
    """Raise where a method has no such option; labels decide on the embedding."""
    if "embedding" in options:
        raise InputError(
            f"method {kind.name!r} has no option 'embedding': labels= and covariance= say how "
            "labels are compared.",
            code="option-unknown",
        )
    kind.check(options)


def _describe_method(method: object) -> str:
    """Describe what arrived in place of a name; an object may hold data that no error repeats."""
    if isinstance(method, Pairwise):
        return f"an object, {type(method).__name__}, and a name with options is needed"
    return repr(method)
