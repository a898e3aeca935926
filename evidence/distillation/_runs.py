"""One task of the paper once: models trained, teachers asked, eight students distilled and scored.

Needs torch.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from evidence.common import Array, Context
from evidence.distillation import _setting as at
from evidence.distillation._setting import Setting
from evidence.distillation._texts import TASKS, Split, Task, Texts
from silot.distillation import LabelSpace, Scores, Weights, scores, teacher_weights, train
from silot.distillation.fitting import fit, module_predict
from silot.distillation.models import BagOfWords, VectorHead
from silot.distillation.text import PAD, Vocabulary, noise, noise_vectors, tokens

NOISE = 2000
WORDS = 200
# Inputs of a step when models are fitted to labels.
FITTED = 128


@dataclass(frozen=True)
class Score:
    """Macro F1, accuracy and semantic distance."""

    f1: float
    accuracy: float
    distance: float

    @classmethod
    def of(cls, found: Scores) -> Score:
        """The three of them."""
        return cls(found.macro_f1, found.accuracy, found.semantic_distance)


class Words(BagOfWords):
    """A bag of words that reads every text once; epochs only look it up."""

    def __init__(self, known: dict[str, torch.Tensor], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._known = known

    def encode(self, inputs: Sequence[str]) -> torch.Tensor:
        """Numbers of the words, (B, T)."""
        for text in inputs:
            if text not in self._known:
                self._known[text] = super().encode([text])[0]
        rows = [self._known[text] for text in inputs]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)

    # What is known of a text is the same for every model of a task.
    def __deepcopy__(self, memo: dict[int, object]) -> Words:
        memo[id(self._known)] = self._known
        found = self.__class__.__new__(self.__class__)
        found.__dict__ = copy.deepcopy(self.__dict__, memo)
        return found


@dataclass(frozen=True, eq=False)
class Asked:
    """A trained task: the global model, what teachers say, and records to score on.

    ``task``: texts and labels. ``start``: the global model before distillation. ``names``: the
    teachers, the global model itself the last. ``models``: theirs. ``outputs, biases, sizes``:
    predictions of the transfer set (K, n, L), mean ones of noise (K, L), training records (K,).
    ``noise``: inputs that mean nothing. ``fresh``: A model nobody has trained, to average from.
    """

    task: Task
    setting: Setting
    seed: int
    start: nn.Module
    names: tuple[str, ...]
    models: tuple[nn.Module, ...]
    outputs: Array
    biases: Array
    sizes: Array
    noise: Array | list[str]
    fresh: nn.Module

    def weights(self, weights: Weights, cap: float | None = None) -> Array:
        """Weights (K, n)."""
        return teacher_weights(
            self.outputs, weights=weights, biases=self.biases, sizes=self.sizes, cap=cap
        )

    def of_mean(self) -> Asked:
        """One teacher alone, whose logits are the mean of all teachers'."""
        logits = np.log(np.maximum(self.outputs, 1e-300)).mean(axis=0, keepdims=True)
        return replace(
            self, outputs=tempered(np.exp(logits - logits.max(axis=-1, keepdims=True)), 1.0)
        )

    @property
    def parties(self) -> list[Split]:
        """Who has texts, the global model the last."""
        return [*self.task.local, self.task.own]

    def student(
        self,
        algorithm: str,
        *,
        space: LabelSpace | None = None,
        epsilon: float | None = None,
        setting: Setting | None = None,
        cap: float | None = None,
        stops: Sequence[int] = (),
    ) -> dict[int, nn.Module]:
        """A copy of the global model, distilled; as it was after some epochs and at the end."""
        chosen = setting or self.setting
        loss, weights = algorithm.split("-")
        model = copy.deepcopy(self.start)
        kept: dict[int, nn.Module] = {}

        def keep(epoch: int) -> None:
            if epoch in stops or epoch == chosen.epochs:
                kept[epoch] = copy.deepcopy(model).eval()

        train(
            model, inputs_of(self.task.transfer), self.outputs,
            self.weights(at.WEIGHTS[weights], cap), space or self.task.space, loss=at.LOSSES[loss],
            epsilon=epsilon, epochs=chosen.epochs, rate=chosen.rate, batch=chosen.batch,
            seed=self.seed, progress=lambda told: keep(told.epoch),
        )  # fmt: skip
        return kept

    def scored(self, model: nn.Module | Predictor, part: str = "test") -> dict[str, Score]:
        """Scores by party, ``"global"`` for its own, and over all records together."""
        records: list[Texts] = [getattr(party, part) for party in self.parties]
        told = [
            module_predict(model, inputs_of(each), batch=1024)
            if isinstance(model, nn.Module)
            else model(inputs_of(each))
            for each in records
        ]
        codes = [each.codes for each in records]
        space = self.task.space
        parts = [*zip(told, codes, strict=True), (np.concatenate(told), np.concatenate(codes))]
        names = (*self.names, at.ALL)
        return {k: Score.of(scores(*part, space)) for k, part in zip(names, parts, strict=True)}

    def ensemble(self, inputs: Array | list[str]) -> Array:
        """Mean of the teachers' predictions."""
        return np.mean([module_predict(each, inputs, batch=1024) for each in self.models], axis=0)

    def averaged(self, rounds: int) -> nn.Module:
        """FedAvg: parties train from the same model, and their parameters are averaged by size."""
        model = copy.deepcopy(self.fresh)
        shares = (self.sizes / self.sizes.sum()).tolist()
        epochs = None if rounds == 1 else 1
        for number in range(rounds):
            states: list[dict[str, torch.Tensor]] = []
            for place, party in enumerate(self.parties):
                own = copy.deepcopy(model)
                seed = 1000 * self.seed + 100 * number + place
                fit_labels(own, party.train, self.setting, seed, epochs=epochs)
                states.append(own.state_dict())
            model.load_state_dict({
                name: torch.stack([w * s[name] for w, s in zip(shares, states, strict=True)]).sum(0)
                for name in states[0]
            })  # fmt: skip
        return model.eval()


