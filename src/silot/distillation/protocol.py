"""The protocol that asks teachers for predictions of a transfer set, and checks their answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import flag, integer

from ..data.label_names import label_name
from ..errors import HolderError, InputError, MismatchError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Answers, Protocol, Questions, Steps, failure_error
from ..options import taking
from .labels import LabelSpace
from .options import Asking
from .questions import (
    RESOLUTION,
    DescribeTeacher,
    Inputs,
    Predict,
    PredictNoise,
    ReleasePredictions,
    apply_temperature,
    check_inputs,
    encode_texts,
    find_fault,
    hash_inputs,
    normalise,
    parse_texts,
)
from .result import Predictions

if TYPE_CHECKING:
    from ..keywords import AskingKeywords

# Part of the privacy budget (of its square) that the bias gets: it is one prediction beside many.
_BIAS_SHARE, _FEWEST_LABELS = 0.1, 2
# Noise above which a probability of a label tells next to nothing.
_DROWNED = 0.5


@taking(Asking)
def distill(
    teachers: Sequence[str],
    inputs: npt.ArrayLike | Sequence[str],
    how: Asking | None = None,
    *,
    labels: LabelSpace | int,
    noise: npt.ArrayLike | Sequence[str] | None = None,
    sizes: bool = False,
    **options: Unpack[AskingKeywords],
) -> Protocol[Predictions]:
    r"""Build the protocol that asks every teacher once for its predictions of a transfer set.

    Teachers say what they are, then predict the transfer set and noise, batch by batch, all at the
    same time. Every answer is checked: its shape, that it is finite, that its rows are
    probabilities to 1e-6. A teacher that fails, refuses, is too slow or answers anything else is
    excluded from the run, with the code of the reason; one that names other labels than those of a
    ``LabelSpace``, too, and with ``sizes`` one that does not report its size.

    Noise is inputs that mean nothing, for the bias: the mean prediction over them. They are hidden
    among ``inputs``, and questions do not say which is which; but they have questions of their own,
    so that a teacher recognises them, with ``shared`` and with ``privacy_epsilon``: then one
    question of at most 4096 inputs, or ``question_batch`` where that is more.

    Raises
    ------
    InputError, MismatchError
        No inputs, noise of another kind, options out of range.
    HolderError
        Fewer teachers than ``min_teachers`` answered everything (``"teachers-few"``, in the run).

    Notes
    -----
    Of ``privacy_epsilon`` a tenth of the squared parameter mu goes to the bias. The noise of every
    probability is :math:`\sqrt n\, (\sqrt 2 / m + \sqrt L / R) / \mu` for n inputs, a teacher of
    m parts, L labels and counting in steps of 1 / R with R = 2**20: it drowns a single model's
    predictions, and it needs many parts or few inputs.
    """
    how = Asking.of(how, options)
    if isinstance(teachers, str):
        raise InputError("teachers is one text. Give a sequence of names.", code="holder-names")
    poll = _Poll(
        names=tuple(sorted(teachers)),
        inputs=check_inputs(inputs),
        noise=None if noise is None else check_inputs(noise),
        count=labels.size if isinstance(labels, LabelSpace) else labels,
        labels=labels.names if isinstance(labels, LabelSpace) else None,
        sizes=flag(sizes, "sizes", "option-sizes"),
        how=how,
    )
    poll.check()
    return Protocol(
        "distill",
        poll.names,
        Disclosure.PRIVATE if how.private else Disclosure.RECORD,
        # A poll of its own for each run, for it notes who answered what.
        lambda: replace(poll).steps(),
        poll.parameters(),
        expected_rounds=poll.rounds,
    )


@dataclass(frozen=True)
class TeacherDescription:
    """What a teacher says of itself."""

    parts: int
    size: int | None
    labels: tuple[str, ...] | None
    shared: str


@dataclass
class _Poll:
    """A question to all teachers, and what is known of those that answered everything so far.

    Where ``labels`` have no names, their ``count`` alone is known.
    """

    names: tuple[str, ...]
    inputs: Inputs
    noise: Inputs | None
    count: int
    labels: tuple[str, ...] | None
    sizes: bool
    how: Asking
    answering: list[str] = field(init=False)
    descriptions: dict[str, TeacherDescription] = field(init=False, default_factory=dict)
    failures: dict[str, Failure] = field(init=False, default_factory=dict)
    deviations: dict[str, float] = field(init=False, default_factory=dict)
    places: dict[str, list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.answering = list(self.names)
        noise = 0 if self.noise is None else len(self.noise)
        self.noise_count = noise
        # Noise has questions of its own where teachers have the inputs, or add noise to a mean.
        self.apart = self.how.private or self.how.shared
        # The digest of a transfer set that teachers have; nothing where it is sent.
        self.shared = hash_inputs(self.inputs) if self.how.shared else ""

    def check(self) -> None:
        """Raise for options that do not fit together, or that noise cannot be added to."""
        how, noise = self.how, self.noise
        if noise is not None and _dimension(noise) != _dimension(self.inputs):
            raise MismatchError(
                "the noise is of another kind or dimension than the transfer set.",
                code="noise-dimension",
            )
        integer(self.count, "labels", "option-labels", least=2, most=4096)
        integer(how.min_teachers, "min_teachers", "option-teachers", most=max(len(self.names), 1))
        if how.private and self.sizes:
            raise InputError(
                "sizes are exact, but with privacy_epsilon teachers send nothing exact. Use "
                "weights other than 'size', or leave privacy_epsilon out.",
                code="option-sizes",
            )
        if how.private and noise is not None and how.temperature != 1.0:
            # The mean of scaled predictions is not the scaled mean, and only that could be had.
            raise InputError(
                f"temperature is {how.temperature:g}: with privacy_epsilon the bias cannot be "
                "adjusted to it. Take temperature=1, or weights that need no noise.",
                code="option-temperature",
            )
        if how.private and self.noise_count > how.noise_at_once:
            raise InputError(
                f"there are {self.noise_count} noise inputs. Give at most {how.noise_at_once} "
                "noise inputs with privacy_epsilon, because one question requests their mean.",
                code="option-noise",
            )

    def parameters(self) -> dict[str, Scalar]:
        """Return what transcripts say of it."""
        how = self.how
        options = ("temperature", "decimals", "privacy_epsilon", "privacy_delta", "shared")
        return {
            "inputs": len(self.inputs),
            "labels": self.count,
            "noise": self.noise_count,
            "batch": how.inputs_at_once,
            **how.values(*options),
        }

    @property
    def rounds(self) -> int:
        """Number of questions to a teacher that answers all."""
        batch = self.how.inputs_at_once
        # With privacy the mean over noise is one question, of any length.
        noise = min(self.noise_count, batch) if self.how.private else self.noise_count
        counts = (len(self.inputs), noise) if self.apart else (len(self.inputs) + noise,)
        return 1 + sum(math.ceil(count / batch) for count in counts)

    def steps(self) -> Steps[Predictions]:
        """Ask for descriptions, then for predictions, and return those of the remaining ones."""
        answers = yield {name: DescribeTeacher(private=self.how.private) for name in self.names}
        for name in self.names:
            self._describe(name, answers.get(name, Failure("holder-silent")))
        self._check_number()
        if self.noise is None or self.apart:
            means = None if self.noise is None else (yield from self._ask(self.noise, mean=True))
            outputs = yield from self._ask(self.inputs, mean=False)
            return self._result(
                outputs, means and {name: means[name].sum(axis=0) for name in outputs}
            )
        mixed, places = _mix(self.inputs, self.noise)
        both = yield from self._ask(mixed, mean=False)
        own, other = places[: len(self.inputs)], places[len(self.inputs) :]
        return self._result(
            {name: rows[own] for name, rows in both.items()},
            {name: rows[other].mean(axis=0) for name, rows in both.items()},
        )

    def _exclude(self, name: str, failure: Failure) -> None:
        self.failures[name] = failure
        self.answering.remove(name)

    def _describe(self, name: str, answer: Answer | Failure) -> None:
        """Take note of what a teacher says it is, or exclude it."""
        try:
            if isinstance(answer, Answer):
                self.descriptions[name] = read_description(answer)
                code = self._find_misfit(name, self.descriptions[name])
                answer = Failure(code) if code else answer
        except WireError as error:
            answer = Failure(error.code)
        if isinstance(answer, Failure):
            self._exclude(name, answer)

    def _find_misfit(self, name: str, description: TeacherDescription) -> str:
        """Return the code of the reason why a teacher cannot be asked, if there is one."""
        places = _match_labels(description.labels, self.labels, self.count)
        self.places[name] = places
        if self._means_others(description) or -1 in places or len(places) < _FEWEST_LABELS:
            return "labels-mismatch"
        if self.shared and self.shared != description.shared:
            return "inputs-mismatch" if description.shared else "inputs-absent"
        return "size-absent" if self.sizes and description.size is None else ""

    def _means_others(self, description: TeacherDescription) -> bool:
        """Return whether its labels have names, none the asker's, and not the first such ones."""
        if not description.labels or set(description.labels) & set(self.labels or ()):
            return False
        # Where the asker has no names, teachers that have them must mean the same ones.
        others = self.descriptions.values()
        return description.labels != next(other.labels for other in others if other.labels)

    def _check_number(self) -> None:
        needed = self.how.min_teachers
        if len(self.answering) < needed:
            raise HolderError(
                f"{len(self.answering)} teachers answered, but {needed} are needed. "
                f"{' '.join(self._reasons())}",
                code="teachers-few",
            )

    def _reasons(self) -> list[str]:
        return [failure_error(n, f).message for n, f in sorted(self.failures.items())]

    def _ask(self, inputs: Inputs, *, mean: bool) -> Steps[dict[str, Array]]:
        """Ask all that answer about inputs, batch by batch; join the answers of each."""
        parts: dict[str, list[Array]] = {name: [] for name in self.answering}
        for rows in self._batches(inputs, mean):
            answers = yield self._questions(inputs, rows, mean)
            for name in list(self.answering):
                values = self._read(name, answers, len(rows), mean)
                if isinstance(values, Failure):
                    self._exclude(name, values)
                else:
                    # A mean stands for its batch.
                    parts[name].append(values * (len(rows) / len(inputs)) if mean else values)
            self._check_number()
        join = np.stack if mean else np.concatenate
        return {name: join(parts[name]) for name in self.answering}

    def _batches(self, inputs: Inputs, mean: bool) -> Iterator[range]:
        # A mean with noise is one number a label however many inputs: one question.
        step = len(inputs) if mean and self.how.private else self.how.inputs_at_once
        for start in range(0, len(inputs), step):
            yield range(start, min(start + step, len(inputs)))

    def _questions(self, inputs: Inputs, rows: range, mean: bool) -> Questions:
        how, content = self.how, cast("dict[str, Any]", {})
        if self.shared and not mean:
            content |= {"indices": np.arange(rows.start, rows.stop), "shared": self.shared}
        elif isinstance(inputs, list):
            content["texts"] = encode_texts(inputs[rows.start : rows.stop])
        else:
            content["vectors"] = inputs[rows.start : rows.stop]
        counts = {name: len(self.places[name]) for name in self.answering}
        if how.mu is None:
            kind = PredictNoise if mean else Predict
            decimals = -1 if how.decimals is None else how.decimals
            content |= {"temperature": how.temperature, "decimals": decimals}
            return {name: kind(**content, labels=count) for name, count in counts.items()}
        share = _BIAS_SHARE if mean else 1.0 - (0.0 if self.noise is None else _BIAS_SHARE)
        # Squares of mu add up: a batch gets its part of the inputs.
        content["privacy_mu"] = how.mu * math.sqrt(
            share * (1.0 if mean else len(rows) / len(self.inputs))
        )
        releases = {
            name: ReleasePredictions(
                **content, labels=count, parts=self.descriptions[name].parts, mean=mean
            )
            for name, count in counts.items()
        }
        if not mean:
            self.deviations |= {name: release.noise for name, release in releases.items()}
        return releases

    def _read(self, name: str, answers: Answers, rows: int, mean: bool) -> Array | Failure:
        """Read predictions of a teacher, label by label as the label space has them."""
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            return answer
        places = self.places[name]
        labels = len(places)
        if self.how.private:
            values = _read_release(answer, (1 if mean else rows, labels))
            if not isinstance(values, str):
                values = apply_temperature(values[0] if mean else values, self.how.temperature)
        else:
            array = answer.arrays.get((PredictNoise if mean else Predict).array)
            shape = (labels,) if mean else (rows, labels)
            values = find_fault(array, shape) or normalise(cast("Array", array))
        if isinstance(values, str):
            return Failure(values)
        # A label that the teacher lacks has probability 0.
        full = np.zeros((*values.shape[:-1], self.count))
        full[..., places] = values
        return full

    def _result(self, outputs: dict[str, Array], biases: dict[str, Array] | None) -> Predictions:
        names = self.answering
        means = None if biases is None else np.stack([biases[name] for name in names])
        return Predictions(
            names=tuple(names),
            outputs=np.stack([outputs[name] for name in names]),
            biases=None if means is None else means / means.sum(axis=1, keepdims=True),
            sizes={name: self.descriptions[name].size for name in names},
            noise={name: self.deviations[name] for name in names if name in self.deviations},
            excluded={name: failure.code for name, failure in sorted(self.failures.items())},
            status=self._status(),
        )

    def _status(self) -> str:
        names = self.answering
        sentences = [f"{len(names)} of {len(self.names)} teachers answered everything."]
        sentences += self._reasons()
        fewer = [name for name in names if len(self.places[name]) < self.count]
        if fewer:
            sentences.append(
                f"{', '.join(fewer)} {'knows' if len(fewer) == 1 else 'know'} some of the labels "
                "only: the others have probability 0 there."
            )
        drowned = [name for name in names if self.deviations.get(name, 0.0) > _DROWNED]
        if drowned:
            sentences.append(
                f"The noise is larger than the predictions of {', '.join(drowned)}: use teachers "
                "of more parts, fewer inputs, or a larger privacy_epsilon."
            )
        return " ".join(sentences)


