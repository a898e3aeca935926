"""Who takes part in a run: data of holders, named and checked before any question is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..data.matching import match_columns
from ..data.measure import Data, Measure
from ..data.preflight import Preflight
from ..data.reading import Schema
from ..data.schema import Contract
from ..errors import InputError, MismatchError, SilotError
from ..privacy.ledger import Ledger
from .local import LocalFederation
from .party import Holder, Own
from .policy import Policy
from .protocol import COORDINATOR, Protocol
from .result import Cost, RunResult
from .run import B, Federation, Progress, Runtime, run, run_together

PUBLIC = "public records"
# What the caller's data are called beside those of holders.
MINE = "your own data"
RESERVED = (COORDINATOR, MINE)

Holders = Mapping[str, Data] | Sequence[Data] | Federation | Runtime
"""Data of holders by name or in a sequence, or a federation of holders with data of their own."""


@dataclass(frozen=True)
class Parties:
    """Who takes part: holders of data the caller owns, or a federation, which checks itself.

    Attributes
    ----------
    names
        Of the holders.
    measures
        Data the caller owns, which fit together, by name; empty for a federation.
    labels
        Whether records are compared with their labels, or the column that has these.
    own
        The coordinator's own data.
    federation
        Where holders are asked: what was given, or holders of the measures behind ledgers.
    public
        Public records that theirs are compared with: looked at beside their data.
    """

    names: tuple[str, ...]
    measures: Mapping[str, Measure]
    labels: bool | str = False
    own: Own | None = None
    federation: Federation | Runtime | None = None
    public: Measure | None = None

    @classmethod
    def of(
        cls,
        holders: Holders,
        labels: bool | str = False,
        own: Data | None = None,
    ) -> Parties:
        """Return who takes part; data are checked before any question is sent."""
        # A mapping first: whether it is a protocol of typing takes long to say.
        if not isinstance(holders, Mapping) and isinstance(holders, Federation | Runtime):
            column = labels if isinstance(labels, str) else None
            if column is not None:
                raise InputError(
                    f"labels is {column!r}, a column of a data frame, but holders of a federation "
                    "read their own data. Give labels=True.",
                    code="option-labels",
                )
            trusted = None if own is None else Own(read_measure(MINE, own, None))
            return cls(tuple(holders.names), {}, labels, trusted, holders)
        named = dict(check_names(name_holders(holders)))
        if own is not None:
            named[COORDINATOR] = own
        measures = check_measures(named, labels)
        last = measures.pop(COORDINATOR, None)
        return cls(tuple(measures), measures, labels, None if last is None else Own(last))

    @property
    def trusted(self) -> Own:
        """The coordinator's own data, where it must have some."""
        if self.own is None:
            raise InputError("the coordinator has no data of its own.", code="validation-absent")
        return self.own

    @property
    def agreed(self) -> Contract | None:
        """The schema by which all sites of a federation said that they read."""
        schema: Schema | None = getattr(self.federation, "schema", None)
        if schema is None or not set(self.names) <= getattr(
            self.federation, "vouched", frozenset[str]()
        ):
            return None
        return schema

    @property
    def columns(self) -> Sequence[str] | Contract | None:
        """What the features are called, where the caller's data say so."""
        own = {} if self.own is None else {COORDINATOR: self.own.measure}
        return self.agreed or column_names(self.measures or own)

    def check_owned(self, what: str, code: str) -> None:
        """Raise where data are needed, and a federation was given."""
        if not self.measures:
            raise InputError(
                f"{what} needs data of your own, but a federation was given.", code=code
            )

    def behind(self, policy: Policy, ledgers: Mapping[str, Ledger]) -> Parties:
        """Return the same parties, each holder with these rules and its ledger."""
        parties = {
            name: Holder(measure, policy, ledgers[name]) for name, measure in self.measures.items()
        }
        return replace(self, federation=LocalFederation(parties))

    def beside(self, options: Mapping[str, Any]) -> Parties:
        """Return the same parties with the public records of a release, if there are any."""
        public = options.get("public")
        return replace(self, public=public) if isinstance(public, Measure) else self

    def run(
        self,
        protocol: Protocol[B],
        progress: Callable[[Progress], None] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> B:
        """Run a protocol between them."""
        federation = self.federation
        if federation is None:
            # Holders have a ledger each: in a run of two, of many, only two are made.
            parties = {k: measure for k, measure in self.measures.items() if k in protocol.holders}
            result = run(protocol, parties, progress=progress, tell=tell)
        elif isinstance(federation, Runtime):
            result = run(protocol, federation, progress=progress, tell=tell)
        else:
            result = federation.run(protocol, progress=progress)
        return with_preflight(result, self.preflight)

    def run_together(self, protocols: Sequence[Protocol[B]]) -> tuple[list[B | SilotError], Cost]:
        """Run protocols that share no holder: by each its result or error, and what all took."""
        federation = self.federation
        if federation is None:
            names = {name for protocol in protocols for name in protocol.holders}
            federation = LocalFederation({k: v for k, v in self.measures.items() if k in names})
        assert isinstance(federation, Runtime)
        outcomes, cost = run_together(protocols, federation)
        return [
            one if isinstance(one, SilotError) else with_preflight(one, self.preflight)
            for one in outcomes
        ], cost

    @cached_property
    def preflight(self) -> Preflight | None:
        """Examine the tables that the caller owns; no party receives a question."""
        own = {} if self.own is None else {MINE: self.own.measure}
        public = {} if self.public is None else {PUBLIC: self.public}
        # Known once sites were asked: who reads by a schema says so.
        vouched = getattr(self.federation, "vouched", ())
        unseen = [] if self.measures else [name for name in self.names if name not in vouched]
        return Preflight.of({**self.measures, **own, **public}, unseen)


def with_preflight(result: B, preflight: Preflight | None) -> B:
    """Return a result with the findings on the tables that it is of."""
    return result.with_preflight(preflight) if isinstance(result, RunResult) else result


def name_holders(holders: Mapping[str, Data] | Sequence[Data]) -> dict[str, Data]:
    """Return data by the names of holders; those of a sequence are numbers."""
    if isinstance(holders, Mapping):
        named = dict(holders)
    else:
        named = {str(k): data for k, data in enumerate(holders)}
    if not named:
        raise InputError("no holder is given; give at least one.", code="holder-names")
    return named


def check_names(named: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return data by names, or raise where one is not for a holder."""
    for name in RESERVED:
        if name in named:
            raise InputError(f"{name!r} cannot be the name of a holder.", code="holder-names")
    return named


def check_measures(
    holders: Mapping[str, Data], labels: bool | str, last: Collection[str] = (COORDINATOR,)
) -> dict[str, Measure]:
    """Turn data into measures that fit together, before any question is sent.

    Parameters
    ----------
    holders
        Data by name.
    labels
        Whether all need labels, or the column that has those of data frames.
    last
        Who has no say in the order of columns.
    """
    column = labels if isinstance(labels, str) else None
    # What is wrong with the caller's own is not said of a holder "coordinator".
    called = {MINE if name == COORDINATOR else name: name for name in holders}
    read = {label: read_measure(label, holders[name], column) for label, name in called.items()}
    measures = match_columns(read, [label for label, name in called.items() if name in last])
    first_name, first = next(iter(measures.items()))
    for name, measure in measures.items():
        if measure.dimension != first.dimension:
            raise MismatchError(
                f"{first_name!r} has {first.dimension} features and {name!r} has "
                f"{measure.dimension}. Give both the same features in the same order.",
                code="dimension-mismatch",
            )
        if labels and not measure.labelled:
            raise InputError(
                f"{name!r} has no labels. Give Measure(points, labels=...), for a data frame "
                "labels='the name of their column', or leave the label option out.",
                code="labels-absent",
            )
    return {called[name]: measure for name, measure in measures.items()}


def column_names(measures: Mapping[str, Measure]) -> Sequence[str] | Contract | None:
    """What features of measures that fit together are called: by a schema, or their own names."""
    schema = next((measure.schema for measure in measures.values() if measure.schema), None)
    if schema is not None:
        return schema
    return next((measure.columns for measure in measures.values() if measure.columns), None)


def read_measure(name: str, data: Data, labels: str | None) -> Measure:
    """Read data as a measure; an error names their holder."""
    if isinstance(data, Measure):
        return data
    if isinstance(data, str | Path):
        raise InputError(
            f"{name!r} is a text, and data are needed. For a file, give "
            "silot.load_measure(path). With the name of a site, give federation= too.",
            code="measure-dtype",
        )
    try:
        # For the time of one call: what a hundred holders have is not kept twice.
        return Measure(data, labels=labels, copy=False)
    except SilotError as error:
        raise type(error)(f"{name!r}: {error.message}", code=error.code) from None
