"""Train at devices, and combine their models at others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..data.measure import Data, Measure
from ..data.preflight import Preflight
from ..errors import InputError, MismatchError, SilotError
from ..federation.local import LocalFederation, Progress
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.run import Federation, Runtime
from ..privacy.ledger import Ledger
from ..teaching.adapt import Adapt
from ..teaching.result import Adaptation
from ._holders import (
    Holders,
    Parties,
    check_measures,
    check_names,
    name_holders,
    read_measure,
    with_preflight,
)


def adapt(
    devices: Holders,
    how: Adapt | None = None,
    *,
    labels: str | None = None,
    evaluation: Mapping[str, Data] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Adaptation:
    """Train where there are labels, choose who teaches whom, and combine models at the others.

    Runs a local federation; devices' records never leave their holders, models' parameters do.

    Parameters
    ----------
    devices
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on.
        Records without a label have the label ``unlabelled``; a device may have no labels at all.
        Or a federation (as for ``distance_matrix``) of holders with ``evaluation`` of their own.
    how
        All options as one object, which an editor checks as you write; or give them by name.
    labels
        Name of the column of data frames that has the labels. A frame without it has no labels,
        and where it is empty a record has none.
    evaluation
        Records with true labels of some devices, by name: used for accuracies and nothing else.
    progress
        Called after every exchange.
    **options
        Options of ``silot.teaching.Adapt``, such as ``model``, ``objective``, ``budget``,
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
    how = Adapt.of(how, options)
    if isinstance(devices, Federation | Runtime):
        if evaluation:
            raise InputError(
                "holders of a federation have evaluation records of their own: give them to "
                "Holder(..., evaluation=...).",
                code="option-evaluation",
            )
        parties = Parties.of(devices, labels or False)
        return parties.run(how.protocol(parties.names), progress)
    named = check_names(name_holders(devices))
    truth = dict(evaluation or {})
    strange = sorted(set(truth) - set(named))
    if strange:
        raise MismatchError(
            f"evaluation names {strange[0]!r}, which is no device. Give it by names of devices.",
            code="device-names",
        )
    if labels is not None:
        named = _labelled_frames(named, labels, how.unlabelled)
    test_of = {name: f"evaluation of {name}" for name in truth}
    tests = {test_of[name]: read_measure(name, data, labels) for name, data in truth.items()}
    if tests:
        check_measures(tests, labels=True)
    measures = check_measures({**named, **tests}, labels=False, last=tests)
    protocol = how.protocol(list(named))
    federation = LocalFederation(
        {
            name: Holder(
                measures[name],
                Policy.open(),
                Ledger(),
                evaluation=measures[test_of[name]] if name in test_of else None,
            )
            for name in named
        }
    )
    columns = next((measures[name].columns for name in named if measures[name].columns), None)
    adaptation = with_preflight(federation.run(protocol, progress=progress), Preflight.of(measures))
    return replace(adaptation, columns=columns)


def _labelled_frames(devices: Mapping[str, Data], labels: str, unlabelled: str) -> dict[str, Data]:
    """Read data frames as measures, with their labels where they have any."""
    from ..data.tables import frame_table

    tables = {name: frame_table(data) for name, data in devices.items()}
    frames = {name: table for name, table in tables.items() if table is not None}
    if frames and not any(labels in table.names for table in frames.values()):
        raise InputError(
            f"no data frame has a column {labels!r}. Name the one that has the labels.",
            code="frame-columns",
        )
    labelled: dict[str, Data] = dict(devices)
    for name, table in frames.items():
        column = labels if labels in table.names else None
        try:
            labelled[name] = Measure(*table.parts(labels=column, missing_label=unlabelled))
        except SilotError as error:
            raise type(error)(f"{name!r}: {error.message}", code=error.code) from None
    return labelled
