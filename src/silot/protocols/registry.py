"""The distance methods by name, and what a user should know before choosing one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..results import Distance
from .direct import direct
from .fedwad import fedwad
from .sketch import sketch
from .trianglewad import trianglewad


@dataclass(frozen=True)
class Method:
    """A way to compute a distance between two holders.

    Attributes
    ----------
    name
        Name to ask for it by.
    build
        Function that makes its protocol.
    disclosure
        Finest thing it discloses.
    sends, needs, guarantees, privacy
        In words.
    """

    name: str
    build: Callable[..., Protocol[Distance]]
    disclosure: Disclosure
    sends: str
    needs: str
    guarantees: str
    privacy: str

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options it takes."""
        return tuple(
            name
            for name, item in signature(self.build).parameters.items()
            if item.kind is item.KEYWORD_ONLY and name != "own"
        )

    def protocol(self, a: str, b: str, **options: object) -> Protocol[Distance]:
        """Build the protocol between two holders; an unknown option is an ``InputError``."""
        self.check(options)
        return self.build(a, b, **options)

    def check(self, options: Iterable[str]) -> None:
        """Raise an ``InputError`` where an option is none of the method's."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            # Callers say "labels" and "covariance" for the embedding.
            known = ", ".join(name for name in self.options if name != "embedding")
            others = [each.name for each in METHODS.values() if unknown[0] in each.options]
            raise InputError(
                f"method {self.name!r} has no option {unknown[0]!r}; it takes {known}."
                + (f" Methods that have it: {', '.join(others)}." if others else ""),
                code="option-unknown",
            )


_INVERTIBLE = "none: every record can be computed back from the messages"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "direct",
            direct,
            Disclosure.RECORD,
            sends="all records to the coordinator",
            needs="one round; records pooled at the coordinator",
            guarantees="exact W, proven by primal and dual value",
            privacy="none: it sends the records",
        ),
        Method(
            "fedwad",
            fedwad,
            Disclosure.RECORD,
            sends="an interpolating measure a round, distances to the reference, moments",
            needs="a reference of S atoms; about 20 rounds; S near the number of records",
            guarantees="upper bound (triangle inequality) and lower bound, both certified; the "
            "upper bound tends to W from above or settles a little higher",
            privacy=_INVERTIBLE,
        ),
        Method(
            "trianglewad",
            trianglewad,
            Disclosure.RECORD,
            sends="one interpolating measure, distances to the reference, moments",
            needs="a reference of S atoms; one round; a shared t",
            guarantees="certified upper bound with exact interpolation, or equally many uniform "
            "records; else an estimate between certified bounds",
            privacy=_INVERTIBLE,
        ),
        Method(
            "sketch",
            sketch,
            Disclosure.SKETCH,
            sends="noisy counts of records in public cells, their clipped mean offset and scatter",
            needs="public records or a public mean and scale; 200 records at least at "
            "privacy_epsilon 1, 2000 for good; one or two rounds; the extra named privacy",
            guarantees="an estimate, with public= and an interval of its error; no certified bound",
            privacy="(privacy_epsilon, privacy_delta)-differential privacy of each record, charged "
            "to the holder's ledger",
        ),
    )
}


def method_named(name: str) -> Method:
    """Return a method by name, or raise an ``InputError`` that lists them."""
    if name not in METHODS:
        raise InputError(
            f"method is {name!r}; give one of {', '.join(METHODS)} or secure.",
            code="option-method",
        )
    return METHODS[name]
