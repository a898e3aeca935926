"""The question that a site answers in a release of its own, made of public information alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...data.matching import check_schemas, match_columns
from ...data.measure import Data, Measure
from ...data.reading import read_by_schema
from ...data.schema import Contract
from ...errors import InputError, MismatchError
from ...federation.accounts import check_masses
from ...federation.parties import PUBLIC, read_measure
from ...federation.question import encode_question
from .release_file import ASSUMED, Terms, digest_public_records
from .release_options import count_cells, read_public_classes
from .sketch import Sketching


@dataclass(frozen=True)
class Prepared:
    """What a site releases, its columns in the order of all sites, before anything is charged."""

    records: Measure
    terms: Terms
    question: bytes
    discloses: str


def prepare(
    name: str,
    records: Measure,
    public: Data | None,
    *,
    labels: bool,
    period: str | None,
    **options: Any,
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
    if labels and options.get("classes") is None:
        options["classes"] = _classes(schema, sample)
    sketching = Sketching(labels=labels, **options)
    least = sketching.size
    cells = sketching.cells or count_cells(len(sketching.sample), least or ASSUMED, sketching.mu)
    terms = Terms(
        privacy_epsilon=float(sketching.privacy_epsilon),
        privacy_delta=float(sketching.privacy_delta),
        cells=cells,
        seed=sketching.seed,
        mass_limit=None if sketching.mass_limit is None else float(sketching.mass_limit),
        period=period,
        classes=list(read_public_classes(sample, sketching.classes)) if labels else None,
        columns=None if records.columns is None else list(records.columns),
        schema_hash="" if schema is None else schema.hash,
        public="" if sample is None else digest_public_records(sample, labels),
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
