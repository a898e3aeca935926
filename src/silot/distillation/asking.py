"""Asking teachers what they predict for a transfer set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import HolderError, InputError, MismatchError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import Answers, Protocol, Questions, Steps, failure_error
from ..federation.question import Question
from ..privacy.accounting import mu_of
from ..transport._check import flag, real, whole
from . import answers as answers_of
from .answers import Told, check_private, places_of, released, shown, told
from .labels import LabelSpace
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

_BATCH, _PRIVATE_BATCH = 256, 4096
# Part of the privacy budget (of its square) that the bias gets.
_BIAS_SHARE, _FEWEST_LABELS = 0.1, 2
# Noise above which a probability of a label tells next to nothing.
_DROWNED = 0.5


def distill(
    teachers: Sequence[str],
    inputs: npt.ArrayLike | Sequence[str],
    *,
    labels: LabelSpace | int,
    noise: npt.ArrayLike | Sequence[str] | None = None,
    batch: int | None = None,
    temperature: float = 1.0,
    decimals: int | None = None,
    privacy_epsilon: float | None = None,
    privacy_delta: float = 1e-5,
    shared: bool = False,
    sizes: bool = False,
    min_teachers: int = 1,
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
    labels
        The labels, or how many. A teacher that names other labels than a ``LabelSpace`` with
        names is excluded.
    noise
        Inputs that mean nothing, for the bias: the mean prediction over them. Without them it is
        not asked for. They are shuffled among ``inputs``; but asked apart, so that a teacher knows
        them, with ``shared`` and with ``privacy_epsilon``: then in one question, at most 4096, or
        ``batch`` where that is more.
    batch
        Inputs of one question; 256, or 4096 with ``privacy_epsilon``. No more than teachers take.
    temperature
        Predictions become :math:`h^{1/T}`, normalised, at the teacher; with ``privacy_epsilon``
        here, after the noise, and not together with ``noise``.
    decimals
        Predictions are rounded to so many decimals at the teacher, summing to 1; ``None`` does
        not round.
    privacy_epsilon, privacy_delta
        Ask for predictions with Gaussian noise instead, charged to the teachers' ledgers: all
        answers of a teacher together are private for its training records. Of this, a tenth of
        the squared parameter mu goes to the bias. The noise of every probability is
        :math:`\sqrt n\, (\sqrt 2 / m + \sqrt L / R) / \mu` for n inputs, a teacher of m parts,
        L labels and counting in steps of 1 / R with R = 2**20: it drowns a single model's
        predictions, and it needs many parts or few inputs. Sizes are not told then.
    shared
        Teachers have the transfer set, and questions carry places in it: nothing else is sent.
        A teacher that has another one is excluded.
    sizes
        Exclude teachers that do not tell their size. Not with ``privacy_epsilon``.
    min_teachers
        Fewest teachers to go on with.

    Returns
    -------
    Protocol[Predictions]
        Discloses at level aggregate, with ``privacy_epsilon`` at level sketch. The result does
        not depend on the order of ``teachers``.

    Raises
    ------
    InputError, MismatchError
        Inputs that are none, noise of another kind, options out of range.
    HolderError
        Fewer teachers than ``min_teachers`` are left (``"teachers-few"``, in the run).

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
    if isinstance(teachers, str):
        raise InputError("teachers is one text. Give a sequence of names.", code="holder-names")
    names = tuple(sorted(teachers))
    given = inputs_of(inputs)
    unmeant = None if noise is None else inputs_of(noise)
    if unmeant is not None and answers_of.kind_of(unmeant) != answers_of.kind_of(given):
        raise MismatchError(
            "the noise is of another kind or dimension than the transfer set.",
            code="noise-dimension",
        )
    count = labels.size if isinstance(labels, LabelSpace) else labels
    whole(count, "labels", "option-labels", least=2, most=4096)
    if not real(temperature, "temperature", "option-temperature") > 0:
        raise InputError("temperature must be positive.", code="option-temperature")
    if decimals is not None:
        whole(decimals, "decimals", "option-decimals", least=0, most=12)
        if privacy_epsilon is not None:
            raise InputError(
                "predictions with noise are not rounded. Leave decimals out.",
                code="option-decimals",
            )
    # Checked here, for it costs nothing and a run costs much.
    mu = None if privacy_epsilon is None else mu_of(privacy_epsilon, privacy_delta)
    if mu is not None and math.isinf(mu):
        raise InputError(
            "privacy_epsilon is infinite. Leave it out for predictions without noise.",
            code="option-epsilon",
        )
    if batch is None:
        batch = _BATCH if mu is None else _PRIVATE_BATCH
    whole(batch, "batch", "option-batch")
    if mu is not None:
        check_private(unmeant, max(batch, _PRIVATE_BATCH), temperature, sizes)
    plan = _Plan(
        names=names,
        inputs=given,
        noise=unmeant,
        count=count,
        labels=answers_of.names_of(labels),
        batch=batch,
        temperature=float(temperature),
        decimals=-1 if decimals is None else decimals,
        mu=mu,
        shared=digest_of(given) if flag(shared, "shared", "option-shared") else "",
        sizes=flag(sizes, "sizes", "option-sizes"),
        least=whole(min_teachers, "min_teachers", "option-teachers", most=max(len(names), 1)),
    )
    return Protocol(
        "distill",
        names,
        Disclosure.RECORD if mu is None else Disclosure.SKETCH,
        plan.start,
        {
            "inputs": len(given),
            "labels": count,
            "noise": 0 if unmeant is None else len(unmeant),
            "batch": batch,
            "temperature": float(temperature),
            "decimals": decimals,
            "privacy_epsilon": privacy_epsilon,
            "privacy_delta": privacy_delta,
            "shared": bool(shared),
        },
        expected_rounds=answers_of.rounds_of(
            given, unmeant, plan.batch, plan.apart, mu is not None
        ),
    )


@dataclass(frozen=True)
class _Plan:
    """What to ask."""

    names: tuple[str, ...]
    inputs: Inputs = field(repr=False)
    noise: Inputs | None = field(repr=False)
    count: int
    labels: tuple[str, ...] | None
    batch: int
    temperature: float
    decimals: int
    mu: float | None
    shared: str
    sizes: bool
    least: int

    @property
    def apart(self) -> bool:
        """Whether noise has questions of its own."""
        return self.mu is not None or bool(self.shared)

    def start(self) -> Steps[Predictions]:
        run = _Asking(self, list(self.names))
        private = self.mu is not None
        answers = yield {name: DescribeTeacher(private=private) for name in run.left}
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
class _Asking:
    """Who is still there, and why the others are not."""

    plan: _Plan
    left: list[str]
    told: dict[str, Told] = field(default_factory=dict[str, Told])
    failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    noise: dict[str, float] = field(default_factory=dict[str, float])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def fail(self, name: str, failure: Failure) -> None:
        """Exclude a teacher from the whole run."""
        self.failures[name] = failure
        self.left = [other for other in self.left if other != name]

    def describe(self, name: str, answer: Answer | Failure) -> None:
        """Take note of what a teacher says it is."""
        plan = self.plan
        if isinstance(answer, Failure):
            self.fail(name, answer)
            return
        try:
            found = told(answer)
        except WireError as error:
            self.fail(name, Failure(error.code))
            return
        self.told[name] = found
        # Where the asker has no names, teachers that have them must mean the same ones.
        meant = [other.labels for other in self.told.values() if other.labels]
        strange = bool(found.labels) and not set(found.labels) & set(plan.labels or ())
        self.places[name] = places = places_of(found.labels, plan.labels, plan.count)
        unlike = strange and found.labels != meant[0]
        if unlike or -1 in places or len(places) < _FEWEST_LABELS:
            self.fail(name, Failure("labels-mismatch"))
        elif plan.shared and plan.shared != found.shared:
            absent = "inputs-absent" if not found.shared else "inputs-mismatch"
            self.fail(name, Failure(absent))
        elif plan.sizes and found.size is None:
            self.fail(name, Failure("size-absent"))

    def check(self) -> None:
        """Raise where too few teachers are left."""
        if len(self.left) >= self.plan.least:
            return
        reasons = " ".join(failure_error(n, f).message for n, f in sorted(self.failures.items()))
        raise HolderError(
            f"{len(self.left)} teachers are left and {self.plan.least} are needed. {reasons}",
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
        step = len(inputs) if mean and self.plan.mu is not None else self.plan.batch
        for at in range(0, len(inputs), step):
            yield range(at, min(at + step, len(inputs)))

    def _questions(self, inputs: Inputs, rows: range, mean: bool) -> Questions:
        plan = self.plan
        content: dict[str, Any] = {}
        if plan.shared and not mean:
            content |= {"indices": np.arange(rows.start, rows.stop), "shared": plan.shared}
        elif isinstance(inputs, list):
            content["texts"] = encode_texts(inputs[rows.start : rows.stop])
        else:
            content["vectors"] = inputs[rows.start : rows.stop]
        if plan.mu is not None:
            return {
                name: self._release(name, content, plan.mu, len(rows), mean) for name in self.left
            }
        kind = PredictNoise if mean else Predict
        options = {"temperature": plan.temperature, "decimals": plan.decimals}
        return {
            name: kind(**content, **options, labels=len(self.places[name])) for name in self.left
        }

    def _release(
        self, name: str, content: dict[str, Any], mu: float, rows: int, mean: bool
    ) -> Question:
        plan = self.plan
        share = _BIAS_SHARE if mean else 1.0 - (_BIAS_SHARE if plan.noise is not None else 0.0)
        spent = mu * math.sqrt(share * (1.0 if mean else rows / len(plan.inputs)))
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
        if self.plan.mu is not None:
            found = released(answer, (1 if mean else rows, labels))
            if not isinstance(found, str):
                found = tempered(found[0] if mean else found, self.plan.temperature)
        elif mean:
            found = shown(answer, "mean", (labels,))
        else:
            found = shown(answer, "probabilities", (rows, labels))
        if isinstance(found, str):
            return Failure(found)
        whole = np.zeros((*found.shape[:-1], self.plan.count))
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
        told = [f"{len(self.left)} of {len(self.plan.names)} teachers answered everything."]
        told += [failure_error(n, f).message for n, f in sorted(self.failures.items())]
        fewer = [n for n in self.left if len(self.places[n]) < self.plan.count]
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