def fit_labels(
    model: nn.Module, texts: Texts, setting: Setting, seed: int, *, epochs: int | None = None,
    **options: Any,
) -> None:  # fmt: skip
    """Fit a model to labels; ``epochs``: others than the setting's."""
    usual, rate = setting.fitting
    fit(
        model, inputs_of(texts), texts.codes, epochs=epochs or usual, rate=rate, batch=FITTED,
        balanced=setting.balanced, seed=seed, **options,
    )  # fmt: skip


Predictor = Callable[[Array | list[str]], Array]


def inputs_of(texts: Texts) -> Array | list[str]:
    """Sentence vectors where there are any, else the texts."""
    return texts.inputs if texts.vectors is None else texts.vectors


def asked(context: Context, name: str, seed: int, setting: Setting) -> Asked:
    """Train the global model and the teachers of a task, and ask them."""
    task = TASKS[name](context, seed)
    parties = [*task.local, task.own]
    build = _builder(context, task)
    models: list[nn.Module] = []
    for place, party in enumerate(parties):
        # The global model starts like the others would: nobody shares a start.
        models.append(build(1000 * seed + place))
        held = inputs_of(party.validation), party.validation.codes
        fit_labels(models[-1], party.train, setting, 1000 * seed + place, validation=held)
    names = (*(party.name for party in task.local), at.MEMORY)
    sizes = np.array([len(party.train) for party in parties], dtype=np.float64)
    return answered(
        Asked(
            task, setting, seed, models[-1], names, tuple(models), np.zeros(0), np.zeros(0), sizes,
            _noise(context, task, seed), build(1000 * seed + len(parties)),
        ),
        1.0,
    )  # fmt: skip


def answered(found: Asked, temperature: float) -> Asked:
    """The same, with predictions of the transfer set and of noise at a temperature."""
    transfer = inputs_of(found.task.transfer)

    def told(inputs: Array | list[str]) -> Array:
        each = [module_predict(model, inputs, batch=1024) for model in found.models]
        return tempered(np.stack(each), temperature)

    return replace(found, outputs=told(transfer), biases=told(found.noise).mean(axis=1))


def tempered(probabilities: Array, temperature: float) -> Array:
    """Probabilities whose logits are divided by a temperature."""
    scaled = np.log(np.maximum(probabilities, 1e-300)) / temperature
    scaled = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return scaled / scaled.sum(axis=-1, keepdims=True)


