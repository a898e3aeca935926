"""The protocol of ST-LF: devices train, links are chosen, targets combine models and evaluate them.

``Adapt`` inherits its options from one class for each stage: what devices train (``Learning``),
how errors at targets are estimated (``Features``), what links cost and are chosen for
(``Choosing``), and how targets combine models (``Combining``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer, real

from ..distances.questions import encode_classes
from ..distances.shared_options import training_option
from ..distances.sketches.questions import SummarizeRecords, read_integers
from ..distances.sketches.release_options import Private
from ..errors import HolderError, InputError, MismatchError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Questions, Steps
from ..federation.question import Answerer
from ..options import Check, anything, count, declared, none_or, number, option, part, word
from ..privacy.accounting import scale_for
from ..privacy.summary import Reading
from .costs import LinkCosts, NoEligibleSource, checked_phi
from .divergences import DIVERGENCES, Divergence, divergence_of
from .exact import Links
from .federated import RULES, Model, ModelSpec, Rule
from .federated.modelling import (
    Counted,
    Devices,
    Labelled,
    Means,
    Modelling,
    Trained,
    answer_locally,
    ask_columns,
    ask_each,
    codes_of,
    count_labelled,
    read_means,
    read_trained,
)
from .mixtures import Mixing, Mixtures, plan_of
from .network import Constants, Network
from .plan import LinkPlan
from .questions import ClassFeatures, EvaluateCombination, MeanFeatures, TrainModel, described
from .result import Adaptation, Divergences

T = TypeVar("T")

Prior = Literal["auto", "source", "matched"]

# Fewest numbers of the records behind each number disclosed, by which features are chosen.
_NUMBERS = 5
_FEWEST_FEATURES = 2
# Of a release: most random features, and shares of the square of mu of the number of records and
# of the features, whose mean needs the number less precisely.
_RELEASED_FEATURES = 128
_RELEASED_SHARES = np.array([0.1, 0.9])


def settled(value: T | None) -> T:
    """Return an option that has a value once ``Adapt.settled`` chose the defaults."""
    assert value is not None
    return value


class Learning(Modelling):
    """What devices train."""

    iterations: int = option(
        "Steps of training at a device. The paper's are 100 iterations without "
        "momentum, after which its CNN hardly beats guessing on small devices.",
        count(1, 1_000_000),
        default=300,
        brief="Steps of training at a device.",
    )
    passes: float | None = option(
        "Fewest passes over the records, if that is more than ``iterations``. By "
        "default 20; in the paper 0.",
        none_or(number(least=0)),
        default=None,
        code="option-training",
        flag=False,
    )
    batch: int = option("Of the training.", count(), default=10, flag=False)
    rate: float = training_option("Of the training.", number(above=0), default=0.01)
    momentum: float = training_option("Of the training.", part("number"), default=0.9)
    folds: int | None = option(
        "Parts for cross-validation of the error, by default 2. 0 uses the error on "
        "the training records, as the paper does, which is too low.",
        none_or(count(0, 100)),
        default=None,
        flag=False,
    )
    minimum_labelled: int = option(
        "Fewest labelled records of a source.",
        count(),
        default=5,
        code="option-labelled",
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        if self.folds == 1:
            raise InputError("folds is 1; give 0 for none, or two or more.", code="option-folds")

    def spec_of(self, devices: Devices, classes: tuple[str, ...]) -> ModelSpec:
        """Describe the model that devices train, which must fit their records."""
        counted = [devices.counted[name] for name in devices.names]
        if len(classes) < 2 or not any(item.labelled for item in counted):
            raise NoEligibleSource(
                f"{len(classes)} class(es) have labelled records; two or more are needed. Give "
                "labels to a device, or the label of unlabelled records (unlabelled=...).",
                code="no-eligible-source",
            )
        return super().spec_of(devices, classes)

    def train(
        self, devices: Devices, spec: ModelSpec, classes: tuple[str, ...]
    ) -> Steps[dict[str, Trained]]:
        """Train models at the devices that have labels enough, and exclude the others."""
        able: list[str] = []
        for name in devices.names:
            labelled = devices.counted[name].labelled
            if labelled >= self.minimum_labelled:
                able.append(name)
            elif labelled:
                devices.excluded[name] = Failure("labels-few")
        question = TrainModel(
            **described(spec),
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            folds=settled(self.folds),
            **self.values("iterations", "passes", "batch", "rate", "momentum", "seed"),
        )
        trained, failed = yield from ask_each(
            dict.fromkeys(able, question), lambda _, answer: read_trained(answer, spec)
        )
        devices.excluded.update(failed)
        if not trained:
            reasons = ", ".join(f"{k} ({v.code})" for k, v in sorted(devices.excluded.items()))
            raise NoEligibleSource(
                f"no device could train a model: {reasons or 'none has labels'}. A source needs "
                f"{self.minimum_labelled} labels or more and a policy of level 'record'.",
                code="no-eligible-source",
            )
        return trained


def guessing(trained: dict[str, Trained], devices: Devices, classes: tuple[str, ...]) -> list[str]:
    """Name the sources whose model is wrong as often as always naming its largest class is."""
    names: list[str] = []
    for name in sorted(trained.keys() & devices.counted.keys()):
        counts = devices.counted[name].by_class(classes)
        largest = counts.max() / counts.sum()
        # Of one class there is nothing to guess.
        if largest < 1.0 and trained[name].error >= 1.0 - largest:
            names.append(name)
    return names


def _even(value: Any, name: str, code: str) -> int:
    features = integer(value, name, code, least=2, most=1 << 16)
    return features - 1 if features % 2 else features


class Features(Labelled):
    """How errors at targets are estimated from mean features."""

    features: int = option(
        "Most random features of the matching.",
        Check(_even, int, f"int, 2 or more, at most {1 << 16}"),
        default=512,
        flag=False,
    )
    bandwidth: float | None = option(
        "Bandwidth of their kernel, by default half of the root mean squared distance of two "
        "records of a device.",
        none_or(number(above=0)),
        default=None,
        flag=False,
    )

    def ask_features(
        self,
        devices: Devices,
        spec: ModelSpec,
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Steps[dict[str, Means]]:
        """Ask all devices for mean features, and sources for those of each class too."""
        question = self.build_features(devices, spec, classes)
        # A target's mean is all that is needed of it, and that is no more than an aggregate.
        alone = MeanFeatures(
            features=question.features,
            bandwidth=question.bandwidth,
            seed=self.seed,
            scale=question.scale,
        )
        questions: Questions = {k: question if k in trained else alone for k in devices.names}

        def read(name: str, answer: Answer) -> Means:
            is_source = name in trained
            return read_means(answer, len(classes), question.features, by_class=is_source)

        means, failed = yield from ask_each(questions, read)
        devices.drop(failed)
        return means

    def build_features(
        self, devices: Devices, spec: ModelSpec, classes: tuple[str, ...]
    ) -> ClassFeatures:
        """Build the question for mean features, in units of the model."""
        scale = np.atleast_1d(spec.scale)
        variances = [
            devices.columns[name][1] / scale**2 for name in devices.names if name in devices.columns
        ]
        if not variances:
            variances = [
                np.full(item.dimension, item.variance / item.dimension) / scale**2
                for item in devices.counted.values()
            ]
        bandwidth = self.bandwidth
        if bandwidth is None:
            # A device's records are this far apart, root mean squared.
            bandwidth = 0.5 * float(np.mean([2.0 * v.sum() for v in variances])) ** 0.5 or 1.0
        if len(scale) == 1:
            bandwidth, scale = bandwidth * float(scale[0]), np.zeros(0)
        return ClassFeatures(
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            features=self._how_many(devices, variances),
            bandwidth=bandwidth,
            seed=self.seed,
            scale=scale,
        )

    def _how_many(self, devices: Devices, variances: list[Array]) -> int:
        """Count features whose mean small classes can disclose without disclosing records."""
        items = list(devices.counted.values())
        sizes = [size for item in items for size in item.counts.values() if size >= _NUMBERS]
        if not sizes:
            return self.features
        # A column counts as the part it has in the variance, as it does for the holder.
        columns = min(map(_effective_columns, variances))
        held = columns * min(item.records for item in items)
        usual = min(float(np.quantile(sizes, 0.25)) * items[0].dimension, held) / _NUMBERS
        return min(self.features, max(_FEWEST_FEATURES, 2 * int(usual / 2)))


def _effective_columns(variance: Array) -> float:
    """Count columns by their variances: as all of them where variances are alike, or as one."""
    return max(1.0, float(variance.sum()) ** 2 / max(float(variance @ variance), 1e-300))


# Of a parameter as it travels.
_BITS = 64
# The paper's scales.
PHI = (1.0, 5.0, 1.0)


@dataclass(frozen=True)
class Evidence:
    """What devices disclosed that costs are made of; what no option needs is ``None``."""

    devices: Devices
    classes: tuple[str, ...]
    trained: Mapping[str, Trained]
    spec: ModelSpec
    means: Mapping[str, Means]
    apart: Divergences | None

    @property
    def models(self) -> dict[str, Array]:
        """Trained parameters of the devices that take part."""
        present = self.devices.counted
        return {k: item.parameters for k, item in self.trained.items() if k in present}

    def rows(self, powers: Mapping[str, float]) -> list[dict[str, Any]]:
        """Describe devices as a ``Network`` does."""
        errors = {name: trained.error for name, trained in self.trained.items()}
        return [
            {
                "name": name,
                "labelled": self.devices.labelled[name],
                "unlabelled": self.devices.unlabelled[name],
                "error": errors.get(name, 1.0) if self.devices.labelled[name] else None,
                "power_dbm": powers[name],
            }
            for name in self.devices.names
        ]


def _rates(value: Any, *_: str) -> float | Array:
    """Return one rate, or a table of the rates of all pairs."""
    try:
        table = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("rates are not numbers.", code="option-rates") from None
    if table.shape:
        return table
    return value if isinstance(value, float) else float(table)


class Costs(Links):
    """What a network costs, and how its links are chosen at these costs."""

    phi: Sequence[float] | None = option(
        'For ``"bound"``: scales of source errors, target errors and energy (joule). By default '
        "(1, 5, 1), the paper's.",
        none_or(
            Check(
                checked_phi,
                tuple[float, float, float],  # type: ignore[arg-type]
                "three floats",
                metavar="S T E",
            )
        ),
        default=None,
        brief="Scales of training, transfer and energy.",
    )
    constants: Constants | None = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("{'none', 'natural', 'log10'}, or None", get_args(Constants)),
        default=None,
        brief="Constants of the error bounds.",
    )
    delta: float = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("float, between 0 and 1"),
        default=0.1,
    )
    unlabelled_error: float | None = option(
        'Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.',
        anything("float, from 0 to 1, or None"),
        default=1.0,
    )
    rates: npt.ArrayLike = option(
        "Mbit/s of all pairs: one number, or a row and a column for each holder in the order "
        "given.",
        Check(_rates, None, "float or array (N, N)"),
        default=74.0,
    )
    powers: float | Mapping[str, float] = option(
        "dBm of all devices: one number, or by name.",
        anything("float, or mapping of names to floats"),
        default=24.0,
    )
    model_bits: float | None = option(
        "Bits of a model; by default 64 for each parameter (the paper assumes 1e9).",
        none_or(number(above=0)),
        default=None,
        flag=False,
    )

    def check_holders(self, names: tuple[str, ...]) -> None:
        """Raise where rates and powers are not of these devices."""
        rates, size = np.asarray(self.rates), len(names)
        if rates.shape not in ((), (size, size)):
            raise MismatchError(
                f"rates have shape {rates.shape}; one number or {(size, size)} is needed.",
                code="costs-shape",
            )
        pairs = rates if rates.shape == () else rates[~np.eye(size, dtype=bool)]
        if not np.isfinite(pairs).all() or (pairs < 0).any() or (rates.shape == () and rates == 0):
            raise InputError(
                "rates must be positive; to forbid a link, use the cost inf.", code="option-rates"
            )
        self._powers_of(names)

    def _powers_of(self, names: tuple[str, ...]) -> dict[str, float]:
        if not isinstance(self.powers, Mapping):
            return dict.fromkeys(names, real(self.powers, "the power in dBm", "option-power"))
        strange = sorted(set(self.powers) - set(names))
        if strange or len(self.powers) < len(names):
            raise MismatchError(
                f"powers are of {len(self.powers)} devices; one of each holder is needed.",
                code="device-names",
            )
        return {name: real(self.powers[name], "power", "option-power") for name in names}

    def toy(self) -> LinkCosts:
        """Compute costs of a network of two, which raises at once what a network refuses."""
        return Network(
            devices=({"name": "a", "labelled": 9, "error": 0.1}, {"name": "b", "labelled": 0,
                     "unlabelled": 9}),
            divergence=[[0.0, 1.0], [1.0, 0.0]], phi=self.phi or PHI, **self._bound,
        ).costs()  # fmt: skip

    @property
    def _bound(self) -> dict[str, Any]:
        own = self.values("delta", "unlabelled_error")
        return {"constants": self.constants or "none", **own}

    def costs_of(self, evidence: Evidence, holders: tuple[str, ...]) -> LinkCosts:
        """Compute costs of the network by eq. 17 and 18, or by errors where these are estimated.

        ``holders`` are in the order of the rows and columns of ``rates``.
        """
        names = evidence.devices.names
        half = self._pair_costs(evidence.apart, names)
        rows, rates = evidence.rows(self._powers_of(holders)), self.rates
        if isinstance(rates, np.ndarray):
            rates = rates[np.ix_(*[[holders.index(name) for name in names]] * 2)]
        costs = Network(
            devices=tuple(rows),
            divergence=2.0 * half,
            rates_mbit=rates,
            model_bits=self.model_bits or float(_BITS * evidence.spec.size),
            **self._bound,
        ).costs()
        return replace(
            costs,
            phi=self.phi or PHI,
            eligible=np.array([name in evidence.trained for name in names]),
        )

    def _pair_costs(self, apart: Divergences | None, names: tuple[str, ...]) -> Array:
        """Return half of the divergences as errors."""
        if apart is None:
            return np.zeros((len(names),) * 2)
        return apart.as_error()[np.ix_(*[[apart.names.index(name) for name in names]] * 2)]


def energy_share(plan: LinkPlan, costs: LinkCosts) -> float:
    """Compute the plan's energy as a share of that of all links from sources to its targets."""
    possible = np.isfinite(costs.links) & (plan.psi == 1)
    total = float(costs.energy[possible].sum())
    return plan.energy / total if total > 0 else 0.0


