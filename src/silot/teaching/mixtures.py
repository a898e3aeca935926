"""The steps by which every device gets a mixture of models: score, try changes, choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..distances.questions import encode_classes
from ..errors import HolderError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import Questions, Steps
from .costs import LinkCosts
from .federated.modelling import Devices, Means, Trained, ask_each
from .federated.spec import ModelSpec
from .plan import LinkPlan, LinkTerms
from .questions import ScoreModels, described, singles
from .transfer import (
    Choice,
    Explained,
    ModelScores,
    Target,
    choose_mixture,
    explain_records,
    find_allies,
    find_contrary,
    find_weak,
    have_common,
    mixture,
    within_budget,
)

# Sources whose models are scored: of more, those with most labels.
_MOST_SOURCES = 32
# Shares of classes explain the records of a device if they leave no more than this times what
# sampling explains, squared; and are what differs if the sources' own shares leave more.
_EXPLAINED, _DIFFERS = 1.25, 1.0
# Accuracy that a change must win at sources, or must not lose; and how far apart two estimates of
# shares may be, in total variation.
_GAIN, _AGREE = 0.02, 0.5
# Ways to estimate class shares: from mean features, from mean predictions, and their mean.
_WAYS = ("matched", "outputs", "both")
# Part of the disagreement of models to which a move of columns must bring it, and from which on
# half of the move is made.
_CALMED, _CLEARLY = 0.95, 0.6
# Records of the senders' class shares that are added to those of a device: few tell little.
_PRIOR = 5.0
# Least share of a class a device is taken to have, and most a class is raised by.
_LEAST_SHARE, _LARGEST_FACTOR = 1e-3, 20.0


@dataclass(frozen=True, eq=False)
class Scored:
    """What one device reports on all models, under each change (V)."""

    counts: Array
    errors: Array
    apart: Array
    right: Array
    wrong: Array
    outputs: Array
    by_class: Array

    def scores(self, change: int = 0) -> ModelScores:
        """Return the scores under a change."""
        return ModelScores(self.counts, self.errors[change], self.wrong, self.apart[change])


@dataclass(frozen=True, eq=False)
class Change:
    """What is done to models and records at a device: factors (S, C), and columns moved (2, d)."""

    factors: Array | None = None
    move: Array | None = None

    def variants(self) -> list[Change]:
        """Return the change, and of moved columns half of the move, too."""
        if self.move is None:
            return [self]
        half = np.stack([(1.0 + self.move[0]) / 2.0, self.move[1] / 2.0])
        return [self, Change(move=half)]


@dataclass(frozen=True, eq=False)
class Mixtures:
    """What was chosen for every device."""

    sources: tuple[str, ...]
    contrary: tuple[str, ...]
    weak: tuple[str, ...]
    deciding: tuple[str, ...]
    """Devices that use only sources which do not contradict their own labels."""
    choices: Mapping[str, Choice]
    changes: Mapping[str, Change]
    targets: Mapping[str, Target]
    shares: Array
    """Estimated shares of the classes at every device (N, C)."""
    failed: Mapping[str, str]
    """Devices that did not score models, and why."""

    def factors(self, name: str, senders: Sequence[str]) -> Array | None:
        """Return what the predictions of senders are multiplied by at a device."""
        change = self.changes.get(name)
        if change is None or change.factors is None:
            return None
        return change.factors[[self.sources.index(sender) for sender in senders]]

    def describe(self) -> str:
        """Say who is contrary, what was changed where, and who did not score models."""
        adjusted = [name for name, change in self.changes.items() if change.factors is not None]
        moved = [name for name, change in self.changes.items() if change.move is not None]
        parts = (
            ("; worse than guessing, and not used by others: ", self.contrary),
            ("; sources that contradict its labels are not used at ", self.deciding),
            ("; no better than predicting class shares, and not used by others: ", self.weak),
            ("; models adjusted to class shares at ", adjusted),
            ("; columns moved to those of the sources at ", moved),
            ("; no scores from ", [f"{k} ({v})" for k, v in sorted(self.failed.items())]),
        )
        return "".join(f"{words}{', '.join(names)}" for words, names in parts if names)


@dataclass
class Mixing:
    """The coordinator of one run: asks devices about models, and chooses for each."""

    devices: Devices
    spec: ModelSpec
    classes: tuple[str, ...]
    trained: Mapping[str, Trained]
    means: Mapping[str, Means]
    training: Mapping[str, Any]
    """Options of the training, by which own models are held out."""
    unlabelled: str
    prior: str
    reaches: Callable[[str, str], bool]
    """Whether a model may go from one device to another."""
    contrary: list[int] = field(default_factory=list[int])
    weak: list[int] = field(default_factory=list[int])
    allies: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    scored: dict[str, Scored] = field(default_factory=dict[str, Scored])
    won: dict[str, float] = field(default_factory=dict[str, float])

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Devices whose models are scored, in the order of names."""
        able = [name for name in self.devices.names if name in self.trained]
        able.sort(key=lambda name: (-self.devices.counted[name].labelled, name))
        return tuple(sorted(able[:_MOST_SOURCES]))

    @cached_property
    def counts(self) -> Array:
        """Labelled records of each source by class (S, C)."""
        items = [self.devices.counted[name].by_class(self.classes) for name in self.sources]
        return np.stack(items).astype(np.float64)

    @property
    def source_means(self) -> Array | None:
        """Mean features of the sources (S, D), if all disclosed them."""
        if not all(source in self.means for source in self.sources):
            return None
        return np.stack([self.means[source].mean for source in self.sources])

    @property
    def kept(self) -> list[int]:
        """Sources that others use: neither contrary nor weak."""
        return [k for k in range(len(self.sources)) if k not in (*self.contrary, *self.weak)]

    def kept_at(self, name: str) -> list[int]:
        """Sources that one device uses: where its labels contradict some, those they do not."""
        return self.allies.get(name) or self.kept

    def run(self) -> Steps[Mixtures]:
        """Score, try, choose."""
        names = self.devices.names
        self.scored, failed = yield from self.ask(names, {name: [Change()] for name in names})
        scores = [self._scores(name) for name in self.sources]
        self.contrary = find_contrary(scores, self.counts, self.source_means)
        self.weak = find_weak(scores, self.contrary)
        for name, item in self.scored.items():
            own = self.sources.index(name) if name in self.sources else -1
            allies = find_allies(scores, self.counts, self.source_means, item.scores(), own)
            allies = [k for k in allies if k not in self.weak]
            if {*allies} - {own} != {*self.kept} - {own}:
                self.allies[name] = allies
        if len(self.kept) > 2:
            yield from self.try_changes()
        explained = {name: self.explain_device(name, self.kept_at(name)) for name in names}
        proposals = {
            name: self.propose(name, explained[name], self.kept_at(name)) for name in names
        }
        proposed = {name: change for name, change in proposals.items() if change is not None}
        variants = {name: change.variants() for name, change in proposed.items()}
        changed, _ = yield from self.ask(list(proposed), variants)
        at = {name: self._pick(name, variants[name], changed.get(name)) for name in proposed}
        proposed = {name: variants[name][k] for name, k in at.items() if k is not None}
        # What a change of models does to their errors is known where elsewhere are labels.
        adjusted = [name for name, change in proposed.items() if change.factors is not None]
        elsewhere: dict[str, Scored] = {}
        if adjusted:
            every = [Change(proposed[name].factors) for name in adjusted]
            elsewhere, _ = yield from self.ask(self.sources, dict.fromkeys(self.sources, every))
        choices: dict[str, Choice] = {}
        targets: dict[str, Target] = {}
        for name in names:
            place = adjusted.index(name) if name in adjusted else -1
            scored, variant = self.scored.get(name), 0
            if name in proposed:
                scored, variant = changed.get(name), at[name] or 0
            targets[name] = self._target(name, explained[name], scored, variant, place >= 0)
            usual = [
                elsewhere[k].scores(place) if place >= 0 and k in elsewhere else self._scores(k)
                for k in self.sources
            ]
            reachable = [k for k in self.kept_at(name) if self.reaches(self.sources[k], name)]
            choices[name] = choose_mixture(targets[name], usual, reachable)
        used = {k for name, allies in self.allies.items() for k in allies}
        return Mixtures(
            sources=self.sources,
            contrary=tuple(self.sources[k] for k in self.contrary if k not in used),
            weak=tuple(self.sources[k] for k in self.weak),
            deciding=tuple(name for name, allies in self.allies.items() if allies),
            choices=choices,
            changes=proposed,
            targets=targets,
            shares=np.stack([explained[name].shares for name in names]),
            failed={name: failure.code for name, failure in failed.items()},
        )

    def _scores(self, source: str) -> ModelScores:
        """ModelScores at a source; of one that gave none, of no records."""
        if source in self.scored:
            return self.scored[source].scores()
        size, classes = len(self.sources), len(self.classes)
        nothing = np.zeros((classes, size)), np.zeros((size, classes)), np.zeros((size, size))
        return ModelScores(np.zeros(classes), *nothing)

    def _target(
        self, name: str, item: Explained, scored: Scored | None, variant: int, is_adjusted: bool
    ) -> Target:
        size = len(self.sources)
        return Target(
            apart=np.zeros((size, size)) if scored is None else scored.apart[variant],
            shares=item.shares if is_adjusted else None,
            origin=item.origin if item.origin.any() else None,
            excess=item.excess if np.isfinite(item.excess) else 1.0,
            near=None
            if self.source_means is None or name not in self.means
            else have_common(self.source_means, self.means[name].mean[None])[:, 0],
            own=self.sources.index(name) if name in self.sources else -1,
            labels=scored.scores(variant) if scored is not None and scored.counts.any() else None,
        )

    def ask(
        self, names: Sequence[str], changes: Mapping[str, Sequence[Change]]
    ) -> Steps[tuple[dict[str, Scored], dict[str, Failure]]]:
        """Ask devices to score all models under changes; a source's mix is without its own."""
        models = np.stack([self.trained[name].parameters for name in self.sources])
        size, classes, width = len(models), len(self.classes), self.spec.inputs
        questions: Questions = {}
        for name in names:
            own = self.sources.index(name) if name in self.sources else -1
            kept = self.kept_at(name)
            mix = np.array([k in kept and k != own for k in range(size)], dtype=np.float64)
            mix = mix if mix.any() else np.ones(size)
            every = changes[name]
            factors, moves = np.ones((len(every), size, classes)), np.zeros((len(every), 2, width))
            moves[:, 0] = 1.0
            for v, change in enumerate(every):
                factors[v] = factors[v] if change.factors is None else change.factors
                moves[v] = moves[v] if change.move is None else change.move
            questions[name] = ScoreModels(
                **described(self.spec), classes=encode_classes(list(self.classes)),
                unlabelled=self.unlabelled, parameters=singles(models), weights=mix / mix.sum(),
                trained=self.counts.astype(np.int64), factors=factors, moves=moves, own=own,
                **self.training,
            )  # fmt: skip

        def read(name: str, answer: Answer) -> Scored:
            return _read(answer, len(changes[name]), size, classes)

        return (yield from ask_each(questions, read))

    def explain_device(self, name: str, kept: Sequence[int]) -> Explained:
        """Explain the records of a device as a mixture of the classes of sources."""
        if name not in self.means:
            shares = self.counts[kept or slice(None)].sum(axis=0)
            return Explained(np.zeros_like(self.counts), shares / shares.sum(), np.inf, np.inf)
        means = [self.means[source] for source in self.sources]
        counts = np.stack([item.counts for item in means]) * np.isin(
            np.arange(len(means)), kept or range(len(means))
        )[:, None]  # fmt: skip
        return explain_records(
            self.means[name].mean,
            self.devices.counted[name].records,
            np.stack([item.by_class for item in means]),
            counts,
            self.counts,
        )

    def factors(self, name: str, item: Explained, kept: Sequence[int], way: str) -> Array | None:
        """Return what models are multiplied by (S, C), where class shares are what differs."""
        is_free = self.prior == "auto"
        differs = item.excess <= _EXPLAINED and item.even_excess >= _DIFFERS
        if way == "none" or (is_free and not differs):
            return None
        from_outputs = item.shares
        if name in self.scored and all(source in self.scored for source in self.sources):
            from_outputs = self._shares_by_outputs(name, kept)
        if is_free and np.abs(from_outputs - item.shares).sum() / 2.0 > _AGREE:
            return None
        shares = {
            "matched": item.shares,
            "outputs": from_outputs,
            "both": (item.shares + from_outputs) / 2.0,
        }[way]
        trained = self.counts + 1.0 / len(self.classes)
        trained = trained / trained.sum(axis=1, keepdims=True)
        records = self.devices.counted[name].records
        own = (records * shares + _PRIOR * trained[kept].mean(axis=0)) / (records + _PRIOR)
        return np.minimum(np.maximum(own, _LEAST_SHARE) / trained, _LARGEST_FACTOR)

    def _shares_by_outputs(self, name: str, kept: Sequence[int]) -> Array:
        """Estimate class shares from mean predictions, by those of each class at the sources."""
        counts = np.stack([self.scored[source].counts for source in self.sources])
        counts = counts * np.isin(np.arange(len(self.sources)), kept)[:, None]
        even = counts / np.maximum(counts.sum(axis=0), 1.0)
        by_class = np.stack([self.scored[source].by_class for source in self.sources])
        # Rows are a model's probability of a class, columns the true class.
        rows = np.einsum("lc,lckd->kdc", even, by_class)[list(kept)].reshape(-1, len(self.classes))
        return mixture(rows, self.scored[name].outputs[list(kept)].ravel())

    def propose(self, name: str, item: Explained, kept: Sequence[int]) -> Change | None:
        """Propose a change of models or records at a device; ``None`` where nothing helps."""
        if name in self.sources and self.sources.index(name) in self.contrary:
            # What others call its classes says nothing of it.
            return None
        way = "none" if self.prior == "source" else self._way()
        factors = self.factors(name, item, kept, way)
        if factors is not None:
            return Change(factors)
        is_source = name in self.sources
        pays = self.won.get("moved", -1.0) > -_GAIN
        if is_source or name not in self.scored or item.excess <= _EXPLAINED or not pays:
            return None
        move = self._move(name, kept)
        return None if move is None else Change(move=move)

    def _way(self) -> str:
        """Choose how class shares are estimated: as it paid where sources stood for devices."""
        ways = [way for way in _WAYS if way in self.won]
        if not ways or self.prior == "matched":
            return "matched"
        best = max(ways, key=lambda way: self.won[way])
        if self.won[best] > _GAIN:
            return "outputs" if self.won["outputs"] > self.won[best] - _GAIN else best
        return "both" if self.won["both"] > -_GAIN / 2.0 else "none"

    def _move(self, name: str, kept: Sequence[int]) -> Array | None:
        """Give columns of a device the mean and the deviation that they have at sources (2, d)."""
        columns = self.devices.columns
        others = [self.sources[k] for k in kept if self.sources[k] != name]
        if name not in columns or not others or any(k not in columns for k in others):
            return None
        sizes = np.array([self.devices.counted[k].records for k in others], dtype=np.float64)
        sizes /= sizes.sum()
        means = np.stack([columns[k][0] for k in others])
        variances = np.stack([columns[k][1] for k in others])
        centre = sizes @ means
        spread = np.sqrt(sizes @ (variances + (means - centre) ** 2))
        own = np.sqrt(columns[name][1])
        varies = own > 1e-12 * (1.0 + np.abs(columns[name][0]))
        scale = np.where(varies, spread / np.where(varies, own, 1.0), 1.0)
        return np.stack([scale, centre - scale * columns[name][0]])

    def _pick(self, name: str, variants: Sequence[Change], scored: Scored | None) -> int | None:
        """Pick the variant of a change: of moved columns, by how much better models agree."""
        if variants[0].move is None:
            return 0
        if scored is None:
            return None
        mix = np.array([k in self.kept for k in range(len(self.sources))], dtype=np.float64)
        mix /= mix.sum()
        before, after = (float(mix @ k.apart[0] @ mix) for k in (self.scored[name], scored))
        if after >= _CALMED * before:
            return None
        # Models may also agree on what is wrong: a whole move needs clear evidence.
        return 0 if after < _CLEARLY * before else 1

    def try_changes(self) -> Steps[None]:
        """Let every source stand for a device without labels, and see what each change wins."""
        tried: dict[str, list[str]] = {}
        changes: dict[str, list[Change]] = {}
        for k in self.kept:
            name, others = self.sources[k], [i for i in self.kept if i != k]
            item = self.explain_device(name, others)
            every = {way: self.factors(name, item, others, way) for way in _WAYS}
            usable = {way: Change(value) for way, value in every.items() if value is not None}
            move = self._move(name, others)
            usable |= {} if move is None else {"moved": Change(move=move)}
            tried[name], changes[name] = list(usable), [Change(), *usable.values()]
        scored, _ = yield from self.ask(list(changes), changes)
        gains: dict[str, list[float]] = {}
        for name, item in scored.items():
            won = dict(zip(tried[name], item.right[1:] - item.right[0], strict=True))
            for way in (*_WAYS, "moved"):
                # A change that is not made wins nothing.
                if way in won or way != "moved":
                    gains.setdefault(way, []).append(float(won.get(way, 0.0)))
        self.won = {way: float(np.mean(values)) for way, values in gains.items()}