def one_seed(
    context: Context, name: str, seed: int, setting: Setting
) -> tuple[dict[str, dict[str, Score]], dict[str, Array], dict[str, str]]:
    """Scores on test records of students, the models before, the teachers and other ways.

    Rows that end in ``SHARP`` are of teachers whose predictions were sharpened. Also the mean
    weight of every teacher, by weighting, and their biases; and what validation records chose.
    """
    found = asked(context, name, seed, setting)
    diameter = found.task.space.diameter

    def student(given: Asked, algorithm: str, **options: Any) -> nn.Module:
        return given.student(algorithm, **options)[setting.epochs]

    students = {algorithm: student(found, algorithm) for algorithm in at.ALGORITHMS}
    for share, weights in itertools.product(at.OFFERED, "AE"):
        title = f"Sinkhorn-{weights}, epsilon {share:g}"
        students[title] = student(found, f"Sinkhorn-{weights}", epsilon=share * diameter)
    teachers = dict(zip(found.names, found.models, strict=True))

    def best(models: dict[str, nn.Module]) -> str:
        told = {each: found.scored(models[each], "validation")[at.ALL].distance for each in models}
        return min(told, key=lambda each: told[each])

    chosen = {at.CHOSEN: best(students), at.BEST: best(teachers)}
    students[at.CAPPED] = student(found, "Sinkhorn-E", cap=at.CAP)
    rows = {title: found.scored(model) for title, model in students.items()}
    rows[at.CHOSEN] = rows[chosen[at.CHOSEN]]
    rows[at.BEFORE] = found.scored(found.start)
    for party, model in zip(found.names[:-1], found.models, strict=False):
        rows[f"teacher {party}"] = found.scored(model)
    rows[at.BEST] = found.scored(teachers[chosen[at.BEST]])
    rows[at.ENSEMBLE] = found.scored(found.ensemble)
    rows[at.DISTILLED_MEAN] = found.scored(student(found.of_mean(), "Entropy-A"))
    rows[at.AVERAGED] = found.scored(found.averaged(1))
    rows[at.ROUNDED] = found.scored(found.averaged(at.ROUNDS))
    told = {mark: found.weights(weights).mean(axis=1) for mark, weights in at.WEIGHTS.items()}
    sharp = answered(found, at.SHARPENED)
    for algorithm in at.ALGORITHMS:
        rows[algorithm + at.SHARP] = sharp.scored(student(sharp, algorithm))
    return rows, {**told, at.BIAS: found.biases}, chosen


def labels_seed(
    context: Context, name: str, seed: int, setting: Setting, epsilons: Iterable[float]
) -> dict[str, dict[str, Score]]:
    """Scores of Sinkhorn-E in two label spaces and with several epsilons, and of Entropy-E.

    An epsilon is a share of the label space's diameter; scores are those of the task's own space.
    """
    found = asked(context, name, seed, setting)
    space = found.task.space

    def row(algorithm: str, **options: Any) -> dict[str, Score]:
        return found.scored(found.student(algorithm, **options)[setting.epochs])

    rows = {
        at.BEFORE: found.scored(found.start),
        at.PLAIN: row("Entropy-E"),
        at.ONE_HOT: row("Sinkhorn-E", space=LabelSpace.one_hot(space.names)),
        at.EXACT: row("Sinkhorn-E"),
    }
    for share in epsilons:
        rows[f"epsilon {share:g}"] = row("Sinkhorn-E", epsilon=share * space.diameter)
    return rows


def _builder(context: Context, task: Task):
    if task.transfer.vectors is not None:
        width = task.transfer.vectors.shape[1]
        return lambda seed: VectorHead(width, task.space, scale=width**-0.5, seed=seed)
    vocabulary, table = _vocabulary(context, task)
    known: dict[str, torch.Tensor] = {}

    def build(seed: int) -> nn.Module:
        # As wide as the public vectors: no map from one length to another.
        return Words(
            known, vocabulary, task.space, width=table.shape[1], length=64, pairs=task.pairs,
            vectors=table, dropout=0.2, seed=seed,
        )  # fmt: skip

    return build


def _vocabulary(context: Context, task: Task) -> tuple[Vocabulary, npt.NDArray[np.float32]]:
    """Words that have a public vector and are in texts the server has."""
    words, vectors = context.words()
    texts = [*task.own.train.inputs, *task.transfer.inputs]
    seen = {token for text in texts for token in tokens(text)}
    kept = tuple(word for word in words if word in seen)
    vocabulary = Vocabulary(kept, buckets=256)
    return vocabulary, vocabulary.vectors(words, vectors)


def _noise(context: Context, task: Task, seed: int) -> Array | list[str]:
    if task.transfer.vectors is not None:
        return noise_vectors(NOISE, task.transfer.vectors.shape[1], unit=True, seed=seed)
    vocabulary, _ = _vocabulary(context, task)
    return noise(vocabulary, NOISE, WORDS, seed=seed, parts=1 + task.pairs)
