"""Asking teachers what they predict for a transfer set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from silot_transport._check import flag, whole

from ..errors import HolderError, InputError, MismatchError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import Answers, Protocol, Questions, Steps, failure_error
from ..federation.question import Question
from ..options import taking
from . import answers as answers_of
from .answers import TeacherDescription, check_private, places_of, released, shown, told
from .labels import LabelSpace
from .options import Asking
from .questions import (
    DescribeTeacher,
    Inputs,
    Predict,
    PredictNoise,
    ReleasePredictions,
    digest_of,
    encode_texts,
    inputs_of,
    tempered,
)
from .result import Predictions

# Part of the privacy budget (of its square) that the bias gets.
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
    batch: int | None = None,
    **options: Any,
) -> Protocol[Predictions]:
    r"""Ask every teacher once for its predictions of a transfer set.

    Teachers say what they are, then predict the transfer set and noise, batch by batch, all at the
    same time. The noise is hidden among the inputs: questions do not say which is which. Every
    answer is checked: its shape, that it is finite, that its rows are probabilities to 1e-6. A
    teacher that fails, refuses, is too slow or answers anything else is excluded from the whole
    run, with the code of the reason.

    Parameters
    ----------
    teachers
        Names.
    inputs
        The transfer set: records (n, d), or n texts. Teachers see it.
    how
        The options below as one object, in place of them.
    labels
        The labels, or how many. A teacher that names other labels than a ``LabelSpace`` with
        names is excluded.
    noise
        Inputs that mean nothing, for the bias: the mean prediction over them. Without them it is
        not asked for. They are shuffled among ``inputs``; but asked apart, so that a teacher knows
        them, with ``shared`` and with ``privacy_epsilon``: then in one question, at most 4096, or
        ``batch`` where that is more.
    sizes
        Exclude teachers that do not tell their size. Not with ``privacy_epsilon``.
    batch
        The same as ``question_batch``.

    Returns
    -------
    Protocol[Predictions]
        Discloses at level record, with ``privacy_epsilon`` at level sketch. The result does
        not depend on the order of ``teachers``.

    Raises
    ------
    InputError, MismatchError
        Inputs that are none, noise of another kind, options out of range.
    HolderError
        Fewer teachers than ``min_teachers`` are left (``"teachers-few"``, in the run).

    Notes
    -----
    Of ``privacy_epsilon`` a tenth of the squared parameter mu goes to the bias. The noise of every
    probability is :math:`\sqrt n\, (\sqrt 2 / m + \sqrt L / R) / \mu` for n inputs, a teacher of
    m parts, L labels and counting in steps of 1 / R with R = 2**20: it drowns a single model's
    predictions, and it needs many parts or few inputs.

    Examples
    --------
    >>> from silot.federation import LocalFederation
    >>> from silot.distillation.teacher import Teacher
    >>> def right(x):
    ...     return np.stack([x[:, 0] < 0, x[:, 0] >= 0], axis=1).astype(float)
    >>> def broken(x):
    ...     return np.full((len(x), 2), np.nan)
    >>> fed = LocalFederation({"a": Teacher(right), "b": Teacher(broken)})
    >>> found = fed.run(distill(["a", "b"], [[-1.0], [2.0]], labels=2))
    >>> found.outputs.tolist(), found.excluded
    ([[[1.0, 0.0], [0.0, 1.0]]], {'b': 'prediction-nan'})
    """
    how = Asking.of(how, options if batch is None else {**options, "question_batch": batch})
    if isinstance(teachers, str):
        raise InputError("teachers is one text. Give a sequence of names.", code="holder-names")
    poll = _Poll(
        names=tuple(sorted(teachers)),
        inputs=inputs_of(inputs),
        noise=None if noise is None else inputs_of(noise),
        count=labels.size if isinstance(labels, LabelSpace) else labels,
        labels=labels.names if isinstance(labels, LabelSpace) else None,
        sizes=flag(sizes, "sizes", "option-sizes"),
        how=how,
    )
    poll.check()
    return Protocol(
        "distill",
        poll.names,
        Disclosure.SKETCH if how.private else Disclosure.RECORD,
        poll.start,
        poll.parameters(),
        expected_rounds=poll.rounds,
    )


@dataclass(frozen=True)
class _Poll:
    """Who is asked about what; where ``labels`` have no names, their ``count`` alone is known."""

    names: tuple[str, ...]
    inputs: Inputs = field(repr=False)
    noise: Inputs | None = field(repr=False)
    count: int
    labels: tuple[str, ...] | None
    sizes: bool
    how: Asking

    def check(self) -> None:
        """Raise for what does not fit together."""
        kinds = {answers_of.kind_of(each) for each in (self.inputs, self.noise) if each is not None}
        if len(kinds) > 1:
            raise MismatchError(
                "the noise is of another kind or dimension than the transfer set.",
                code="noise-dimension",
            )
        whole(self.count, "labels", "option-labels", least=2, most=4096)
        most = max(len(self.names), 1)
        whole(self.how.min_teachers, "min_teachers", "option-teachers", most=most)
        if self.how.private:
            check_private(self.noise, self.how, self.sizes)

    def parameters(self) -> dict[str, Scalar]:
        """What transcripts tell of it."""
        how = self.how
        return {
            "inputs": len(self.inputs),
            "labels": self.count,
            "noise": 0 if self.noise is None else len(self.noise),
            "batch": how.inputs_at_once,
            "temperature": how.temperature,
            "decimals": how.decimals,
            "privacy_epsilon": how.privacy_epsilon,
            "privacy_delta": how.privacy_delta,
            "shared": how.shared,
        }

    @property
    def rounds(self) -> int:
        """How often a teacher is asked that answers all."""
        batch, noise = self.how.inputs_at_once, 0 if self.noise is None else len(self.noise)
        if self.how.private:
            # One question, of any length.
            noise = min(noise, batch)
        counts = (len(self.inputs), noise) if self.apart else (len(self.inputs) + noise,)
        return 1 + sum(math.ceil(count / batch) for count in counts)

    @property
    def apart(self) -> bool:
        """Whether noise has questions of its own."""
        return self.how.private or self.how.shared

    @cached_property
    def shared(self) -> str:
        """What a transfer set that teachers have is known by; nothing where it is sent."""
        return digest_of(self.inputs) if self.how.shared else ""

    def start(self) -> Steps[Predictions]:
        run = _Answers(self, list(self.names))
        answers = yield {name: DescribeTeacher(private=self.how.private) for name in run.left}
        for name in self.names:
            run.describe(name, answers.get(name, Failure("holder-silent")))
        run.check()
        if self.noise is None or self.apart:
            means = None if self.noise is None else (yield from run.ask(self.noise, mean=True))
            outputs = yield from run.ask(self.inputs, mean=False)
            return run.found(outputs, means and {name: means[name].sum(axis=0) for name in outputs})
        mixed, places = answers_of.hidden(self.inputs, self.noise)
        both = yield from run.ask(mixed, mean=False)
        count = len(self.inputs)
        outputs = {name: told[places[:count]] for name, told in both.items()}
        unmeant = {name: told[places[count:]].mean(axis=0) for name, told in both.items()}
        return run.found(outputs, unmeant)


@dataclass
class _Answers:
    """Who is still there, and why the others are not."""

    poll: _Poll
    left: list[str]
    told: dict[str, TeacherDescription] = field(default_factory=dict[str, TeacherDescription])
    failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    noise: dict[str, float] = field(default_factory=dict[str, float])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def fail(self, name: str, failure: Failure) -> None:
        """Exclude a teacher from the whole run."""
        self.failures[name] = failure
        self.left = [other for other in self.left if other != name]

    def describe(self, name: str, answer: Answer | Failure) -> None:
        """Take note of what a teacher says it is, or exclude it."""
        try:
            failure = answer if isinstance(answer, Failure) else self._unfit(name, told(answer))
        except WireError as error:
            failure = Failure(error.code)
        if failure is not None:
            self.fail(name, failure)

    def _unfit(self, name: str, said: TeacherDescription) -> Failure | None:
        """Why a teacher cannot be asked, if it cannot."""
        poll = self.poll
        self.told[name] = said
        self.places[name] = places = places_of(said.labels, poll.labels, poll.count)
        if self._means_others(said) or -1 in places or len(places) < _FEWEST_LABELS:
            return Failure("labels-mismatch")
        if poll.shared and poll.shared != said.shared:
            return Failure("inputs-mismatch" if said.shared else "inputs-absent")
        if poll.sizes and said.size is None:
            return Failure("size-absent")
        return None

    def _means_others(self, said: TeacherDescription) -> bool:
        """Whether its labels have names, none of them the asker's, and not the first such ones."""
        if not said.labels or set(said.labels) & set(self.poll.labels or ()):
            return False
        # Where the asker has no names, teachers that have them must mean the same ones.
        return said.labels != next(other.labels for other in self.told.values() if other.labels)

    def check(self) -> None:
        """Raise where too few teachers are left."""
        needed = self.poll.how.min_teachers
        if len(self.left) >= needed:
            return
        reasons = " ".join(failure_error(n, f).message for n, f in sorted(self.failures.items()))
        raise HolderError(
            f"{len(self.left)} teachers are left and {needed} are needed. {reasons}",
            code="teachers-few",
        )

    def ask(self, inputs: Inputs, *, mean: bool) -> Steps[dict[str, Array]]:
        """Ask all that are left about inputs, batch by batch; their answers in one piece."""
        found: dict[str, list[Array]] = {name: [] for name in self.left}
        for rows in self._batches(inputs, mean):
            answers = yield self._questions(inputs, rows, mean)
            for name in list(self.left):
                read = self._read(name, answers, len(rows), mean)
                if isinstance(read, Failure):
                    self.fail(name, read)
                else:
                    # A mean stands for its batch.
                    found[name].append(read * (len(rows) / len(inputs)) if mean else read)
            self.check()
        return {name: (np.stack if mean else np.concatenate)(found[name]) for name in self.left}

    def _batches(self, inputs: Inputs, mean: bool) -> Iterator[range]:
        # A mean with noise is one number a label however many inputs: asked once.
        how = self.poll.how
        step = len(inputs) if mean and how.private else how.inputs_at_once
        for at in range(0, len(inputs), step):
            yield range(at, min(at + step, len(inputs)))

    def _questions(self, inputs: Inputs, rows: range, mean: bool) -> Questions:
        poll, how = self.poll, self.poll.how
        content: dict[str, Any] = {}
        if poll.shared and not mean:
            content |= {"indices": np.arange(rows.start, rows.stop), "shared": poll.shared}
        elif isinstance(inputs, list):
            content["texts"] = encode_texts(inputs[rows.start : rows.stop])
        else:
            content["vectors"] = inputs[rows.start : rows.stop]
        if how.mu is not None:
            return {
                name: self._release(name, content, how.mu, len(rows), mean) for name in self.left
            }
        kind = PredictNoise if mean else Predict
        options = {
            "temperature": how.temperature,
            "decimals": -1 if how.decimals is None else how.decimals,
        }
        return {
            name: kind(**content, **options, labels=len(self.places[name])) for name in self.left
        }

    def _release(
        self, name: str, content: dict[str, Any], mu: float, rows: int, mean: bool
    ) -> Question:
        poll = self.poll
        share = _BIAS_SHARE if mean else 1.0 - (_BIAS_SHARE if poll.noise is not None else 0.0)
        spent = mu * math.sqrt(share * (1.0 if mean else rows / len(poll.inputs)))
        question = ReleasePredictions(
            **content,
            labels=len(self.places[name]),
            privacy_mu=spent,
            parts=self.told[name].parts,
            mean=mean,
        )
        if not mean:
            self.noise[name] = question.noise
        return question

    def _read(self, name: str, answers: Answers, rows: int, mean: bool) -> Array | Failure:
        """Predictions of a teacher, label by label as the label space has them."""
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            return answer
        places = self.places[name]
        labels = len(places)
        if self.poll.how.private:
            found = released(answer, (1 if mean else rows, labels))
            if not isinstance(found, str):
                found = tempered(found[0] if mean else found, self.poll.how.temperature)
        elif mean:
            found = shown(answer, "mean", (labels,))
        else:
            found = shown(answer, "probabilities", (rows, labels))
        if isinstance(found, str):
            return Failure(found)
        whole = np.zeros((*found.shape[:-1], self.poll.count))
        whole[..., places] = found
        return whole

    def found(self, outputs: dict[str, Array], biases: dict[str, Array] | None) -> Predictions:
        """The result, of those that are left."""
        kept = self.left
        told_biases = None
        if biases is not None:
            summed = np.stack([biases[name] for name in kept])
            told_biases = summed / summed.sum(axis=1, keepdims=True)
        return Predictions(
            names=tuple(kept),
            outputs=np.stack([outputs[name] for name in kept]),
            biases=told_biases,
            sizes={name: self.told[name].size for name in kept},
            noise={name: self.noise[name] for name in kept if name in self.noise},
            excluded={name: failure.code for name, failure in sorted(self.failures.items())},
            status=self._status(),
        )

    def _status(self) -> str:
        told = [f"{len(self.left)} of {len(self.poll.names)} teachers answered everything."]
        told += [failure_error(n, f).message for n, f in sorted(self.failures.items())]
        fewer = [n for n in self.left if len(self.places[n]) < self.poll.count]
        if fewer:
            told.append(
                f"{', '.join(fewer)} {'knows' if len(fewer) == 1 else 'know'} some of the labels "
                "only: the others have probability 0 there."
            )
        drowned = [name for name in self.left if self.noise.get(name, 0.0) > _DROWNED]
        if drowned:
            told.append(
                f"The noise drowns the predictions of {', '.join(drowned)}: it needs teachers of "
                "more parts, fewer inputs, or a larger privacy_epsilon."
            )
        return " ".join(told)