def read_description(answer: Answer) -> TeacherDescription:
    """Read what a teacher says of itself, or raise a ``WireError``."""
    parts, size = _read_count(answer, "parts"), _read_count(answer, "size")
    text, shared = answer.scalars.get("labels"), answer.scalars.get("shared", "")
    labels = parse_texts(text) if isinstance(text, str) else None
    if text is not None and labels is None:
        raise _malformed("names of labels")
    if parts is None or not isinstance(shared, str):
        raise _malformed("parts, or a digest of inputs")
    return TeacherDescription(parts, size, None if labels is None else tuple(labels), shared)


def _read_count(answer: Answer, name: str) -> int | None:
    value = answer.scalars.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _malformed(f"a whole number {name!r} of 1 or more")
    return value


def _malformed(what: str) -> WireError:
    return WireError(
        f"the teacher's description has no {what}. The teacher runs other or faulty code.",
        code="answer-malformed",
    )


def _read_release(answer: Answer, shape: tuple[int, int]) -> Array | str:
    """Read noisy probabilities moved onto the simplex, or return the code of what is wrong."""
    values = answer.arrays.get("noisy")
    if values is None or values.dtype != np.int64 or values.ndim != 2:
        return "answer-malformed"
    if values.shape != shape:
        return "prediction-labels" if values.shape[1] != shape[1] else "prediction-rows"
    return project(values / RESOLUTION)


