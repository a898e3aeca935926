"""The short way to an adaptation: devices' data in, models and links out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._holders import Data, checked_measures, named_holders, unreserved
from .errors import MismatchError
from .federation.holder import Holder
from .federation.local import LocalFederation, Progress
from .federation.policy import Policy
from .privacy.ledger import Ledger
from .protocols import adapt as _adapt
from .results.adaptation import Adaptation


def adapt(
    devices: Mapping[str, Data] | Sequence[Data],
    *,
    evaluation: Mapping[str, Data] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Adaptation:
    """Train where there are labels, choose who teaches whom, and combine models at the others.

    Runs a local federation; devices' records never leave their holders, models' parameters do.

    Parameters
    ----------
    devices
        Measures or arrays by name; a sequence is named ``"0"``, ``"1"`` and so on. Records
        without a label have the label ``unlabelled``; a device may have no labels at all.
    evaluation
        Records with true labels of some devices, by name: used for accuracies and nothing else.
    progress
        Called after every exchange.
    **options
        Options of ``silot.protocols.adapt``, such as ``model``, ``objective``, ``budget``,
        ``rule``, ``unlabelled`` and ``seed``.

    Returns
    -------
    Adaptation
        With the plan, the costs, the energy, the accuracies of targets that have evaluation
        records, and ``predict(device, points)``.

    Raises
    ------
    InputError, MismatchError
        Data that are no measures or do not fit together, options out of range; before any
        question is sent.
    NoEligibleSource
        No device has labels enough.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> devices = {"ward": Measure(x[:150], labels=y[:150]), "clinic": x[150:]}
    >>> truth = {"clinic": Measure(x[150:], labels=y[150:])}
    >>> found = adapt(devices, evaluation=truth, model="logistic")
    >>> found.plan.links, bool(found.accuracy > 0.9)
    ((('ward', 'clinic', 1.0),), True)
    """
    measures = checked_measures(unreserved(named_holders(devices)), labels=False)
    tests = checked_measures(evaluation, labels=True) if evaluation else {}
    strange = sorted(set(tests) - set(measures))
    if strange:
        raise MismatchError(
            f"evaluation names {strange[0]!r}, which is no device. Give it by names of devices.",
            code="device-names",
        )
    checked_measures({**measures, **{f"evaluation of {k}": v for k, v in tests.items()}}, False)
    protocol = _adapt(list(measures), **options)
    federation = LocalFederation(
        {
            name: Holder(measure, Policy.open(), Ledger(), evaluation=tests.get(name))
            for name, measure in measures.items()
        }
    )
    return federation.run(protocol, progress=progress)