Objective = Literal["transfer", "bound"]


class Choosing(Costs):
    """What a plan is to be good at."""

    objective: Objective | None = option(
        '``"transfer"``, the default: every device gets the mixture of least expected Brier score, '
        "from scores of every model where there are labels (``silot.teaching.transfer``). "
        '``"bound"``: the paper\'s objective with its eq. 17 and 18.',
        none_or(word(*get_args(Objective))),
        default=None,
        brief="What to minimise: the expected error of mixtures (transfer), or the paper's "
        "bound. Default: transfer, or bound with --method st-lf.",
    )
    budget: float | None = option(
        'For ``"transfer"``: largest share of the energy of all links; every device keeps one. '
        "``None`` for no limit.",
        none_or(number(above=0)),
        default=None,
        brief="For transfer: largest share of the energy of all links that may be used. "
        "Default: no limit.",
    )

    def fit(self) -> None:
        super().fit()
        unused = _OF_BOUND if self.by_transfer else ("budget",)
        for item in declared(type(self)):
            # Constants of none are no constants, whoever names them.
            if item.name in unused and getattr(self, item.name) not in (item.default, "none"):
                raise InputError(
                    f"objective={self.objective or 'transfer'!r} does not use {item.name}. Leave "
                    f"it out, or give objective={'bound' if self.by_transfer else 'transfer'!r}.",
                    code="option-objective",
                )
        if not self.by_transfer:
            # A network of two, which raises at once what the solver refuses.
            self.solve(self.toy())

    @property
    def by_transfer(self) -> bool:
        """Whether links follow from scores of models, and not from the paper's bound."""
        return self.objective in (None, "transfer")


