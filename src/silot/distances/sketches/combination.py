"""Releases of several sites, or of several periods of one, as the run whose answers they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...data.matching import check_schemas, match_columns
from ...data.measure import Data, Measure
from ...data.preflight import Preflight
from ...errors import InputError, MismatchError
from ...federation.parties import MINE, PUBLIC
from ...federation.protocol import Protocol
from ...federation.recorded import Records, Unanswered, differing
from .release_file import ReleaseFile, digest_public_records
from .release_question import build_question, read_data
from .result import Sketches

if TYPE_CHECKING:
    from ...federation.party import Own


def index_by_site(releases: Sequence[ReleaseFile]) -> dict[str, ReleaseFile]:
    """Return releases by the names of their sites, one each.

    Raises
    ------
    MismatchError
        ``release-twice``: two of one name, of one key, or with the same noisy numbers.
    """
    if not releases:
        raise InputError("no release is given; one or more are needed.", code="holder-names")
    by_mark: dict[tuple[str, object], ReleaseFile] = {}
    for release in releases:
        # A copy under another name, signed again by another key, still has the same noise.
        for mark in (("name", release.name), ("key", release.sealed.signer),
                     ("noise", release.numbers.tobytes())):  # fmt: skip
            other = by_mark.setdefault(mark, release)
            if other is not release:
                what = {"name": f"are both of {release.name!r}", "key": "were signed by one key"}
                raise MismatchError(
                    f"{other.file} and {release.file} "
                    f"{what.get(mark[0], 'hold the same noisy numbers: one is a copy')}. Give one "
                    "release a site; `silot release watch` compares several of one.",
                    code="release-twice",
                )
    return {release.name: release for release in releases}


def index_by_period(releases: Sequence[ReleaseFile]) -> dict[str, ReleaseFile]:
    """Return releases by their periods, or by their files where they name none."""
    first, by_period = releases[0], dict[str, ReleaseFile]()
    for release in releases:
        if release.name != first.name or release.sealed.signer != first.sealed.signer:
            raise MismatchError(
                f"{first.file} and {release.file} come from two sites, or were signed by two "
                "keys. Drift is about one site; `silot release combine` compares several.",
                code="release-site",
            )
        period = release.terms.period or release.file
        # A ledger repeats its answer to a question it has answered: equal numbers are no news.
        copied = any((release.numbers == other.numbers).all() for other in by_period.values())
        if period in by_period or copied:
            raise MismatchError(
                f"{release.file} is given twice, or has the same numbers as another file, "
                "because a ledger repeats its answer to the same question. Release newer "
                "records with another --period.",
                code="release-twice",
            )
        by_period[period] = release
    return by_period


@dataclass(frozen=True)
class Combination:
    """The run whose answers releases are that fit together, with public records and one's own."""

    releases: Mapping[str, ReleaseFile]
    public: Measure | None
    mine: Measure | None

    @classmethod
    def of(
        cls, releases: Mapping[str, ReleaseFile], public: Data | None, validation: Data | None
    ) -> Combination:
        """Read the data of one's own; public records must be those that sites released with."""
        first = next(iter(releases.values()))
        sample, mine = read_public(first, public), None
        if validation is not None:
            labels = first.terms.classes is not None
            mine = read_data(validation, first.schema, "validation", labels)
            check_schemas({"the releases": first.schema, "validation": mine.schema})
            columns = first.terms.columns
            if mine.columns is not None and columns is not None:
                # Releases have no records to match by: a row of zeros stands for their columns.
                head = Measure([[0.0] * len(columns)], columns=columns, schema=first.schema)
                both = {PUBLIC: head, "validation": mine}
                mine = match_columns(both, ["validation"])["validation"]
        return cls(releases, sample, mine)

    def protocol(self, own: Own | None) -> Protocol[Sketches]:
        """Build the protocol that the sites took part in; ``own`` holds the data of one's own."""
        terms = {name: release.terms for name, release in self.releases.items()}
        named = {k: own.period for k, own in terms.items() if own.period is not None}
        # What all of them answer differs in the period at most: the terms of one are of all.
        question = build_question(next(iter(terms.values())), self.public, named or None)
        return question.among(list(terms), own)

    def records(self) -> Records:
        """Return the releases as parties that repeat what they say."""
        return Records([release.recorded(name) for name, release in self.releases.items()])

    def explain(self, unanswered: Unanswered) -> MismatchError:
        """Return an error that names the release that answers another question."""
        for name, message in unanswered.messages.items():
            release = self.releases[name]
            if release.sealed.question != message:
                names = ", ".join(differing(message, release.sealed.question))
                return MismatchError(
                    f"{release.file} answers another question than the same public records and "
                    f"options make here; they differ in {names or 'their form'}. The site runs "
                    "another version of silot or of its libraries: make all releases with the same "
                    "versions.",
                    code="release-question",
                )
        raise unanswered

    def finish(self, sketches: Sketches) -> Sketches:
        """Return the result with what the releases say of themselves."""
        releases = first, *_ = tuple(self.releases.values())
        warnings = dict.fromkeys(text for release in releases for text in release.warnings)
        looked = {k: x for k, x in ((PUBLIC, self.public), (MINE, self.mine)) if x is not None}
        # A schema was checked where the releases were made; without one, columns may be doubtful.
        schemaless = Preflight.of(looked, list(self.releases)) if first.schema is None else None
        sketches = sketches.with_preflight(schemaless)
        return replace(
            sketches,
            columns=first.schema or (tuple(first.terms.columns) if first.terms.columns else None),
            status="; ".join([sketches.status, *(text.rstrip(".") for text in warnings)]),
            releases=releases,
        )


def read_public(release: ReleaseFile, public: Data | None) -> Measure | None:
    """Read the public records of a release, which must be those it was made with."""
    terms = release.terms
    if public is None and not terms.public:
        return None
    if public is None:
        raise InputError(
            f"{release.file} was made with {terms.public_records} public records. Give the same "
            "file (--public).",
            code="public-absent",
        )
    records = read_data(public, release.schema, PUBLIC, False)
    if release.schema is not None:
        check_schemas({release.file: release.schema, PUBLIC: records.schema})
    elif records.schema is not None:
        raise MismatchError(
            f"{release.file} was made without a schema, and the public records were read by one. "
            "Leave the schema out, or have the sites release by it.",
            code="schema-mismatch",
        )
    if records.columns is not None and terms.columns is not None:
        if sorted(records.columns) != sorted(terms.columns):
            raise _other_public_error(release)
        records = records.ordered(tuple(terms.columns))
    if digest_public_records(records, terms.classes is not None) != terms.public:
        raise _other_public_error(release)
    return records


def _other_public_error(release: ReleaseFile) -> MismatchError:
    return MismatchError(
        f"{release.file} was made with other public records than those given (digest "
        f"{release.terms.public[:16] or 'none'}). Give the file that the sites had.",
        code="public-mismatch",
    )
