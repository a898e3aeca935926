"""Secure distances simulated in one process, and the result that all runs have."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from ...data.measure import Measure
from ...data.preflight import Preflight
from ...distances.questions import Describe
from ...distances.result import Distance
from ...errors import InputError, SolverError
from ...federation.answer import Answer, encode_reply
from ...federation.disclosure import Disclosure
from ...federation.party import Own
from ...federation.protocol import COORDINATOR, required
from ...federation.question import Answerer, encode_question
from ...federation.result import Run
from ...federation.transcript import Entry, Transcript
from ._engine import Traffic, import_spu, simulate
from ._inputs import NAMES
from ._opening import CLOSE, GRADES, bounds_of
from ._program import Program
from .forecast import Forecast, forecast_program
from .options import Role, SecureOptions

_TRUST = {
    "aby3": "no two of the three computing parties may collude",
    "cheetah": "the two holders compute alone",
}
_RECEIVERS = {"a": "the first holder", "b": "the second holder", "third": "the third party"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended for one party."""

    opened: list[float]
    """The number and its grade; empty for who does not receive them."""
    parts: int
    """How many were computed, for the receiver."""
    sent: int
    """Bytes this party sent."""
    received: int
    """Bytes this party received."""
    seconds: float
    """From start to end."""
    program: Program
    """What was computed."""
    owners: tuple[Role, ...]
    """Of whose data it was computed."""

    @property
    def facts(self) -> dict[str, int | float]:
        """What is public of it, and the number for its receiver."""
        number = dict(zip(("opened", "grade"), self.opened, strict=False))
        parts = {"parts": self.parts} if number else {}
        return {"sent": self.sent, "received": self.received, **number, **parts}


@runtime_checkable
class Joint(Protocol):
    """Parties on machines of their own, which compute a distance together."""

    def run_secure(
        self, simulation: Simulation, tell: Callable[[Forecast], None] | None
    ) -> tuple[Distance, Run]:
        """Compute the distance that a simulation is of, and return it with its cost."""
        ...


@dataclass(frozen=True)
class Simulation:
    r"""Distance between two unions of holders, by a simulated secure computation.

    All computing parties are threads of this process, so that nothing is protected from it; the
    shares, the arithmetic and the number opened are those of a run between machines
    (``silot distance secure``). It computes bounds :math:`L \le W_2^2 \le U` by Sinkhorn's
    algorithm on secret shares, and opens :math:`L + 0.15 (U - L)` (0.05 after the first part) with
    a grade of the gap, or :math:`L` where the bounds are further apart than half of it.
    """

    first: tuple[str, ...]
    """Names of the first union; records of one union count in proportion to their number."""
    second: tuple[str, ...]
    """Names of the second union."""
    options: SecureOptions
    """Public options."""
    own: Answerer | None = None
    """Data of the coordinator, where one of the names is its own."""

    def __call__(
        self, parties: Any, tell: Callable[[Forecast], None] | None = None
    ) -> tuple[Distance, Run]:
        """Compute on data by name, after a call with the forecast; ``Joint`` parties compute alone.

        Returns
        -------
        Distance
            With certified bounds where nothing was added to the number; ``history`` has what each
            computing party sent, in no order.
        Run
            Its cost and transcript.

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
            return parties.run_secure(self, tell)
        measures = self._read_measures(parties)
        began = time.perf_counter()
        import_spu()
        options = self.options
        # Records of no weight are left out: they move nothing, and nobody needs their number.
        sizes = tuple(int((measure.weights > 0).sum()) for measure in measures.values())
        width = _count_features(next(iter(measures.values())), options)
        program = options.program(sizes, len(self.first), width)
        question = options.inputs(program)
        answers = {name: Own(measure).answer(question) for name, measure in measures.items()}
        inputs = [required(answers, name).arrays for name in measures]
        if tell is not None:
            tell(forecast_program(program))
        simulated = simulate(program, [[arrays[name] for name in NAMES] for arrays in inputs])
        opened = Opened(simulated.opened, simulated.parts, options, program)
        sides = ("+".join(self.first), "+".join(self.second))
        result = opened.build_result(sides, "simulation", simulated.traffic)
        seconds = time.perf_counter() - began
        preflight = Preflight.of(measures)
        return result, opened.build_run(
            tuple(measures), simulated.traffic, seconds, preflight, self.options.privacy_mu > 0
        )

    def _read_measures(self, parties: Any) -> dict[str, Measure]:
        """Return the data of both sides, the coordinator's own included."""
        if not isinstance(parties, Mapping):
            raise no_questions()
        own = {COORDINATOR: self.own.measure} if isinstance(self.own, Own) else {}
        data = {**cast("Mapping[str, Any]", parties), **own}
        return {name: Measure.of(data[name]) for name in (*self.first, *self.second)}


