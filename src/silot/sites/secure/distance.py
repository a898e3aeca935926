"""Secure distances in one process, and the result all runs give."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from ...data.measure import Measure
from ...data.preflight import Preflight
from ...distances.questions.distances import Describe
from ...distances.result import Distance
from ...errors import InputError, SolverError
from ...federation.answer import Answer, encode_reply
from ...federation.disclosure import Disclosure
from ...federation.party import Own
from ...federation.protocol import COORDINATOR, required
from ...federation.question import Answerer, encode_question
from ...federation.result import Run
from ...federation.transcript import Entry, Transcript
from ._engine import Traffic, load, simulate
from ._inputs import NAMES
from ._opening import CLOSE, GRADES, bounds_of
from ._program import Program
from .charging import mu_of_laplace
from .forecast import Forecast, forecast_of
from .options import Role, SecureOptions

_COLLUDE = {
    "aby3": "no two of the three computing parties may collude",
    "cheetah": "the two holders compute alone",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended for one party.

    Attributes
    ----------
    opened
        The number and its grade; empty for who is not told.
    parts
        How many were computed, for who is told.
    sent, received
        Bytes of this party.
    seconds
        From start to end.
    program, owners
        What was computed, of whose data.
    """

    opened: list[float]
    parts: int
    sent: int
    received: int
    seconds: float
    program: Program
    owners: tuple[Role, ...]

    @property
    def facts(self) -> dict[str, int | float]:
        """What is public of it, and the number for who is told."""
        told = dict(zip(("opened", "grade"), self.opened, strict=False))
        parts = {"parts": self.parts} if told else {}
        return {"sent": self.sent, "received": self.received, **told, **parts}


@runtime_checkable
class Joint(Protocol):
    """Parties on machines of their own, which compute a distance together."""

    def jointly(
        self, asked: Simulation, tell: Callable[[Forecast], None] | None
    ) -> tuple[Distance, Run]:
        """The distance that a simulation is of, and its bill."""
        ...


@dataclass(frozen=True)
class Simulation:
    r"""Distance between two unions of holders, by a simulated secure computation.

    All computing parties are threads of this process, so that nothing is protected from it; the
    shares, the arithmetic and the number opened are those of a run between machines
    (``silot secure``). It computes bounds :math:`L \le W_2^2 \le U` by Sinkhorn's algorithm on
    secret shares, and opens :math:`L + 0.15 (U - L)` (0.05 after the first part) with a grade of
    the gap, or :math:`L` where the bounds are further apart than half of it.

    Attributes
    ----------
    first, second
        Names of both unions; records of one union count in proportion to their number.
    options
        Public options.
    own
        Data of the coordinator, where one of the names is its own.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    options: SecureOptions
    own: Answerer | None = None

    def __call__(
        self, parties: Any, tell: Callable[[Forecast], None] | None = None
    ) -> tuple[Distance, Run]:
        """Compute on data by name, once the forecast is told; ``Joint`` parties do so themselves.

        Returns
        -------
        Distance
            With certified bounds where nothing was added to the number; ``history`` has what each
            computing party sent, in no order.
        Run
            Its bill and transcript.

        Raises
        ------
        InputError
            Data that do not fit the public scale (code ``"secure-scale"``); parties that are no
            data (``"method-secure"``).
        SolverError
            Numbers left their range (``"secure-range"``), or, with noise, did not converge
            (``"secure-accuracy"``).
        ExtraError
            ``spu`` is not installed (``"extra-secure"``).
        """
        if isinstance(parties, Joint):
            return parties.jointly(self, tell)
        measures = self._measures(parties)
        began = time.perf_counter()
        load()
        options = self.options
        # Records of no weight are left out: they move nothing, and need not be told of.
        sizes = tuple(int((measure.weights > 0).sum()) for measure in measures.values())
        width = _width(next(iter(measures.values())), options)
        program = options.program(sizes, len(self.first), width)
        question = options.inputs(program)
        answers = {name: Own(each).answer(question) for name, each in measures.items()}
        prepared = [required(answers, name) for name in measures]
        if tell is not None:
            tell(forecast_of(program))
        done = simulate(program, [[answer.arrays[name] for name in NAMES] for answer in prepared])
        sides = ("+".join(self.first), "+".join(self.second))
        opened = (done.opened, done.parts, options, program)
        result = result_of(*opened, sides, "simulation", done.traffic)
        epsilon = options.privacy_epsilon
        run = Run(
            rounds=1,
            bytes_sent=sum(traffic.sent for traffic in done.traffic),
            bytes_received=sum(traffic.received for traffic in done.traffic),
            seconds=time.perf_counter() - began,
            disclosure=str(Disclosure.SCALAR),
            privacy_mu=0.0 if epsilon is None else mu_of_laplace(epsilon),
            transcript=transcript_of(*opened, tuple(measures), time.perf_counter() - began),
            preflight=Preflight.of(measures),
        )
        return result, run

    def _measures(self, parties: Any) -> dict[str, Measure]:
        """Data of both sides, the caller's own."""
        if not isinstance(parties, Mapping):
            raise no_questions()
        owned = cast("Mapping[str, Any]", parties)
        own = {COORDINATOR: self.own.measure} if isinstance(self.own, Own) else {}
        held = {**owned, **own}
        return {name: Measure.of(held[name]) for name in (*self.first, *self.second)}


