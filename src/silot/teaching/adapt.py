"""The whole of ST-LF: who trains, who receives, over which links, and how well it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import HolderError, InputError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol, Steps
from ..options import anything, documented, option
from .between import Divergence
from .divergence import Divergences
from .divergences import DIVERGENCES, divergence_named
from .federated import ModelSpec
from .federated.devices import Devices, ask_columns, ask_each, codes_of, count
from .federated.questions.models import described
from .matched import Features
from .objectives import AIMS, Choosing
from .plan import LinkPlan
from .pricing import Evidence, energy_share
from .questions.combinations import Disagreement
from .result import Adaptation
from .targets import Combining
from .training import Learning, guessing, settled

# Sketches need public records, which no flag gives.
_COMPARED = (*(name for name in DIVERGENCES if name != "sketch"), "none")
# The paper as published, and what is ours.
_PUBLISHED: dict[str, Any] = {
    "objective": "bound",
    "divergence": "classifier",
    "constants": "log10",
    "folds": 0,
    "rule": "parameter",
}
_OURS: dict[str, Any] = {
    "objective": "coverage",
    "constants": "none",
    "folds": 2,
    "rule": "output",
}
# What other options decide on where it is not given.
_LEFT = (*_PUBLISHED, "prior")


class Adapt(Combining, Choosing, Features, Learning):
    r"""Train at labelled devices, choose links, combine models at the others, and evaluate.

    Devices tell how many labels they have; those with labels train models from one common
    start; divergences and costs follow; a plan is solved; targets combine the models their
    links bring.

    ``method``, ``mixing``, ``mixing_scale`` and ``allow_unserved`` are for ``"matched"`` and
    ``"bound"``. ``mixing="ambiguity"`` sends every model to every device, which no energy of the
    plan counts. ``method="st-lf"`` is the paper as published: besides the solver it makes
    ``objective="bound"``, ``divergence="classifier"`` (its Algorithm 1), ``constants="log10"``,
    ``folds=0`` and ``rule="parameter"`` the defaults.

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023.
    ``"coverage"`` and ``"matched"`` are ours: the paper's bound never rewards more than one
    source a target. Everything they use is computed without labels of the target.

    Models go from devices to targets through the coordinator here, and their bytes are on the
    bill; ``energy`` is that of the paper's model, where devices send directly.

    Examples
    --------
    >>> Adapt(method="st-lf").settled.divergence
    'classifier'
    """

    name = "adapt"

    divergence: str | None = option(
        'Method of ``divergences``, or ``"none"``. By default ``"mmd"`` where the plan rests on '
        'divergences, with ``objective="bound"`` or ``mixing="mmd"``, else none. Columns are '
        "scaled as for the model.",
        anything("str, or None", _COMPARED),
        default=None,
        brief="How it is measured how far apart data are. Default: mmd where it is used.",
    )
    divergence_options: Mapping[str, Any] | None = option(
        "Options of that divergence.", anything("dict, or None"), default=None
    )

    def fit(self) -> None:
        if self.settled is self:
            self._check_together()
            super().fit()

    @cached_property
    def settled(self) -> Adapt:
        """The same options, with those chosen that were left to the others."""
        given = {name: getattr(self, name) for name in _LEFT}
        given = {name: value for name, value in given.items() if value is not None}
        chosen = (_PUBLISHED if self.method == "st-lf" else _OURS) | given
        estimates = AIMS[chosen["objective"]].estimates
        compares = not estimates or self.needs == "kernel"
        adjusts = estimates and chosen["rule"] != "parameter"
        chosen.setdefault("divergence", "mmd" if compares else "none")
        chosen.setdefault("prior", "auto" if adjusts else "source")
        return self if chosen == given else self.having(**chosen)

    def _check_together(self) -> None:
        """Raise where options of several stages do not go together."""
        if self.prior != "source" and not (self.aim.estimates and self.rule != "parameter"):
            raise InputError(
                f"prior={self.prior!r} needs the class proportions that objective='coverage' or "
                "'matched' estimates, and a rule other than 'parameter'.",
                code="option-prior",
            )
        if self.needs == "kernel" and self.divergence != "mmd":
            raise InputError(
                "mixing='mmd' needs divergence='mmd', which tells the kernel.",
                code="option-mixing",
            )
        if self.divergence == "none" and self.divergence_options:
            raise InputError(
                "divergence_options are given, and no divergence. Give divergence='mmd'.",
                code="option-divergence",
            )
        if self.comparison is None and not self.aim.estimates:
            raise InputError(
                "objective='bound' needs a divergence. Give divergence='mmd'.",
                code="option-divergence",
            )

    def protocol(self, holders: Sequence[str]) -> Protocol[Adaptation]:
        """The protocol of some devices, by name."""
        options, names = self.settled, tuple(holders)
        if len(names) < 2:
            raise InputError(
                f"{len(names)} device(s) given; two or more are needed.", code="holder-names"
            )
        options.check_holders(names)
        comparison = options.comparison
        compared = 0 if comparison is None else comparison.among(names).expected_rounds
        model = options.model
        return Protocol(
            "adapt",
            names,
            Disclosure.RECORD,
            lambda: options.steps(names),
            {
                "model": model if isinstance(model, str) else model.to_text(),
                "iterations": options.iterations,
                "folds": options.folds,
                "divergence": options.divergence,
                "objective": options.objective,
                "mixing": options.mixing,
                "method": options.method,
                "rule": options.rule,
                "prior": options.prior,
                "seed": options.seed,
            },
            expected_rounds=8 + compared,
        )

    @cached_property
    def comparison(self) -> Divergence | None:
        """How devices are compared with one another, if at all."""
        method = settled(self.divergence)
        if method == "none":
            return None
        # Columns have units of their own for it, too.
        scaled = method in ("mmd", "classifier") and self.by_column
        more = {"standardise": True} if scaled else {}
        more |= self.divergence_options or {}
        return divergence_named(method).build(seed=self.seed, **more)

    def steps(self, holders: tuple[str, ...]) -> Steps[Adaptation]:
        """Questions, and the adaptation that follows from the answers."""
        devices = Devices()
        classes = yield from count(sorted(holders), self.classes, self.unlabelled, devices)
        if self.by_column:
            yield from ask_columns(devices)
        spec = self.spec_of(devices, classes)
        trained = yield from self.train(devices, spec, classes)
        means = {}
        if self.aim.estimates:
            means = yield from self.ask_features(devices, spec, trained, classes)
        apart = yield from self._compare(devices)
        sources = {name: trained[name].parameters for name in trained if name in devices.counted}
        disagreement = yield from self._disagreement(devices, spec, sources)
        models = {name: value for name, value in sources.items() if name in devices.counted}
        matching = self.match(devices, means, trained, classes) if means else None
        evidence = Evidence(devices, trained, spec, apart, matching, disagreement)
        costs = self.costs_of(evidence, holders)
        plan = self.aim.solve(self, costs)
        targets = self.targets(evidence, classes, means, models)
        combined = yield from targets.combine(plan, models)
        accuracies, unevaluated = yield from targets.evaluate(plan, combined)
        return Adaptation(
            names=devices.names,
            classes=classes,
            plan=plan,
            costs=costs,
            divergences=apart,
            labelled=devices.labelled,
            unlabelled=devices.unlabelled,
            errors={name: trained[name].error for name in models},
            shares=None if matching is None else matching.shares,
            models=combined,
            spec=spec,
            parameters=models,
            rule=targets.rule,
            accuracies=accuracies,
            energy=plan.energy,
            energy_share=energy_share(plan, costs),
            status=_status(plan, devices, guessing(trained, devices, classes))
            + targets.status(plan, combined, unevaluated),
            seed=self.seed,
            excluded=codes_of(devices.excluded),
            missing=codes_of(devices.missing),
            unevaluated=unevaluated,
        )

    def _compare(self, devices: Devices) -> Steps[Divergences | None]:
        if self.comparison is None:
            return None
        apart = yield from self.comparison.among(devices.names).start()
        devices.drop({name: Failure(code) for name, code in apart.missing.items()})
        return apart

    def _disagreement(
        self, devices: Devices, spec: ModelSpec, models: Mapping[str, Array]
    ) -> Steps[Array | None]:
        """Where the mixing needs it, how far models differ at every device."""
        if self.needs != "disagreement":
            return None
        question = Disagreement(**described(spec), parameters=np.stack(list(models.values())))

        def read(_: str, answer: Answer) -> Array:
            squares = answer.array("squares", ndim=2)
            if squares.shape != (len(models), len(models)):
                raise HolderError("a table of another size.", code="answer-malformed")
            return squares

        told, failed = yield from ask_each(dict.fromkeys(devices.names, question), read)
        devices.drop(failed)
        names = devices.names
        places = [names.index(name) for name in models if name in names]
        kept = [k for k, name in enumerate(models) if name in names]
        squares = np.zeros((len(names),) * 3)
        for j, name in enumerate(names):
            squares[np.ix_([j], places, places)] = told[name][np.ix_(kept, kept)]
        return squares


def adapt(holders: Sequence[str], **options: Any) -> Protocol[Adaptation]:
    """Train at labelled devices, choose links, combine models at the others, and evaluate.

    ``Adapt(**options).protocol(holders)``.

    Parameters
    ----------
    holders : sequence of str
        Names of the devices, two or more. A record without a label has the label
        ``unlabelled``; a device may have no labels at all.

    Returns
    -------
    Protocol[Adaptation]
        A device that fails or refuses to train is excluded as a source and may still receive; one
        that does not answer at all is missing. Discloses at level record: parameters of models.

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together; devices of different dimensions, or
        a model that does not fit them (in the run).
    NoEligibleSource
        No device has labels enough, or none of them could train (in the run).

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (x[:, 0] > 0).astype(int).astype(str)
    >>> fed = LocalFederation({
    ...     "a": Measure(x[:100], labels=y[:100]),
    ...     "b": Measure(x[100:200], labels=y[100:200]),
    ...     "new": Measure(x[200:]),
    ... })
    >>> found = fed.run(adapt(["a", "b", "new"], model="logistic"))
    >>> found.plan.targets, bool((found.predict("new", x[200:]) == y[200:]).mean() > 0.9)
    (('new',), True)
    """
    return Adapt(**options).protocol(holders)


adapt.__doc__ = documented(Adapt, adapt.__doc__)


def _status(plan: LinkPlan, devices: Devices, guessing: list[str]) -> str:
    """How the plan was found, who is left out, and who should not be relied on."""
    text = f"links: {plan.status}"
    if plan.optimal:
        text += ", which are estimates"
    for failures, words in (
        (devices.missing, "; without"),
        (devices.excluded, "; never sources:"),
    ):
        if failures:
            text += f"{words} {', '.join(f'{n} ({f.code})' for n, f in sorted(failures.items()))}"
    if guessing:
        text += (
            f"; no better than naming its largest class: {', '.join(guessing)}. Give more labels, "
            "or train longer"
        )
    return text