def no_questions() -> InputError:
    """Return the error for holders that are requested what takes an engine of its own."""
    return InputError(
        "method 'secure' has its own engine and sends no questions. Use silot.distance(x, y, "
        "method='secure'), sites of a project, or `silot distance secure`.",
        code="method-secure",
    )


def build_party_result(outcome: Outcome, options: SecureOptions) -> Distance:
    """Return the distance, for the party that received the number."""
    owners, split = outcome.owners, outcome.program.split
    opened = Opened(outcome.opened, outcome.parts, options, outcome.program)
    traffic = (Traffic(outcome.sent, outcome.received, 0),)
    sides = "+".join(owners[:split]), "+".join(owners[split:])
    run = opened.build_run(owners, traffic, outcome.seconds, Preflight.of({}, owners), False)
    return opened.build_result(sides, "secure", traffic).with_run(run)


_Reading = tuple[float, float, float, tuple[float, float] | None, str]


@dataclass(frozen=True)
class Opened:
    """What a run opened, of which result, cost and transcript are built."""

    numbers: Sequence[float]
    """The number and its grade."""
    parts: int
    """How many were computed."""
    options: SecureOptions
    """Of the run."""
    program: Program
    """Of the run."""

    def build_result(
        self,
        holders: tuple[str, str],
        how: str,
        traffic: Sequence[Traffic],
        *,
        passed_on: bool = False,
    ) -> Distance:
        """Turn what was opened into a result, or into the error it stands for.

        ``passed_on`` says that the receiver sent the number on to who asked.
        """
        options, is_noisy = self.options, self.options.privacy_epsilon is not None
        value, lower, upper, interval, words = (
            self._read_noisy() if is_noisy else self._read_certified()
        )
        if not is_noisy and self.parts > 1:
            words += f"; {self.parts} parts were computed, as all parties know"
        trust = (
            f"by {options.protocol.upper()} on secret shares: parties follow the protocol "
            f"(semi-honest), {_TRUST[options.protocol]}; opened to {_RECEIVERS[options.receiver]} "
            f"alone{', which sent it to the asker' if passed_on else ''}"
        )
        history = tuple(
            {
                "party": float(party),
                "bytes_sent": float(item.sent),
                "bytes_received": float(item.received),
                "messages": float(item.messages),
            }
            for party, item in enumerate(traffic)
        )
        return Distance(
            value=value, lower=lower, upper=upper, method="secure",
            status=f"{how}: {words}; {trust}",
            converged=is_noisy or self.numbers[1] > GRADES.index(CLOSE),
            holders=holders, p=2, history=history, interval=interval,
        )  # fmt: skip

    def _read_certified(self) -> _Reading:
        """Return value, bounds and words of an exact number."""
        options, number, grade = self.options, self.numbers[0], round(self.numbers[1])
        if grade < 0:
            raise SolverError(
                f"numbers exceeded their range under the public scale {options.scale:g}. Agree on "
                "a scale near the spread of the data, and look for records far from all others.",
                code="secure-range",
            )
        bounds = bounds_of(number, grade, self.parts)
        low, high = (math.sqrt(bound) * options.scale for bound in bounds)
        value = math.sqrt(number) * options.scale
        if grade == 0:
            words = (
                "only a lower bound: the upper bound is too far away to certify it, as for "
                "measures that nearly coincide, records far from all others, or a distance that "
                "is tiny compared with the public scale"
            )
            if options.accuracy == "fast":
                words += "; accuracy 'normal' comes closer"
            return value, low, high, None, words
        gap = GRADES[grade - 1]
        words = (
            "certified: bounds were proven inside the computation, at most "
            f"{100 * gap:g} % of the square apart"
        )
        if gap <= CLOSE:
            words += f"; usually within {2 if options.accuracy == 'fast' else 0.5} % of W2"
        else:
            words += "; the bounds are far apart, and the error of the value may be as large"
        return value, low, high, None, words

    def _read_noisy(self) -> _Reading:
        """Return value, interval and words of a number with noise."""
        options, sizes, opened = self.options, self.program.sizes, self.numbers[0]
        noise = self.program.noise
        assert noise is not None
        assert options.privacy_epsilon is not None
        # Half way between the constant that stands for failure and the largest number.
        if opened < 0.5 * (noise.failed - noise.largest):
            raise SolverError(
                "the bounds of the distance are too far apart for the noise to be sufficient, so "
                "only that fact was revealed. Give a diameter that is no larger than the data.",
                code="secure-accuracy",
            )
        unit = options.scale**2
        largest = math.sqrt(noise.largest) * options.scale
        scale = options.sensitivity(sizes) / options.privacy_epsilon
        # Sums of two or more Laplace variables lie within 2.1 standard deviations with 95 %.
        room = 2.1 * math.sqrt(2.0 * len(sizes)) * scale
        room += 0.5 * noise.tolerance * unit
        low = math.sqrt(max(opened * unit - room, 0.0))
        high = math.sqrt(max(opened * unit + room, 0.0))
        words = (
            f"noisy: {options.privacy_epsilon:g}-differentially private for replacing one record "
            "of records clipped to the public ball, towards everybody except the holders "
            "who add noise: each knows its own part of the noise, and the other part alone "
            "is sufficient; proven if the bounds are also close for neighbouring data"
        )
        value = min(math.sqrt(max(opened, 0.0)) * options.scale, largest)
        return value, 0.0, math.inf, (min(low, largest), min(high, largest)), words

    def build_run(
        self,
        names: Sequence[str],
        traffic: Sequence[Traffic],
        seconds: float,
        preflight: Preflight | None,
        in_memory: bool,
    ) -> Run:
        """Return the cost and the transcript of a run between holders of these names."""
        return Run(
            rounds=1,
            bytes_sent=sum(item.sent for item in traffic),
            bytes_received=sum(item.received for item in traffic),
            seconds=seconds,
            disclosure=str(Disclosure.STATISTICS),
            privacy_mu=self.options.privacy_mu,
            in_memory=in_memory,
            transcript=self._build_transcript(names, seconds),
            preflight=preflight,
        )

    def _build_transcript(self, names: Sequence[str], seconds: float) -> Transcript:
        """Return all that was public: options, sizes, dimension, parts, and what was opened."""
        entries: list[Entry] = []
        question = encode_question(Describe())
        for name, size in sorted(zip(names, self.program.sizes, strict=True)):
            sizes = Answer(scalars={"records": size, "dimension": self.program.dimension})
            entries.append(Entry(0, name, "sent", 0.0, question))
            entries.append(Entry(0, name, "received", 0.0, encode_reply(sizes)))
        receiver = {"a": names[0], "b": names[-1]}.get(self.options.receiver, COORDINATOR)
        scalars = dict(zip(("opened", "grade"), self.numbers, strict=False))
        reply = encode_reply(Answer(scalars={**scalars, "parts": self.parts}))
        entries.append(Entry(1, receiver, "received", seconds, reply))
        return Transcript("secure", self.options.public(), tuple(entries))


def _count_features(measure: Measure, options: SecureOptions) -> int:
    """Return the number of features of the records with their label coordinates."""
    d = measure.dimension
    if options.embedding == "none":
        return d
    # The mean of each record's class, and its covariance matrix or only the diagonal.
    return 2 * d + (d * d if options.embedding == "full" else d)