def no_questions() -> InputError:
    """What holders raise who are asked for what takes an engine of its own."""
    return InputError(
        "method 'secure' has an engine of its own and asks no questions. Use "
        "silot.distance(x, y, method='secure'), sites of a project, or `silot secure`.",
        code="method-secure",
    )


def result_of_party(done: Outcome, options: SecureOptions) -> Distance:
    """The distance, for who was told the number."""
    program, owners, split = done.program, done.owners, done.program.split
    sides = "+".join(owners[:split]), "+".join(owners[split:])
    epsilon = options.privacy_epsilon
    opened = (done.opened, done.parts, options, program)
    run = Run(
        rounds=1,
        bytes_sent=done.sent,
        bytes_received=done.received,
        seconds=done.seconds,
        disclosure=str(Disclosure.SCALAR),
        privacy_mu=0.0 if epsilon is None else mu_of_laplace(epsilon),
        transcript=transcript_of(*opened, owners, done.seconds),
        preflight=Preflight.of({}, owners),
    )
    traffic = (Traffic(done.sent, done.received, 0),)
    return result_of(*opened, sides, "secure", traffic).with_run(run)


def result_of(
    opened: Sequence[float],
    parts: int,
    options: SecureOptions,
    program: Program,
    holders: tuple[str, str],
    how: str,
    traffic: Sequence[Traffic],
    *,
    passed_on: bool = False,
) -> Distance:
    """Turn what was opened into a result, or into the error it stands for.

    ``passed_on`` says that who was told the number told it to who asked.
    """
    if options.privacy_epsilon is None:
        value, lower, upper, interval, words = _certified(opened, parts, options)
        if parts > 1:
            words += f"; {parts} parts were computed, which all parties know"
    else:
        value, lower, upper, interval, words = _noisy(opened[0], options, program)
    trust = (
        f"by {options.protocol.upper()} on secret shares: parties follow the protocol (semi-honest)"
        f", {_COLLUDE[options.protocol]}; opened to {_RECEIVERS[options.receiver]} alone"
        f"{', which told it to who asked' if passed_on else ''}"
    )
    return Distance(
        value=value,
        lower=lower,
        upper=upper,
        method="secure",
        status=f"{how}: {words}; {trust}",
        converged=options.privacy_epsilon is not None or opened[1] > GRADES.index(CLOSE),
        holders=holders,
        p=2,
        history=tuple(
            {
                "party": float(party),
                "bytes_sent": float(each.sent),
                "bytes_received": float(each.received),
                "messages": float(each.messages),
            }
            for party, each in enumerate(traffic)
        ),
        interval=interval,
    )


