"""Releases as files: one site writes one alone, and whoever has several combines them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

from ..data.files import check_whole
from ..data.matching import check_schemas, match_columns
from ..data.measure import Data, Measure
from ..data.reading import Schema, read_by_schema
from ..data.schema import Contract
from ..distances.sketches.release_file import ASSUMED, ReleaseFile, Terms, digest_public_records
from ..distances.sketches.release_options import count_cells, read_public_classes
from ..distances.sketches.sketch import Sketching
from ..errors import InputError, MismatchError
from ..federation.answer import Failure, decode_reply
from ..federation.keys import Key, PublicKey
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.protocol import failure_error
from ..federation.question import encode_question
from ..federation.sealed import Sealed, is_name, write_sealed
from ..options import Options, anything, check_known, none_or, number, option, taking, truth
from ..privacy.ledger import Ledger
from ._holders import PUBLIC, read_measure
from .sketch import BUDGET, budget_policy, check_masses

if TYPE_CHECKING:
    from ..keywords import ReleaseKeywords

ASKER = "release"
"""Name under which a ledger keeps what a site released by itself."""


class Sending(Options):
    """Options of a release beside its question."""

    labels: bool = option("Release every class separately.", truth(), default=False, flag=False)
    period: str | None = option(
        "Public name of the period of the records, such as 2026-10. A release of "
        "another period is a new one, and is charged.",
        anything("text, or None", str),
        default=None,
    )
    budget_epsilon: float | None = option(
        "Epsilon of all releases in the ledger together, by default 1.",
        none_or(number(above=0)),
        default=None,
        code="option-budget",
    )
    policy: Policy | None = option(
        "Rules of the holder, instead of a budget.", anything("Policy, or None"), default=None
    )
    to: PublicKey | None = option(
        "Encrypt the file for the owner of this key.", anything("PublicKey, or None"), default=None
    )

    def fit(self) -> None:
        if self.policy is not None and self.budget_epsilon is not None:
            raise InputError(
                "a policy has its own budget, privacy_epsilon. Write the budget there, and "
                "leave budget_epsilon out.",
                code="option-budget",
            )


@dataclass(frozen=True)
class Prepared:
    """What a site releases, before anything is charged.

    Attributes
    ----------
    records
        The site's records, their columns in the order that all sites have.
    terms
        What the release is made by.
    protocol
        The run of one party that asks for it.
    """

    records: Measure
    terms: Terms
    question: bytes
    discloses: str


@taking(Sending, Sketching, without=("embedding",))
def release(
    data: Data,
    path: str | Path,
    *,
    name: str,
    ledger: str | Path,
    schema: Schema | str | Path | None = None,
    public: Data | None = None,
    key: str | Path | None = None,
    **options: Unpack[ReleaseKeywords],
) -> ReleaseFile:
    r"""Write one differentially private sketch of a site's records to a file that may travel.

    The question is made of public things alone: nothing in it, nor the size of the file, depends
    on the records. It is answered by a ``Holder`` against the durable ledger, as in any other run,
    so that the same question gets the same answer whoever asks: combined with those of other
    sites it gives, number by number, what a run between them would have given.

    Parameters
    ----------
    data
        The records: a measure, an array, or with ``schema`` a data frame.
    path
        The file to write, by custom ``NAME.release``.
    name
        What the site is called.
    ledger
        The site's ledger, a file; made when absent.
    schema
        The public contract of the table, or its file, where ``data`` is not a measure that was
        read by
        it.
    public
        Public records, the same file at all sites. Without them the box of the schema, or
        ``public_mean`` and ``public_scale``, stand for a normal distribution, without intervals.
    key
        ``NAME.key``; by default the one of that name beside the ledger, made when absent.

    Returns
    -------
    ReleaseFile
        Made for 2,000 records at the least where ``size`` is not given.

    Raises
    ------
    RefusedError
        The policy or the ledger does not allow it; nothing is written.
    InputError, MismatchError
        Options out of range, or public records that do not fit.
    FileError
        A file cannot be written, or a key or a ledger cannot be read.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(3000, 2))
    >>> folder = tempfile.mkdtemp()
    >>> found = release(
    ...     x, f"{folder}/n.release", name="north", ledger=f"{folder}/north.ledger", public=public
    ... )
    >>> found.name, found.width, found.fresh
    ('north', 48, True)
    """
    check_known(Sketching, options, "release", own=Sending.options)
    sending, others = Sending.split(options)
    if not is_name(name):
        raise InputError(
            "a site needs a name: a short printable text. Give name=.", code="holder-names"
        )
    file = Path(path)
    check_whole(file)
    records = read_data(data, Schema.coerce(schema), name, sending.labels)
    prepared = prepare(name, records, public, sending, **others)
    place = Path(ledger).with_name(f"{quote(name, safe='')}.key") if key is None else Path(key)
    fresh = key is None and not place.exists()
    signer = Key.new() if fresh else Key.load(place)
    reply = _answer(name, prepared, sending, ledger)
    if fresh:
        # Where nothing was released, nothing was written.
        signer.save(place)
    sealed = Sealed(
        kind="release",
        author=name,
        question=prepared.question,
        reply=reply,
        discloses=prepared.discloses,
        schema=None if prepared.records.schema is None else prepared.records.schema.body(),
        facts=prepared.terms.model_dump(),
    )
    write_sealed(file, sealed, signer, sending.to)
    read = replace(sealed, signer=signer.public.signing, file=file.name)
    return ReleaseFile.of(read, size=file.stat().st_size)


def prepare(
    name: str, records: Measure, public: Data | None, sending: Sending, **options: Any
) -> Prepared:
    """Build the question of a release only from public information."""
    check_masses({name: records}, options.get("mass_limit"))
    schema = records.schema
    sample = None if public is None else read_data(public, schema, PUBLIC, False)
    if sample is not None:
        records, sample = _match_columns(name, records, sample)
        options["public"] = sample
    elif schema is not None and options.get("public_mean") is None:
        # Four standard deviations a range: most of a distribution lies within.
        options["public_mean"] = (0.5 * (schema.low + schema.high)).tolist()
        options["public_scale"] = (0.25 * (schema.high - schema.low)).tolist()
    if sending.labels and options.get("classes") is None:
        options["classes"] = _classes(schema, sample)
    sketching = Sketching(labels=sending.labels, **options)
    least = sketching.size
    cells = sketching.cells or count_cells(len(sketching.sample), least or ASSUMED, sketching.mu)
    terms = Terms(
        privacy_epsilon=float(sketching.privacy_epsilon),
        privacy_delta=float(sketching.privacy_delta),
        cells=cells,
        seed=sketching.seed,
        mass_limit=None if sketching.mass_limit is None else float(sketching.mass_limit),
        period=sending.period,
        classes=list(read_public_classes(sample, sketching.classes)) if sending.labels else None,
        columns=None if records.columns is None else list(records.columns),
        schema_hash="" if schema is None else schema.hash,
        public="" if sample is None else digest_public_records(sample, sending.labels),
        public_records=0 if sample is None else sample.size,
        public_mean=_numbers(sketching.public_mean),
        public_scale=_numbers(sketching.public_scale),
    )
    protocol = build_question(terms, sample).among([name])
    question = next(protocol.start())[name]
    if question.centres.shape[1] != records.dimension:  # pyright: ignore[reportAttributeAccessIssue]
        raise MismatchError(
            f"{name!r} has {records.dimension} features, and the public records have another "
            "number. Give public records with the same features.",
            code="dimension-mismatch",
        )
    return Prepared(records, terms, encode_question(question), _describe_disclosure(terms))


def build_question(
    terms: Terms, public: Measure | None, periods: Mapping[str, str] | None = None
) -> Sketching:
    """Build the question that all releases of the same terms answer."""
    options = terms.options
    period = periods if periods is not None else terms.period
    return Sketching(public=public, period=period, **options)


def _answer(name: str, prepared: Prepared, sending: Sending, ledger: str | Path) -> bytes:
    """Return the holder's answer, charged to its ledger."""
    delta = prepared.terms.privacy_delta
    policy = sending.policy or budget_policy(sending.budget_epsilon or BUDGET, delta)
    with Ledger(ledger) as account:
        reply = Holder(prepared.records, policy, account).reply(prepared.question, ASKER)
    answer = decode_reply(reply)
    if isinstance(answer, Failure):
        raise failure_error(name, answer)
    return reply


