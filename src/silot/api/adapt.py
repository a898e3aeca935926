"""Train at devices, and combine their models at others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from ..data.measure import Data, Measure
from ..data.names import canonical
from ..data.preflight import Preflight
from ..distances.sketches.release_options import Private
from ..errors import InputError, MismatchError, SilotError
from ..federation.accounts import Spending, prepare_release, run_private
from ..federation.local import LocalFederation, Progress
from ..federation.parties import (
    Holders,
    Parties,
    check_measures,
    check_names,
    name_holders,
    read_measure,
    with_preflight,
)
from ..federation.party import Holder, Own
from ..federation.policy import Policy
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation, Runtime
from ..options import part_options, taking
from ..privacy.ledger import Ledger
from ..teaching.adapt import Adapt
from ..teaching.result import Adaptation

if TYPE_CHECKING:
    from ..keywords import AdaptKeywords


@taking(also=(Adapt, Private, Spending))
def adapt(
    devices: Holders,
    how: Adapt | None = None,
    *,
    labels: str | None = None,
    source: Data | None = None,
    evaluation: Mapping[str, Data] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[AdaptKeywords],
) -> Adaptation:
    """Train where there are labels, choose who teaches whom, and combine models at the others.

    Runs a local federation; devices' records never leave their holders, models' parameters do.
    With ``privacy_epsilon`` the caller's ``source`` trains, and all that a device sends is one
    release with noise: its number of records and their mean features.

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
    source
        Labelled records of the caller's own, with ``privacy_epsilon``. Devices see the spread of
        their columns, and the labels of devices are not used.
    evaluation
        Records with true labels of some devices, by name: used for accuracies and nothing else.
    progress
        Called after every exchange.
    **options
        Options of ``silot.teaching.Adapt``, such as ``model``, ``objective``, ``budget``,
        ``rule``, ``unlabelled`` and ``seed``. With ``source`` also those of a release:
        ``privacy_epsilon``, ``privacy_delta``, ``mass_limit``, ``ledgers`` and ``budget_epsilon``.

    Returns
    -------
    Adaptation
        With the plan, the costs, the energy, the accuracies of targets that have evaluation
        records, and ``predict(device, points)``.

    Raises
    ------
    InputError, MismatchError
        Data that are not measures or do not fit together, options out of range; before any
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
    spending, others = Spending.split(options)
    private, others = _split_private(others, source, spending)
    how = Adapt.of(how, others)
    if isinstance(devices, Federation | Runtime):
        if evaluation:
            raise InputError(
                "holders of a federation have evaluation records of their own: give them to "
                "Holder(..., evaluation=...).",
                code="option-evaluation",
            )
        parties = Parties.of(devices, labels or False, source)
        if private is not None:
            return _run_private(how, parties, private, spending, {}, progress)
        return parties.run(how.protocol(parties.names), progress)
    named = check_names(name_holders(devices))
    truth = dict(evaluation or {})
    strange = sorted(set(truth) - set(named))
    if strange:
        raise MismatchError(
            f"evaluation names {strange[0]!r}, which is not a device. Give it by names of devices.",
            code="device-names",
        )
    if source is not None:
        named = {**named, COORDINATOR: source}
    if labels is not None:
        named = _labelled_frames(named, canonical(labels), how.unlabelled)
    test_of = {name: f"evaluation of {name}" for name in truth}
    tests = {test_of[name]: read_measure(name, data, labels) for name, data in truth.items()}
    if tests:
        check_measures(tests, labels=True)
    measures = check_measures({**named, **tests}, labels=False, last=tests)
    holders = {
        name: Holder(
            measures[name],
            Policy.open(),
            Ledger(),
            evaluation=measures[test_of[name]] if name in test_of else None,
        )
        for name in named
    }
    columns = next((measures[name].columns for name in named if measures[name].columns), None)
    if private is not None:
        trusted = Own(measures[COORDINATOR])
        owned = {name: measures[name] for name in named if name != COORDINATOR}
        parties = Parties(tuple(owned), owned, own=trusted)
        own = {name: holders[name] for name in truth}
        adaptation = _run_private(how, parties, private, spending, own, progress)
    else:
        protocol = how.protocol(list(named))
        adaptation = LocalFederation(holders).run(protocol, progress=progress)
        adaptation = with_preflight(adaptation, Preflight.of(measures))
    return replace(adaptation, columns=columns)


def _split_private(
    options: dict[str, Any], source: Data | None, spending: Spending
) -> tuple[Private | None, dict[str, Any]]:
    """Part the options of a release from others; they need a source, and the source needs them."""
    own, others = part_options(options, *Private.options)
    if source is None and not own and spending.ledgers is None:
        return None, others
    if source is None or "privacy_epsilon" not in own:
        raise InputError(
            "a private adaptation needs labelled records of your own, which train the model, and a "
            "budget. Give source= and privacy_epsilon= (on the command line --source FILE and "
            "--epsilon 4), or neither: then devices with labels train, at level record.",
            code="option-privacy",
        )
    return Private(**own), others


def _run_private(
    how: Adapt,
    parties: Parties,
    private: Private,
    spending: Spending,
    evaluation: Mapping[str, Holder],
    progress: Callable[[Progress], None] | None,
) -> Adaptation:
    """Charge one release of every device to its ledger, and adapt by what they say."""
    prepare_release(parties, {"mass_limit": private.mass_limit}, spending)
    protocol = how.private_protocol(parties.names, parties.trusted, private, evaluation)
    return run_private(parties, protocol, private, spending, progress)


def _labelled_frames(devices: Mapping[str, Data], labels: str, unlabelled: str) -> dict[str, Data]:
    """Read data frames as measures, with their labels where they have any."""
    from ..data.tables import frame_table

    tables = {name: frame_table(data) for name, data in devices.items()}
    frames = {name: table for name, table in tables.items() if table is not None}
    if frames and not any(labels in table.names for table in frames.values()):
        raise InputError(
            f"no data frame has a column {labels!r}. Name the column with the labels.",
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