_RECEIVERS = {"a": "the first holder", "b": "the second holder", "third": "the third party"}
_Reading = tuple[float, float, float, tuple[float, float] | None, str]


def _certified(opened: Sequence[float], parts: int, options: SecureOptions) -> _Reading:
    number, grade = opened[0], round(opened[1])
    if grade < 0:
        raise SolverError(
            f"numbers left their range under the public scale {options.scale:g}. Agree on a scale "
            "near the spread of the data, and look for records far from all others.",
            code="secure-range",
        )
    low, high = (math.sqrt(bound) * options.scale for bound in bounds_of(number, grade, parts))
    value = math.sqrt(number) * options.scale
    if grade == 0:
        words = (
            "only a lower bound: the upper bound is too far away to certify it, as for measures "
            "that nearly coincide, records far from all others, or a distance tiny against the "
            "public scale"
        )
        if options.accuracy == "fast":
            words += "; accuracy 'normal' comes closer"
    else:
        gap = GRADES[grade - 1]
        words = (
            "certified: bounds were proven inside the computation, at most "
            f"{100 * gap:g} % of the square apart"
        )
        if gap <= CLOSE:
            words += f"; usually within {2 if options.accuracy == 'fast' else 0.5} % of W2"
        else:
            words += "; not close, and the value may be as far off as they are"
    return value, low, high, None, words


def _noisy(opened: float, options: SecureOptions, program: Program) -> _Reading:
    assert program.noise is not None
    assert options.privacy_epsilon is not None
    if opened < 0.5 * (program.noise.failed - program.noise.largest):
        raise SolverError(
            "the bounds of the distance were too far apart for the noise to be enough, so "
            "nothing but that was opened. Give a diameter that is no larger than the data.",
            code="secure-accuracy",
        )
    unit = options.scale**2
    largest = math.sqrt(program.noise.largest) * options.scale
    noise = options.sensitivity(program.sizes) / options.privacy_epsilon
    # Sums of two or more Laplace variables lie within 2.1 standard deviations with 95 %.
    room = 2.1 * math.sqrt(2.0 * len(program.sizes)) * noise
    room += 0.5 * program.noise.tolerance * unit
    low = math.sqrt(max(opened * unit - room, 0.0))
    high = math.sqrt(max(opened * unit + room, 0.0))
    words = (
        f"noisy: {options.privacy_epsilon:g}-differentially private for replacing one record of "
        "records clipped to the public ball, towards everybody but the holders who add noise: "
        "each of those knows its own part, and the other's alone is enough; proven as long as "
        "the bounds are close for neighbouring data too"
    )
    value = min(math.sqrt(max(opened, 0.0)) * options.scale, largest)
    return value, 0.0, math.inf, (min(low, largest), min(high, largest)), words


def transcript_of(
    opened: Sequence[float],
    parts: int,
    options: SecureOptions,
    program: Program,
    names: Sequence[str],
    seconds: float,
) -> Transcript:
    """Return all that was public: options, sizes, dimension, parts, and what was opened."""
    entries: list[Entry] = []
    question = encode_question(Describe())
    for name, size in sorted(zip(names, program.sizes, strict=True)):
        told = Answer(scalars={"records": size, "dimension": program.dimension})
        entries.append(Entry(0, name, "sent", 0.0, question))
        entries.append(Entry(0, name, "received", 0.0, encode_reply(told)))
    place = {"a": names[0], "b": names[-1]}.get(options.receiver, COORDINATOR)
    scalars = dict(zip(("opened", "grade"), opened, strict=False))
    told = encode_reply(Answer(scalars={**scalars, "parts": parts}))
    entries.append(Entry(1, place, "received", seconds, told))
    return Transcript("secure", options.public(), tuple(entries))


def _width(measure: Measure, options: SecureOptions) -> int:
    """Features of the records with their label coordinates."""
    d = measure.dimension
    if options.embedding == "none":
        return d
    return 2 * d + (d * d if options.embedding == "full" else d)