def project(points: Array) -> Array:
    r"""Compute the nearest points of the simplex, :math:`\max(p_l - \theta, 0)` with a sum of 1.

    Examples
    --------
    >>> project(np.array([[0.9, 0.5, -0.2]])).round(9).tolist()
    [[0.7, 0.3, 0.0]]
    """
    # Before anything else: the level does not matter, and large numbers would lose digits.
    moved = points - points.max(axis=1, keepdims=True)
    ordered = -np.sort(-moved, axis=1)
    # Of the k largest entries theta is (their sum - 1) / k; the last k whose entry is above its
    # own theta is the right one.
    ranks = np.arange(1, points.shape[1] + 1)
    levels = (np.cumsum(ordered, axis=1) - 1.0) / ranks
    last = (ordered > levels).sum(axis=1) - 1
    return normalise(moved - levels[np.arange(len(points)), last][:, None])


def _match_labels(
    own: tuple[str, ...] | None, labels: tuple[str, ...] | None, count: int
) -> list[int]:
    """Find the places of a teacher's labels in the label space, by name; -1 for one it lacks.

    Where either has no names, or a label space has only numbers as names and the teacher none of
    them, labels are taken to be the same in the same order.
    """
    if not own or not labels:
        return list(range(count))
    codes = {label_name(name): code for code, name in enumerate(labels)}
    places = [codes.get(label_name(name), -1) for name in own]
    if labels == tuple(map(str, range(count))) and set(places) == {-1}:
        return list(range(count)) if len(own) == count else [-1]
    return places if len(set(places)) == len(places) else [-1]


def _dimension(inputs: Inputs) -> int:
    """Return the length of records, 0 for texts."""
    return 0 if isinstance(inputs, list) else inputs.shape[1]


def _mix(inputs: Inputs, noise: Inputs) -> tuple[Inputs, npt.NDArray[np.intp]]:
    """Shuffle inputs and noise together; return the place of every one of them, inputs first."""
    # Whoever does not have all of them in their order cannot compute this one.
    seed = hash_inputs(inputs) + hash_inputs(noise)
    order = np.random.default_rng(int(seed, 16)).permutation(len(inputs) + len(noise))
    places = order.argsort()
    if isinstance(inputs, list):
        both = [*inputs, *cast("list[str]", noise)]
        return [both[row] for row in order], places
    return np.concatenate([inputs, cast("Array", noise)])[order], places