# Options of the paper's objective alone.
_OF_BOUND = (
    "method", "allow_unserved", "phi", "constants", "delta", "unlabelled_error", "gap",
)  # fmt: skip


class Combining(Labelled):
    """How targets use the models they receive."""

    rule: Rule | None = option(
        'How targets combine models (``silot.teaching.federated.Model``); by default ``"output"``.',
        none_or(word(*RULES)),
        default=None,
        brief="How a target combines models. Default: output, or parameter with --method st-lf.",
    )
    prior: Prior | None = option(
        '``"matched"`` adjusts each model\'s predictions from the class proportions '
        "of its training records to the estimated proportions of the device's own "
        'records; ``"source"`` leaves them. ``"auto"``, the default except with '
        '``objective="bound"``, adjusts if the proportions are what differs: the '
        "records are a mixture of the sources' classes in other proportions, two "
        "estimates of these proportions agree, and at sources that stand for devices "
        "the adjustment does not lose accuracy.",
        none_or(word(*get_args(Prior))),
        default=None,
        brief="Adjust models to the estimated class shares of a target (matched), do not "
        "(source), or adjust only if class shares are what differs (auto). Default: auto.",
    )

    def combine(
        self, plan: LinkPlan, evidence: Evidence, mixtures: Mixtures | None
    ) -> dict[str, Model]:
        """Return the model of every device that has one: its own, or what it received."""
        spec, models = evidence.spec, evidence.models
        combinations: dict[str, Model] = {}
        for j, name in enumerate(plan.names):
            if plan.psi[j] == 0:
                combinations[name] = Model.of(spec, evidence.classes, models[name])
                continue
            senders = np.flatnonzero(plan.alpha[:, j] > 0)
            if not len(senders):
                continue
            names, weights = [plan.names[i] for i in senders], plan.alpha[senders, j]
            change = None if mixtures is None else mixtures.changes.get(name)
            combinations[name] = Model(
                spec=spec,
                classes=evidence.classes,
                parameters=np.stack([models[sender] for sender in names]),
                weights=weights / weights.sum(),
                rule=settled(self.rule),
                factors=None if mixtures is None else mixtures.factors(name, names),
                move=None if change is None else change.move,
            )
        return combinations

    def evaluate(
        self,
        plan: LinkPlan,
        models: Mapping[str, Model],
        labelled: Mapping[str, int],
    ) -> Steps[tuple[dict[str, float | None], dict[str, str]]]:
        """Ask devices for accuracies on evaluation records; say why targets lack theirs."""
        questions = {
            name: EvaluateCombination.about(models[name], unlabelled=self.unlabelled)
            for name in plan.names
            if name in models and name != COORDINATOR
        }
        answers, failures = yield from ask_each(questions, lambda _, answer: _accuracy(answer))
        # A device with labels of its own need not have evaluation records, too.
        silent = {
            name: code for name, code in codes_of(failures).items()
            if name in plan.targets and (code != "evaluation-absent" or not labelled[name])
        }  # fmt: skip
        reasons = {name: "unserved" for name in plan.targets if name not in models} | silent
        return dict.fromkeys(reasons) | answers, reasons

    def target_status(
        self, plan: LinkPlan, accuracies: Mapping[str, float | None], unevaluated: Mapping[str, str]
    ) -> str:
        """Say what was done at targets, and what is not known of them."""
        if not plan.targets:
            return "; no device is a target: each has its own model"
        text = ""
        absent = [name for name, code in unevaluated.items() if code == "evaluation-absent"]
        silent = [name for name in unevaluated if name not in absent]
        if absent and not any(value is not None for value in accuracies.values()):
            text += "; no accuracy, because no target has evaluation records"
        elif absent:
            text += f"; without evaluation records: {', '.join(absent)}"
        if silent:
            text += f"; without an accuracy of {', '.join(silent)}"
        return text