def read_data(data: Data, schema: Contract | None, name: str, labels: bool) -> Measure:
    """Read data as a measure, by the schema unless they are read already."""
    if schema is not None and not isinstance(data, Measure):
        return read_by_schema(data, schema).measure
    measure = read_measure(name, data, None)
    if schema is not None:
        check_schemas({"schema": schema, name: measure.schema})
    if labels and not measure.labelled:
        raise InputError(f"{name!r} has no labels. Leave labels out.", code="labels-absent")
    return measure


def _match_columns(name: str, records: Measure, public: Measure) -> tuple[Measure, Measure]:
    """Put the columns of records in the order of the public ones, which all sites have."""
    check_schemas({name: records.schema, PUBLIC: public.schema})
    tables = match_columns({PUBLIC: public, name: records}, [name])
    return tables[name], tables[PUBLIC]


def _classes(schema: Contract | None, public: Measure | None) -> list[str]:
    if schema is not None and schema.classes:
        return list(schema.classes)
    return list(read_public_classes(public, None))


def _numbers(values: Any) -> list[float] | None:
    return None if values is None else [float(value) for value in values]


def _describe_disclosure(terms: Terms) -> str:
    by = " and class" if terms.classes else ""
    return (
        f"Noisy counts of records in {terms.cells} public cells{by}, their noisy mean offset from "
        "the cells and their noisy scatter: differentially private with epsilon "
        f"{terms.privacy_epsilon:g} and delta {terms.privacy_delta:g} for each record. No record, "
        "no exact count and no value of the data."
    )
