"""The whole of ST-LF: who trains, who receives, over which links, and how well it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy.typing as npt

from ..distances.sides import check_seed
from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..learning import DensitySpec, ModelSpec, Rule, Training
from ..transport._check import real, whole
from .costs import Mixing
from .divergences import divergences
from .network import Constants
from .options import (
    Choices,
    Objective,
    Prior,
    check_choices,
    check_classes,
    check_model,
    check_phi,
    check_training,
    check_use,
    energy_options,
)
from .pipeline import Plan
from .result import Adaptation


def adapt(
    holders: Sequence[str],
    *,
    model: ModelSpec | str = "mlp",
    shape: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    unlabelled: str = "",
    iterations: int = 300,
    passes: float = 0.0,
    batch: int = 10,
    rate: float = 0.01,
    momentum: float = 0.9,
    folds: int | None = None,
    minimum_labelled: int = 5,
    divergence: str | None = None,
    divergence_options: Mapping[str, Any] | None = None,
    objective: Objective | None = None,
    mixing: Mixing = "none",
    mixing_scale: float = 1.0,
    method: str = "exact",
    phi: Sequence[float] | None = None,
    budget: float | Literal["auto"] | None = "auto",
    constants: Constants | None = None,
    delta: float = 0.1,
    unlabelled_error: float | None = 1.0,
    allow_unserved: float | None = None,
    features: int = 512,
    bandwidth: float | None = None,
    domain_weight: float = 1.0,
    rates: npt.ArrayLike = 74.0,
    powers: float | Mapping[str, float] = 24.0,
    model_bits: float | None = None,
    rule: Rule | None = None,
    dimensions: int = 16,
    sharpness: float = 1.0,
    prior: Prior | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
    seed: int = 0,
) -> Protocol[Adaptation]:
    r"""Train at labelled devices, choose links, combine models at the others, and evaluate.

    Devices tell how many labels they have; those with labels train models from one common
    start; divergences and costs follow; a plan is solved; targets combine the models their
    links bring.

    Parameters
    ----------
    holders
        Names of the devices, two or more. A record without a label has the label
        ``unlabelled``; a device may have no labels at all.
    model
        Architecture of all models: ``"mlp"``, ``"logistic"`` or ``"cnn"``, scaled by the mean
        and the standard deviation of all numbers of all devices, or a ``ModelSpec``.
    shape
        Shape of one record, such as (28, 28); ``"cnn"`` needs it.
    classes
        Public list of the classes; by default those that devices name.
    unlabelled
        Label of records that have none.
    iterations, passes, batch, rate, momentum
        Of the training, as in ``learning.train``. The paper's are 100 iterations without
        momentum, which leaves its CNN near chance on small devices.
    folds
        Parts for the held-out error, by default 2; 0 believes the error on the training
        records, as the paper does, which is too low.
    minimum_labelled
        Fewest labelled records of a source.
    divergence, divergence_options
        Method of ``divergences`` and its options, or ``"none"``. By default ``"mmd"`` where the
        plan rests on divergences, with ``objective="bound"`` or ``mixing="mmd"``, else none.
        Columns are scaled as for the model.
    objective
        ``"coverage"``, the default: every class of a target by a source that knows it, within
        ``budget`` (``adaptation.solve_coverage``). ``"matched"``: the paper's objective with
        expected errors of ``adaptation.match`` for :math:`T_{ij}`. ``"bound"``: the paper's
        objective with its eq. 17 and 18.
    mixing, mixing_scale, method, allow_unserved
        Of ``adaptation.links``, for ``"matched"`` and ``"bound"``. ``mixing="ambiguity"`` sends
        every model to every device, which no energy of the plan counts. ``method="st-lf"`` is
        the paper as published: besides the solver it makes ``objective="bound"``,
        ``divergence="classifier"`` (its Algorithm 1), ``constants="log10"``, ``folds=0`` and
        ``rule="parameter"`` the defaults.
    phi
        Scales of source errors, target errors and energy (joule). By default (1, 5, 1), the
        paper's; for ``"coverage"`` (0, 1, .001 a mean link): all that may are sources, and a
        link must lower the expected error of a target by .001.
    budget
        For ``"coverage"``: largest share of the energy of all links; one link a target is
        always allowed. ``None`` for no limit. ``"auto"`` is .275, about what the paper's plans
        use, or two links a target where no more than three devices can be sources.
    constants, delta, unlabelled_error
        Of eq. 17 and 18 (``adaptation.Network``), for ``"bound"``.
    features, bandwidth, domain_weight
        Of the matching: most random features; bandwidth of their kernel, by default half of
        the root mean squared distance of two records of a device; error per unit of distance.
    rates, powers, model_bits
        Mbit/s of all pairs (one number, or a row and a column for each holder in the order
        given), dBm of all devices (one number, or by name), bits of a model: by default those
        of its parameters as they travel, 64 each (the paper's: 1e9).
    rule, dimensions, sharpness
        How targets combine models (``learning.combine``; by default ``"output"``), and of
        ``rule="density"``.
    prior
        ``"matched"`` adjusts each model's predictions from the class proportions it was trained
        with to those that the target's own records seem to have; ``"source"`` leaves them.
        ``"auto"`` does the first at targets where it can be told that proportions are what
        differs: their mean features are farther from those of the senders' records than chance
        makes them on average, and within 1.25 times of that (squared) of those of some
        proportions of the sources' classes. By default ``"auto"`` where it can be: not with
        ``objective="bound"``, which estimates no proportions, nor with ``rule="parameter"``.
    time_limit, gap
        Of the solver.
    seed
        Of the common start, of batches, folds, random features, projections. The result does
        not depend on the order of ``holders``.

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

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023.
    ``"coverage"`` and ``"matched"`` are ours: the paper's bound never rewards more than one
    source a target. Everything they use is computed without labels of the target.

    Models go from devices to targets through the coordinator here, and their bytes are on the
    bill; ``energy`` is that of the paper's model, where devices send directly.

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
    names = tuple(holders)
    published = method == "st-lf"
    objective = objective or ("bound" if published else "coverage")
    rule = rule or ("parameter" if published else "output")
    constants = constants or ("log10" if published else "none")
    folds = (0 if published else 2) if folds is None else folds
    if divergence is None and published:
        divergence = "classifier"
    if divergence is None:
        divergence = "mmd" if objective == "bound" or mixing == "mmd" else "none"
    if prior is None:
        prior = "source" if objective == "bound" or rule == "parameter" else "auto"
    check_choices(objective, mixing, rule, prior, divergence, divergence_options)
    check_use(
        objective,
        method=method != "exact",
        budget=budget != "auto",
        constants=constants != "none",
        delta=delta != 0.1,
        unlabelled_error=unlabelled_error != 1.0,
    )
    training = check_training(
        Training(
            iterations=iterations,
            passes=passes,
            batch=batch,
            rate=rate,
            momentum=momentum,
            seed=check_seed(seed),
        ),
        folds,
    )
    if len(names) < 2:
        raise InputError(
            f"{len(names)} device(s) given; two or more are needed.", code="holder-names"
        )
    if not isinstance(unlabelled, str):
        raise InputError(
            "unlabelled is no text; give the label that stands for none.",
            code="option-unlabelled",
        )
    more = dict(divergence_options or {})
    if divergence in ("mmd", "classifier") and isinstance(model, str) and model != "cnn":
        more.setdefault("standardise", True)
    extra = 0
    if divergence != "none":
        extra = divergences(names, method=divergence, seed=seed, **more).expected_rounds
    if bandwidth is not None and not real(bandwidth, "bandwidth", "option-bandwidth") > 0:
        raise InputError("bandwidth must be positive.", code="option-bandwidth")
    whole(features, "features", "option-features", least=2, most=1 << 16)
    # Checks its options; the records' dimension is not known yet.
    DensitySpec(1, 2, dimensions, seed, sharpness)
    choices = Choices(
        model=check_model(model, shape),
        shape=None if shape is None else tuple(shape),
        classes=check_classes(classes),
        unlabelled=unlabelled,
        training=training,
        folds=folds,
        minimum_labelled=whole(minimum_labelled, "minimum_labelled", "option-labelled"),
        divergence=divergence,
        divergence_options=more,
        objective=objective,
        mixing=mixing,
        mixing_scale=mixing_scale,
        method=method,
        phi=None if phi is None else check_phi(phi),
        budget=budget,
        bound={"constants": constants, "delta": delta, "unlabelled_error": unlabelled_error},
        allow_unserved=allow_unserved,
        features=features - features % 2,
        bandwidth=bandwidth,
        domain_weight=domain_weight,
        energy=energy_options(names, rates, powers, model_bits),
        rule=rule,
        dimensions=dimensions,
        sharpness=sharpness,
        prior=prior,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
    )
    choices.check()
    return Protocol(
        "adapt",
        names,
        Disclosure.RECORD,
        Plan(tuple(sorted(names)), choices).start,
        {
            "model": choices.model if isinstance(choices.model, str) else choices.model.to_text(),
            "iterations": iterations,
            "folds": folds,
            "divergence": divergence,
            "objective": objective,
            "mixing": mixing,
            "method": method,
            "rule": rule,
            "prior": prior,
            "seed": seed,
        },
        expected_rounds=extra + 8,
    )