def _accuracy(answer: Answer) -> float:
    accuracy = answer.number("accuracy")
    if accuracy > 1:
        raise HolderError("an accuracy above 1.", code="answer-malformed")
    return accuracy


# Sketches need public records, which no flag gives.
_COMPARED = (*(name for name in DIVERGENCES if name != "sketch"), "none")
# The paper as published, and what is ours.
_PUBLISHED: dict[str, Any] = {
    "objective": "bound",
    "divergence": "classifier",
    "constants": "log10",
    "folds": 0,
    "passes": 0.0,
    "rule": "parameter",
}
_OURS: dict[str, Any] = {
    "objective": "transfer",
    "folds": 2,
    "passes": 20.0,
    "rule": "output",
}
# Options that have no value of their own until others decide on it.
_OPEN = (*_PUBLISHED, "prior")


class Adapt(Combining, Choosing, Features, Learning):
    r"""Train at labelled devices, choose links, combine models at the others, and evaluate.

    Devices tell how many labels they have; those with labels train models from one common
    start; divergences and costs follow; a plan is solved; targets combine the models their
    links bring.

    ``method="st-lf"`` is the paper as published: besides the solver it makes
    ``objective="bound"``, ``divergence="classifier"`` (its Algorithm 1), ``constants="log10"``,
    ``folds=0`` and ``rule="parameter"`` the defaults.

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together.

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023.
    ``"transfer"`` is ours: the paper's bound never rewards more than one source a target.

    Models go from devices to targets through the coordinator here, and their bytes are on the
    cost; ``energy`` is that of the paper's model, where devices send directly.

    Examples
    --------
    >>> Adapt(method="st-lf").settled.divergence
    'classifier'
    """

    name = "adapt"

    divergence: str | None = option(
        'Method of ``divergences``, or ``"none"``. By default ``"mmd"`` if the plan '
        'needs divergences (``objective="bound"``), otherwise none. Columns are '
        "scaled as for the model.",
        anything("str, or None", _COMPARED),
        default=None,
        brief="How the difference of two data sets is measured. Default: mmd if the plan needs it.",
    )
    divergence_options: Mapping[str, Any] | None = option(
        "Options of the divergence method.", anything("dict, or None"), default=None
    )

    def fit(self) -> None:
        if self.settled is self:
            self._check_together()
            super().fit()

    @cached_property
    def settled(self) -> Adapt:
        """The same options, with the defaults chosen that depend on other options."""
        own = {name: value for name in _OPEN if (value := getattr(self, name)) is not None}
        chosen = (_PUBLISHED if self.method == "st-lf" else _OURS) | own
        is_bound = chosen["objective"] == "bound"
        chosen.setdefault("divergence", "mmd" if is_bound else "none")
        chosen.setdefault(
            "prior", "source" if is_bound or chosen["rule"] == "parameter" else "auto"
        )
        return self if chosen == own else self.having(**chosen)

    def _check_together(self) -> None:
        """Raise where options of several stages do not go together."""
        unfit, fit = self.prior != "source", "prior='source'"
        if self.by_transfer:
            unfit, fit = self.rule == "parameter", "rule='output'"
        if unfit:
            raise InputError(
                f"objective={self.objective!r} goes with {fit}. Leave the other out.",
                code="option-objective",
            )
        if self.divergence == "none" and self.divergence_options:
            raise InputError(
                "divergence_options are given without a divergence. Give divergence='mmd'.",
                code="option-divergence",
            )
        if self.comparison is None and not self.by_transfer:
            raise InputError(
                "objective='bound' needs a divergence. Give divergence='mmd'.",
                code="option-divergence",
            )

    def protocol(self, holders: Sequence[str]) -> Protocol[Adaptation]:
        """Return the protocol of some devices, by name."""
        options, names = self.settled, tuple(holders)
        if len(names) < 2:
            raise InputError(
                f"{len(names)} device(s) given; two or more are needed.", code="holder-names"
            )
        options.check_holders(names)
        comparison = options.comparison
        compared = 0 if comparison is None else comparison.among(names).expected_rounds
        return Protocol(
            "adapt",
            names,
            Disclosure.RECORD,
            lambda: options.steps(names),
            {
                "model": options.described_model,
                **options.values("iterations", "folds", "divergence", "objective"),
                **options.values("method", "rule", "prior", "seed"),
            },
            expected_rounds=10 + compared,
        )

    def private_protocol(
        self,
        holders: Sequence[str],
        own: Answerer,
        private: Private,
        evaluation: Mapping[str, Answerer] | None = None,
    ) -> Protocol[Adaptation]:
        """Return the protocol by which records of the coordinator's own teach holders.

        Every holder answers one release with noise: its number of records and their mean
        features. ``evaluation`` has records of targets that the caller owns; no holder is asked.
        """
        options, targets = self.settled, tuple(holders)
        options.check_holders((COORDINATOR, *targets))
        if not options.by_transfer or options.comparison is not None:
            raise InputError(
                "a private adaptation only estimates the class shares of its targets. Leave "
                "objective, divergence and method out.",
                code="option-privacy",
            )
        local = {COORDINATOR: own, **(evaluation or {})}
        return Protocol(
            "adapt",
            targets,
            Disclosure.PRIVATE,
            lambda: options._private_steps(targets, local, private),
            {
                **private.values("privacy_epsilon", "privacy_delta"),
                **options.values("objective", "rule", "prior", "seed"),
            },
        )

    def _private_steps(
        self, targets: tuple[str, ...], local: Mapping[str, Answerer], private: Private
    ) -> Steps[Adaptation]:
        """Train on records of the coordinator's own, and ask each target for one release."""
        devices = Devices(quorum=1)
        counting = count_labelled([COORDINATOR], self.classes, self.unlabelled, devices)
        classes = answer_locally(counting, local)
        if self.by_column:
            answer_locally(ask_columns(devices), local)
        spec = self.spec_of(devices, classes)
        trained = answer_locally(self.train(devices, spec, classes), local)
        # More features have more noise together, and hardly distinguish classes better.
        few = self.having(features=min(self.features, _RELEASED_FEATURES))
        means = answer_locally(few.ask_features(devices, spec, trained, classes), local)
        question = few.build_features(devices, spec, classes)
        width = devices.counted[COORDINATOR].dimension
        release = SummarizeRecords(
            privacy_mu=private.mu,
            mass_limit=private.limit,
            features=question.features,
            scale=question.scale if question.scale.size else np.ones(width),
            bandwidth=question.bandwidth,
            draw=self.seed,
            shares=_RELEASED_SHARES,
        )
        scale = scale_for(release.sensitivity, private.mu)

        def read(name: str, answer: Answer) -> Reading:
            vector = read_integers({name: answer}, name, "summary", release.layout.size)
            return release.layout.read(vector, scale)

        readings, failed = yield from ask_each(dict.fromkeys(targets, release), read)
        nobody = (np.zeros((len(classes), question.features)), np.zeros(len(classes), np.int64))
        records, notes = {}, []
        for name, reading in readings.items():
            mean, effective = reading.mean_features()
            means[name] = Means(mean, *nobody)
            # What follows weighs a mean by its records: noise makes them count for fewer.
            devices.counted[name] = Counted({}, 0, max(round(effective), 1), width, 0.0, 0.0)
            # Of weighted records it is their weight.
            records[name] = round(reading.records * (private.limit or 1.0))
            notes.append(f"{name} {records[name]} as {devices.counted[name].unlabelled}")
        devices.quorum = 2
        devices.drop(failed)
        evidence = Evidence(devices, classes, trained, spec, means, None)
        result = answer_locally(self._conclude(evidence, (COORDINATOR, *targets)), local)
        return replace(
            result,
            unlabelled={**result.unlabelled, **records},
            status=f"{result.status}; with the noise, a mean is only as precise as that of fewer "
            "records: " + ", ".join(notes),
        )

    @cached_property
    def comparison(self) -> Divergence | None:
        """The divergence by which devices are compared with one another, if any."""
        method = settled(self.divergence)
        if method == "none":
            return None
        # Columns have units of their own for it, too.
        scaled = method in ("mmd", "classifier") and self.by_column
        more = {"standardise": True} if scaled else {}
        more |= self.divergence_options or {}
        return divergence_of(method, seed=self.seed, **more)

    def steps(self, holders: tuple[str, ...]) -> Steps[Adaptation]:
        """Request what the stages need, and return the adaptation."""
        devices = Devices()
        classes = yield from count_labelled(sorted(holders), self.classes, self.unlabelled, devices)
        if self.by_column:
            yield from ask_columns(devices)
        spec = self.spec_of(devices, classes)
        trained = yield from self.train(devices, spec, classes)
        means = {}
        if self.by_transfer:
            means = yield from self.ask_features(devices, spec, trained, classes)
        apart = yield from self._compare(devices)
        evidence = Evidence(devices, classes, trained, spec, means, apart)
        return (yield from self._conclude(evidence, holders))

    def _conclude(self, evidence: Evidence, holders: tuple[str, ...]) -> Steps[Adaptation]:
        """Choose links by the evidence, combine models at the targets, and evaluate them."""
        devices, trained, apart = evidence.devices, evidence.trained, evidence.apart
        classes, spec = evidence.classes, evidence.spec
        models, mixtures = evidence.models, None
        costs = self.costs_of(evidence, holders)
        if self.by_transfer:
            mixtures = yield from self.mix(evidence, costs)
            plan, costs = plan_of(mixtures, costs, self.budget)
        else:
            plan = self.solve(costs)
        combined = self.combine(plan, evidence, mixtures)
        accuracies, unevaluated = yield from self.evaluate(plan, combined, devices.labelled)
        return Adaptation(
            names=devices.names,
            classes=classes,
            plan=plan,
            costs=costs,
            divergences=apart,
            labelled=devices.labelled,
            unlabelled=devices.unlabelled,
            errors={name: trained[name].error for name in models},
            shares=None if mixtures is None else mixtures.shares,
            contrary=() if mixtures is None else mixtures.contrary,
            models=combined,
            spec=spec,
            parameters=models,
            rule=settled(self.rule),
            accuracies=accuracies,
            energy=plan.energy,
            energy_share=energy_share(plan, costs),
            status=_status(plan, devices, guessing(dict(trained), devices, classes))
            + ("" if mixtures is None else mixtures.describe())
            + self.target_status(plan, accuracies, unevaluated),
            seed=self.seed,
            excluded=codes_of(devices.excluded),
            missing=codes_of(devices.missing),
            unevaluated=unevaluated,
        )

    def mix(self, evidence: Evidence, costs: LinkCosts) -> Steps[Mixtures]:
        """Have devices score models, and choose a mixture for each."""
        training = self.values("iterations", "passes", "batch", "rate", "momentum", "seed")
        mixing = Mixing(
            devices=evidence.devices,
            spec=evidence.spec,
            classes=evidence.classes,
            trained={k: v for k, v in evidence.trained.items() if k in evidence.devices.counted},
            means=evidence.means,
            training={**training, "folds": settled(self.folds)},
            unlabelled=self.unlabelled,
            prior=settled(self.prior),
            reaches=lambda source, target: bool(
                source == target
                or np.isfinite(costs.energy[costs.names.index(source), costs.names.index(target)])
            ),
        )
        return (yield from mixing.run())

    def _compare(self, devices: Devices) -> Steps[Divergences | None]:
        if self.comparison is None:
            return None
        apart = yield from self.comparison.among(devices.names).start()
        devices.drop({name: Failure(code) for name, code in apart.missing.items()})
        return apart


def _status(plan: LinkPlan, devices: Devices, guessing: list[str]) -> str:
    """Return how the plan was found, who is left out, and who should not be relied on."""
    text = f"links: {plan.status}"
    for failures, words in (
        (devices.missing, "; without"),
        (devices.excluded, "; never sources:"),
    ):
        if failures:
            text += f"{words} {', '.join(f'{n} ({f.code})' for n, f in sorted(failures.items()))}"
    if guessing:
        text += (
            f"; no better than always predicting its largest class: {', '.join(guessing)}. Give "
            "more labels, or train longer"
        )
    return text