def _read(answer: Answer, changes: int, size: int, classes: int) -> Scored:
    counts = answer.arrays.get("counts")
    shapes = {
        "errors": (changes, classes, size), "apart": (changes, size, size), "right": (changes,),
        "wrong": (size, classes), "outputs": (size, classes), "by_class": (classes, size, classes),
    }  # fmt: skip
    values = {name: answer.array(name, ndim=len(shape)) for name, shape in shapes.items()}
    fits = counts is not None and counts.dtype == np.int64 and counts.shape == (classes,)
    fits = fits and all(values[name].shape == shape for name, shape in shapes.items())
    if counts is None or not fits or counts.min() < 0:
        raise HolderError("scores that are not valid.", code="answer-malformed")
    if any(value.size and (value.min() < 0 or value.max() > 2.0) for value in values.values()):
        raise HolderError("scores that are not valid.", code="answer-malformed")
    return Scored(counts=counts.astype(np.float64), **values)


def plan_of(
    mixtures: Mixtures, costs: LinkCosts, budget: float | None
) -> tuple[LinkPlan, LinkCosts]:
    """Turn mixtures into a plan of links, and the costs that it is a plan of.

    A device is a target where it uses models of others, alone or beside its own.
    """
    names = list(costs.names)
    places = [names.index(source) for source in mixtures.sources]
    energy = np.where(np.isfinite(costs.energy), costs.energy, 0.0)[places]
    order = [mixtures.choices[name] for name in names]
    targets = [mixtures.targets[name] for name in names]
    weights = [choice.weights for choice in order]
    if budget is not None:
        weights = within_budget(order, targets, energy, budget)
    alpha, own = np.zeros((len(names), len(names))), np.zeros(len(names))
    transfer = np.full(alpha.shape, np.inf)
    transfer[places] = np.stack([choice.expected for choice in order], axis=1)
    for j, w in enumerate(weights):
        alpha[places, j] = w
        own[j] = alpha[j, j] * (transfer[j, j] if np.isfinite(transfer[j, j]) else 0.0)
    psi = np.where(np.diag(alpha) >= 1.0 - 1e-9, 0, 1).astype(np.int64)
    alpha[np.ix_(psi == 0, psi == 0)] *= 1.0 - np.eye(int((psi == 0).sum()))
    saved = sum(-0.5 * float(w @ t.apart @ w) for w, t in zip(weights, targets, strict=True))
    links = alpha * (1.0 - np.eye(len(names)))
    moved = float((links[links > 0] * transfer[links > 0]).sum())
    terms = LinkTerms(source=float(own.sum()), transfer=moved, energy=0.0, averaging=saved)
    bound = min(sum(choice.least for choice in order), terms.total)
    gap = (terms.total - bound) / max(1.0, abs(terms.total))
    spread = float(np.sqrt(np.mean([choice.spread**2 for choice in order])))
    status = (
        "by expected Brier scores: at every device the equal mixture, unless another is better by "
        f"a standard error; these scores are estimates, off by {spread:.2g} in the mean"
    )
    if budget is not None:
        status += f"; links removed to use at most {budget:.0%} of the energy of all"
    plan = LinkPlan(
        names=costs.names, psi=psi, alpha=alpha, objective=terms.total, terms=terms,
        lower_bound=bound, gap=gap, status=status, optimal=gap < 1e-3, seconds=0.0,
        method="transfer",
        energy=float(costs.energy[links > 0].sum()),
        unserved=tuple(k for k, w in zip(names, weights, strict=True) if not w.any()),
    )  # fmt: skip
    finite = np.where(np.isfinite(transfer), transfer, 1.0)
    source = np.array([finite[j, j] for j in range(len(names))])
    np.fill_diagonal(transfer, 0.0)
    return plan, replace(costs, source=source, transfer=transfer, phi=(1.0, 1.0, 0.0))
