"""Compare the data of several sites with trusted data, and decide what to do with each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from silot_transport import TwoSampleResult

from ..data.container import recognise, stem_of
from ..data.drafts.draft import draft
from ..data.drafts.proposals import Entry
from ..data.drafts.result import Draft, SiteDraft, with_entries
from ..data.drafts.site_proposals import is_guess
from ..data.fit import Fit
from ..data.loading import load_measure
from ..data.measure import Measure
from ..data.names import listing
from ..data.reading import Schema, read_by_schema
from ..data.site import Site
from ..data.units import common_unit
from ..distances.methods import Joint
from ..distances.questions import (
    ClassSizes,
    Describe,
    LabelledRecords,
    decode_classes,
    encode_classes,
)
from ..distances.sides import agree_on_dimension, build_misfit_error, read_weights
from ..distances.sketches.drift import compare_two
from ..distances.sketches.sketch import Sketching
from ..distances.verdict import compare_several
from ..errors import InputError
from ..federation.party import Own
from ..federation.protocol import COORDINATOR, Protocol, Steps, required
from ..federation.question import Answerer
from ..federation.result import RunResult
from ..federation.run import Federation, Progress, Runtime
from ..options import Options, check_known, option, part, seed, taking, truth
from ..render.words import count
from ._holders import Parties, check_names, name_holders
from .decisions.evidence import (
    Accuracy,
    Evidence,
    keep,
    lacking_classes,
    test,
    with_p_values,
    without_copies,
)
from .decisions.result import LEVEL, Decision, SiteComparison, Sources, Step
from .decisions.rules import decide, in_order, refuse
from .records import value_records
from .schema import check_schema
from .sketch import Spending, run_sketches

if TYPE_CHECKING:
    from ..keywords import CompareKeywords

Tell = Callable[[Progress], None]
# Share of flagged records beyond which a site differs as a whole, and nothing is cleaned.
_MOST_FLAGGED = 0.5
# Tables below which one that cannot be read ends a comparison.
_FEWEST_TABLES = 3
# Entries of site files that bring numbers to another unit.
_SCALED = ("unit", "factor")
# Share of equal records up to which these are mistakes, and the chance that they are none.
_MOST_REPEATED, _CERTAIN = 0.02, 0.001
_NO_REFERENCE = "the largest group of sites"
_UNTESTED = TwoSampleResult.of_untestable("no test yet", LEVEL, (0, 0))


class Comparing(Options):
    """Options of a comparison of sites."""

    name = "compare"

    fdr: float = option(
        "Share of the flagged records that may be clean, from 0 (nothing is flagged) up to, not "
        "including, 1.",
        part(),
        default=0.1,
        brief="Share of the flagged records that may be clean. Default: 0.1; 0: no flags.",
    )
    seed: int = option("Seed of everything random.", seed(), default=0)


@taking(also=(Comparing, Sketching, Spending), without=("p", "embedding"))
def compare(
    sites: Mapping[str, Any] | Sequence[Any] | Federation | Runtime,
    validation: Any = None,
    *,
    labels: bool | str = False,
    schema: Schema | str | Path | None = None,
    site_files: Mapping[str, Site | str | Path] | None = None,
    progress: Tell | None = None,
    **options: Unpack[CompareKeywords],
) -> SiteComparison:
    r"""Decide for each site's data: use, convert, clean, request more, keep apart or exclude.

    Parameters
    ----------
    sites
        Tables by name: paths of files, data frames, arrays or measures; a sequence of paths is
        named by its files. Or a federation (as for ``distance_matrix``).
    validation
        Trusted data, as one of the sites' or a path. Without them the largest group of sites with
        the same distribution is what others are compared with.
    labels
        Whether labels count, or the name of their column: wrong ones, and shares of classes.
    schema
        What tables are read by. Without one a schema is drafted from the validation data, or from
        the first table, and site files with units, codes and formats for the others.
    site_files
        By site how it writes its table.
    progress
        Called after every step.
    **options
        ``fdr`` of the flags on records, and ``seed``. With ``privacy_epsilon`` or ``public`` one
        differentially private release of each site is compared, and options are those of
        ``silot.api.sketches``: no records are scored then.

    Returns
    -------
    SiteComparison
        ``verdict``: a sentence; ``decisions``: one for each site, with its evidence.

    Raises
    ------
    InputError, MismatchError, FileError
        As ``load_measure`` and ``distance_matrix``; ``validation-absent``: a federation, a budget
        or one site without validation data.

    Notes
    -----
    Sites are tested against the reference (``silot_transport.two_sample``) with p-values adjusted
    for their number (Holm): if all have the reference's distribution, any of them is called
    different with probability ``level`` at most. In this order:

    - *convert*: numbers of a column fit in another unit, by its name or its quartiles.
    - *clean*: records are flagged as faulty, of which ``fdr`` may be clean; what follows is about
      the other records.
    - *exclude*: with the site's records accuracy on the validation records falls, at 95 % over all
      sites.
    - *use*: the site is not distinguishable, or accuracy rises although it is different.
    - *ask*: only shares of classes differ, and these lack.
    - *keep apart*: different otherwise. Sites to keep apart with the same distribution are a group.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4, 60, 2))
    >>> result = compare({"a": x[0], "b": x[1], "far": x[2] + 5.0}, x[3])
    >>> [(item.site, item.verb) for item in result.decisions]
    [('a', 'use'), ('b', 'use'), ('far', 'apart')]
    """
    is_private = bool({"privacy_epsilon", "public", "ledgers"} & options.keys())
    own = ("fdr", *Spending.options)
    if is_private:
        check_known(Sketching, options, "compare", own=own)
    else:
        check_known(Comparing, options, "compare")
    comparing, others = Comparing.split(options)
    started = time.perf_counter()
    if isinstance(sites, Federation | Runtime):
        gathered = _Tables({}, sites, None if validation is None else _as_measure(validation))
    else:
        gathered = _read(sites, validation, labels, schema, site_files or {}, is_private=is_private)
    is_remote = gathered.federation is not None
    # A schema says which column has the labels.
    is_labelled = bool(labels or gathered.sources.label)
    is_single = not is_remote and len(gathered.measures) < 2
    if (is_remote or is_private or is_single) and gathered.reference is None:
        raise InputError(
            "sites are compared with trusted data, but none are given. Give validation= "
            "(on the command line --validation FILE).",
            code="validation-absent",
        )
    parties = Parties.of(
        gathered.measures if gathered.federation is None else gathered.federation,
        is_labelled,
        gathered.reference,
    )
    if is_private:
        result = _from_sketches(parties, gathered, comparing, others)
    elif is_remote:
        run = parties.run(Gathering(labels=is_labelled).among(parties.names))
        # Records of sites arrive without the names of columns.
        here = {name: _named(run.measures[name], parties) for name in parties.names}
        result = _from_records(here, parties, gathered, comparing, progress).with_run(run)
    else:
        # The caller has all tables: nothing is sent, and nothing is disclosed to anybody else.
        result = _from_records(parties.measures, parties, gathered, comparing, progress)
        result = result.with_preflight(parties.preflight)
    decisions = [*result.decisions, *(refuse(*pair) for pair in gathered.unread.items())]
    return replace(result, decisions=in_order(decisions), seconds=time.perf_counter() - started)


@dataclass(frozen=True)
class _Tables:
    """Measures of sites and of the reference, how they were read, and what a person must look at.

    ``prepared`` are by site the steps that were taken as it was read, ``notes`` what was assumed,
    and ``unread`` why a table cannot be read.
    """

    measures: Mapping[str, Measure]
    federation: Federation | Runtime | None = None
    reference: Measure | None = None
    sources: Sources = field(default_factory=Sources)
    prepared: Mapping[str, Sequence[Step]] = field(default_factory=dict[str, Any])
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Any])
    unread: Mapping[str, InputError] = field(default_factory=dict[str, InputError])


def _as_measure(data: Any) -> Measure:
    return load_measure(data) if isinstance(data, str | Path) else Measure.of(data)


def _is_raw(data: Any) -> bool:
    """Return whether data are a table whose columns are to be read by a schema."""
    if isinstance(data, str | Path):
        return recognise(data).is_table
    return hasattr(data, "columns") and not isinstance(data, Measure)


def _read(
    sites: Mapping[str, Any] | Sequence[Any], validation: Any, labels: bool | str,
    schema: Schema | str | Path | None, site_files: Mapping[str, Site | str | Path],
    *, is_private: bool = False,
) -> _Tables:  # fmt: skip
    """Read tables by a schema, which is drafted where there is none; take measures as they are."""
    if not isinstance(sites, Mapping) and all(isinstance(item, str | Path) for item in sites):
        sites = _by_file(sites)
    named = check_names(name_holders(sites))
    files = {name: str(data) for name, data in named.items() if isinstance(data, str | Path)}
    reference = str(validation) if isinstance(validation, str | Path) else ""
    label = labels if isinstance(labels, str) else ""
    # Commands call a file by its name up to the first dot.
    stem = stem_of(Path(reference)) if reference else ""
    owner = stem if stem and stem not in named else COORDINATOR
    sources = Sources(files=files, reference=reference, reference_site=owner, label=label)
    site_files = _of_tables(site_files, named, owner, schema)
    every = [*named.values(), *([] if validation is None else [validation])]
    if not any(map(_is_raw, every)):
        measures = {name: _as_measure(data) for name, data in named.items()}
        trusted = None if validation is None else _as_measure(validation)
        return _Tables(measures, reference=trusted, sources=sources)
    raw = dict(named) if validation is None else {**named, COORDINATOR: validation}
    first = next(iter(named)) if validation is None else COORDINATOR
    if is_private:
        return _read_as_stated(raw, schema, site_files, sources)
    if schema is None:
        return _read_drafted(raw, first, sources)
    return _read_by(raw, Schema.coerce(schema), str(schema), site_files, sources)


def _of_tables(
    site_files: Mapping[str, Site | str | Path], sites: Mapping[str, Any], owner: str, schema: Any
) -> dict[str, Site | str | Path]:
    """Return site files by the table that each is of, or raise where one would change nothing."""
    if site_files and schema is None:
        raise InputError(
            "a site file says how a table differs from a schema, but the schema is missing. Give "
            "schema= (on the command line --schema FILE) too, or leave the site files out.",
            code="schema-options",
        )
    unknown = [name for name in site_files if name not in {*sites, owner}]
    if unknown:
        raise InputError(
            f"there is a site file for {unknown[0][:40]!r}, but no table has that name. The tables "
            f"are {listing([*sites, owner], 8)}.",
            code="schema-options",
        )
    return {COORDINATOR if name == owner else name: item for name, item in site_files.items()}


def _by_file(paths: Sequence[Any]) -> dict[str, Any]:
    named = {stem_of(Path(path)): path for path in paths}
    if len(named) < len(paths):
        raise InputError(
            "two files have the same name up to the first dot, so their sites would have the same "
            "name. Rename one, or give names: sites={'north': 'a/data.csv', ...}.",
            code="holder-names",
        )
    return named


def _read_drafted(
    raw: Mapping[str, Any], first: str, sources: Sources, *, is_last: bool = False
) -> _Tables:
    """Read tables by a schema drafted from one of them, and site files drafted from the others."""
    others = [name for name in raw if name != first]
    try:
        drafted = _draft(raw, [first, *others], sources.label)
    except InputError:
        unread = {name: error for name in others if (error := _misfit(raw, [first, name]))}
        if not unread or len(raw) < _FEWEST_TABLES:
            raise
        readable = {name: data for name, data in raw.items() if name not in unread}
        tables = _read_drafted(readable, first, sources)
        return replace(tables, unread={**tables.unread, **unread})
    proposed = dict(zip([first, *others], drafted.sites, strict=True))
    converted = [name for name in others if any(
        entry.key in _SCALED for parts in proposed[name].entries.values() for entry in parts
    )]  # fmt: skip
    if first != COORDINATOR and not is_last and 2 * len(converted) > len(others):
        # Most tables are in other units than the first: the odd one is that.
        return _read_drafted(raw, converted[0], sources, is_last=True)
    return _converted(raw, drafted.schema, {}, proposed, replace(sources, draft=drafted))


def _draft(raw: Mapping[str, Any], names: Sequence[str], label: str = "") -> Draft:
    """Draft a schema of the first of some tables, and site files of all."""
    first, *others = (raw[name] for name in names)
    return draft(
        first, others, label=label, weight="", identifiers=(), site=None, title="", tell=None,
        called=names,
    )  # fmt: skip


def _misfit(raw: Mapping[str, Any], names: Sequence[str]) -> InputError | None:
    """Return why no site file can be drafted of a table, if that is so."""
    try:
        _draft(raw, names)
    except InputError as error:
        return error
    return None


def _read_as_stated(
    raw: Mapping[str, Any], schema: Schema | str | Path | None,
    site_files: Mapping[str, Site | str | Path], sources: Sources,
) -> _Tables:  # fmt: skip
    """Read tables by what persons confirmed alone, for releases with noise.

    A draft is read off the records: coordinates, notes and counts from it would tell about them
    without noise.
    """
    if schema is None:
        raise InputError(
            "a drafted schema discloses something about the records, and a release must not. Give "
            "schema= (on the command line --schema FILE), confirmed by `silot schema confirm`.",
            code="option-privacy",
        )
    contract = Schema.coerce(schema)
    measures = {
        name: read_by_schema(data, contract, Site.coerce(site_files.get(name))).measure
        for name, data in raw.items()
    }
    reference = measures.pop(COORDINATOR, None)
    label = contract.label.column if contract.label else ""
    return _Tables(measures, reference=reference, sources=replace(sources, label=label))


def _read_by(
    raw: Mapping[str, Any], schema: Schema, file: str,
    site_files: Mapping[str, Site | str | Path], sources: Sources,
) -> _Tables:  # fmt: skip
    """Read tables by a schema, with what site files lack proposed from the tables."""
    stated = {name: Site.coerce(site) or Site() for name, site in site_files.items()}
    proposed: dict[str, SiteDraft] = {}
    for name, data in raw.items():
        fit = check_schema(data, schema, site=stated.get(name))
        proposed[name] = SiteDraft(name, str(data) if isinstance(data, str) else name, fit.cures)
    is_file = "\n" not in file and not file.startswith("silot:") and Path(file).is_file()
    named = {
        sources.reference_site if name == COORDINATOR else name: str(site)
        for name, site in site_files.items()
        if isinstance(site, str | Path)
    }
    sources = replace(sources, schema_file=file if is_file else "", site_files=named)
    return _converted(raw, schema, stated, proposed, sources)


def _converted(
    raw: Mapping[str, Any], schema: Schema, stated: Mapping[str, Site],
    proposed: Mapping[str, SiteDraft], sources: Sources,
) -> _Tables:  # fmt: skip
    """Read tables by a schema and by site files that nobody has confirmed yet."""
    measures: dict[str, Measure] = {}
    prepared: dict[str, list[Step]] = {}
    fits: dict[str, Fit] = {}
    notes: dict[str, list[str]] = {}
    drafts: dict[str, SiteDraft] = {}
    unread: dict[str, InputError] = {}
    for name, data in raw.items():
        own_draft = proposed[name]
        # A guess by shares alone is for a person: a site is read without it, or refused.
        entries = {
            column: [entry for entry in parts if not is_guess(entry)]
            for column, parts in own_draft.entries.items()
        }
        before = stated.get(name, Site())
        body = before.model_dump(by_alias=True, exclude_defaults=True)
        site = Site.of(with_entries(body, entries)) if any(entries.values()) else before
        try:
            records = read_by_schema(data, schema, site)
            measure, unlabelled = _labelled(records.measure, schema)
        except InputError as error:
            if name == COORDINATOR or len(raw) < _FEWEST_TABLES:
                raise
            # One table that cannot be read is one decision, and no end of the comparison.
            unread[name] = error
            continue
        measures[name] = measure
        own = sources.reference_site if name == COORDINATOR else name
        if any(own_draft.entries.values()):
            drafts[own] = replace(own_draft, name=own)
        fits[name] = records.fit
        prepared[name], remarks = _prepared(schema, entries, records.fit)
        of = f"{unlabelled:,} of {measure.size:,} records"
        absent = [f"{of} have no label, and are left out here"] if unlabelled else []
        notes[name] = absent + remarks
    if unread and not measures.keys() - {COORDINATOR}:
        raise next(iter(unread.values()))
    if repeats := _draft_repeats(fits):
        both = {
            name: replace(draft, entries={**draft.entries, "": [
                *draft.entries.get("", ()), *([repeats[name]] if name in repeats else [])
            ]})
            for name, draft in proposed.items()
        }  # fmt: skip
        return _converted(raw, schema, stated, both, sources)
    sources = replace(sources, site_drafts=drafts)
    if sources.draft is not None:
        # Tables are called as the caller calls the sites.
        with_names = replace(sources.draft, sites=tuple(drafts.values()))
        sources = replace(sources, draft=with_names)
    if not sources.label and schema.label is not None:
        sources = replace(sources, label=schema.label.column)
    reference = measures.pop(COORDINATOR, None)
    return _Tables(
        measures, reference=reference, sources=sources, prepared=prepared, notes=notes,
        unread=unread,
    )  # fmt: skip


def _prepared(
    schema: Schema, entries: Mapping[str, Sequence[Entry]], fit: Fit
) -> tuple[list[Step], list[str]]:
    """Return what was done to a table as it was read, and what a person should look at."""
    every = [(column, entry) for column, parts in entries.items() for entry in parts]
    scaled = [(column, entry) for column, entry in every if entry.key in _SCALED]
    steps = [Step("convert", _conversion(schema, column, entry)) for column, entry in scaled]
    if fit.is_dropped and fit.repeated:
        steps.append(Step("clean", count(fit.repeated, "repeated record")))
    notes = [f"{column}: {entry.why}" for column, entry in scaled]
    notes += [
        f"{column or 'table'}: read with {entry.key} {entry.value}, {entry.why}"
        for column, entry in every if entry.key not in (*_SCALED, "repeats")
    ]  # fmt: skip
    return steps, notes + [problem.sentence for problem in fit.problems]


def _draft_repeats(fits: Mapping[str, Fit]) -> dict[str, Entry]:
    """Return entries of site files for tables in which records were entered more than once.

    Where records seldom are equal by nature, equal pairs grow as the square of the records: given
    how many there are in two tables, those of one are binomial.
    """
    from scipy.special import bdtrc

    rarest = min(fits.values(), key=lambda fit: fit.repeated / fit.records)
    if rarest.repeated > _MOST_REPEATED * rarest.records:
        return {}
    entries: dict[str, Entry] = {}
    for name, fit in fits.items():
        share = fit.records**2 / (fit.records**2 + rarest.records**2)
        chance = bdtrc(fit.repeated - 1, fit.repeated + rarest.repeated, share)
        if fit.repeated and not fit.is_dropped and chance < _CERTAIN / len(fits):
            why = (
                f"{fit.repeated:,} of {fit.records:,} records equal an earlier one, and "
                f"{rarest.repeated:,} of {rarest.records:,} in another table"
            )
            entries[name] = Entry("repeats", "drop", why)
    return entries


def _labelled(measure: Measure, schema: Schema) -> tuple[Measure, int]:
    """Return records of which those without a label have no weight, and how many these are."""
    if measure.names is None or schema.label is None or schema.label.missing is None:
        return measure, 0
    is_unlabelled = measure.names == str(schema.label.missing)
    masses = np.where(is_unlabelled, 0.0, measure.masses)
    if not masses.any():
        raise InputError(
            f"no record has a label in column {schema.label.column!r}. Leave this site out, or "
            "compare without labels.",
            code="labels-absent",
        )
    labelled = Measure(
        measure.points, masses, measure.labels, measure.columns, schema=measure.schema
    )
    return labelled, int(is_unlabelled.sum())


def _conversion(schema: Schema, column: str, entry: Entry) -> str:
    """Return in words how a column is brought to the unit of the schema."""
    if entry.key == "factor":
        return f"{column} x {entry.value:g}"
    unit = str(getattr(schema.used.get(column), "unit", "")) or "the unit of the schema"
    return f"{column} from {common_unit(entry.value)} to {common_unit(unit)}"


def _named(measure: Measure, parties: Parties) -> Measure:
    """Return records as they arrived, with the columns and the schema that the caller knows."""
    like = next(iter(parties.measures.values()), None) or (parties.own and parties.own.measure)
    if like is None or like.columns is None:
        return measure
    return Measure(measure.points, measure.masses, measure.labels, like.columns, schema=like.schema)


def _from_records(
    here: Mapping[str, Measure], parties: Parties, tables: _Tables, comparing: Comparing,
    progress: Tell | None,
) -> SiteComparison:  # fmt: skip
    """Decide from the records of all sites."""
    done, most = itertools.count(1), 2 * len(here) + 1

    def step() -> None:
        if progress is not None:
            progress(Progress("compare", next(done), most))

    labels, columns = bool(parties.labels), parties.columns
    drafted = tables.sources.draft
    notes = [note.sentence for note in drafted.notes if note.kind == "absent"] if drafted else []
    groups: tuple[tuple[str, ...], ...] = ()
    if parties.own is None:
        groups = _group(here, labels, comparing.seed)
        main = groups[0]
        # A site that is alone in its group is no reference for itself.
        references = {
            name: _union([here[o] for o in main if o != name]
                         or [measure for other, measure in here.items() if other != name])
            for name in here
        }  # fmt: skip
        called, total = _NO_REFERENCE, sum(here[name].size for name in main)
        notes.append("no validation data: records were not scored, and accuracy was not measured")
    else:
        reference = parties.own.measure
        references = dict.fromkeys(here, reference)
        called, total = tables.sources.reference or "the validation data", reference.size
    step()
    items: list[Evidence] = []
    for name, measure in here.items():
        own = Evidence(site=name, delivered=measure, kept=measure, test=_UNTESTED)
        if parties.own is not None:
            own = _clean(own, parties.own, labels, comparing, notes)
            own, references[name] = without_copies(own, parties.own.measure, comparing.seed)
        result = test(own.kept, references[name], labels=labels, columns=columns,
                      sites=len(here), seed=comparing.seed)  # fmt: skip
        items.append(replace(own, test=result))
        step()
    items = with_p_values(items)
    accuracy = Accuracy(parties.own.measure, comparing.seed) if parties.own and labels else None
    if accuracy is not None and not accuracy.is_measurable:
        notes.append(
            "accuracy was not measured: this needs two classes with 5 validation records each"
        )
        accuracy = None
    decisions: list[Decision] = []
    for item in items:
        lacking: tuple[tuple[str, int], ...] = ()
        if labels and item.is_different:
            lacking = lacking_classes(
                item.kept, references[item.site], columns=columns, sites=len(here),
                seed=comparing.seed,
            )  # fmt: skip
        gain = None if accuracy is None else accuracy.gain(item.kept, len(here))
        remarks = tables.notes.get(item.site, ())
        decisions.append(
            decide(
                replace(item, gain=gain, lacking=lacking), references[item.site], called,
                tables.prepared.get(item.site, ()), remarks,
            )
        )  # fmt: skip
        step()
    decisions = _grouped(decisions, here, labels, comparing.seed)
    if not labels:
        notes.append("labels were not compared: name their column to have them judged too")
    return SiteComparison(
        decisions=in_order(decisions),
        reference=called,
        reference_records=total,
        groups=groups,
        sources=tables.sources,
        scores={item.site: item.scores for item in items if item.scores is not None},
        measures={**here, **({} if parties.own is None else {"": parties.own.measure})},
        fdr=comparing.fdr,
        status="; ".join(["from all records", *dict.fromkeys(notes)]),
        seed=comparing.seed,
    )


def _clean(
    item: Evidence, own: Own, labels: bool, comparing: Comparing, notes: list[str]
) -> Evidence:
    """Return the records of a site that models of the reference's do not flag as faulty."""
    try:
        scores = value_records(
            item.delivered, own, labels=labels, name=item.site, fdr=comparing.fdr,
            seed=comparing.seed,
        )  # fmt: skip
    except InputError as error:
        if error.code != "validation-few":
            raise
        notes.append(f"records were not scored: {error.message.rstrip('.')}")
        return item
    item = replace(item, scores=replace(scores, transcript=None))
    if scores.flagged.mean() > _MOST_FLAGGED:
        notes.append(f"more than half of the records of {item.site} are flagged: the site "
                     "differs as a whole, so it was not cleaned")  # fmt: skip
        return item
    kept = keep(item.delivered, ~scores.flagged)
    return replace(item, kept=kept, cleaned=int(scores.flagged.sum()))


def _group(here: Mapping[str, Measure], labels: bool, seed: int) -> tuple[tuple[str, ...], ...]:
    """Return groups of sites with the same distribution, the one of most records first."""
    names = list(here)
    if len(names) < 2:
        return (tuple(names),)
    result = compare_several(
        [(here[name].points, here[name].weights) for name in names],
        [here[name].names if labels else None for name in names],
        "none", level=LEVEL, seed=seed,
    )  # fmt: skip
    groups = [
        tuple(name for name, own in zip(names, result.groups, strict=True) if own == group)
        for group in range(max(result.k, 1))
    ]
    return tuple(sorted(groups, key=lambda names: -sum(here[name].size for name in names)))


def _grouped(
    decisions: Sequence[Decision], here: Mapping[str, Measure], labels: bool, seed: int
) -> list[Decision]:
    """Return decisions with the number of the group of each site that is to be kept apart."""
    apart = {item.site: here[item.site] for item in decisions if item.verb == "apart"}
    if len(apart) < 2:
        return list(decisions)
    number = {
        name: k for k, names in enumerate(_group(apart, labels, seed), start=1) for name in names
    }
    return [replace(item, group=number.get(item.site, 0)) for item in decisions]


def _union(measures: Sequence[Measure]) -> Measure:
    """Return the records of several measures as one."""
    first = measures[0]
    names = [measure.names for measure in measures if measure.names is not None]
    labels = np.concatenate(names) if len(names) == len(measures) else None
    points = np.vstack([measure.points for measure in measures])
    masses = np.concatenate([measure.masses for measure in measures])
    return Measure(points, masses, labels, first.columns, schema=first.schema)


def _from_sketches(
    parties: Parties, tables: _Tables, comparing: Comparing, options: dict[str, Any]
) -> SiteComparison:
    """Decide from one differentially private release of every site."""
    sketches = run_sketches(parties, seed=comparing.seed, **options)
    reference = parties.trusted.measure
    level = LEVEL / len(parties.names)
    items = [
        Evidence(
            site=name,
            delivered=sketches.measures[name],
            kept=sketches.measures[name],
            test=compare_two(sketches, COORDINATOR, name, level),
        )
        for name in parties.names
    ]
    called = tables.sources.reference or "the validation data"
    decisions = [
        replace(decide(item, reference, called), records=round(sketches.records[item.site]))
        for item in with_p_values(items)
    ]
    return SiteComparison(
        decisions=in_order(decisions),
        reference=called,
        reference_records=reference.size,
        sources=tables.sources,
        fdr=comparing.fdr,
        status="estimated from one release of each site: records are not scored, and accuracy is "
        "not measured",
        seed=comparing.seed,
    ).with_run(sketches)


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered(RunResult):
    """The records of all holders, by name."""

    measures: Mapping[str, Measure] = field(repr=False)
    status: str

    def to_dict(self) -> dict[str, Any]:
        """Return how many records there are, and the cost: no record."""
        sizes = {name: measure.size for name, measure in self.measures.items()}
        return {"records": sizes, "status": self.status, **self._cost_dict()}


class Gathering(Joint[Gathered]):
    """Ask every holder for its records, with their labels where these count.

    Examples
    --------
    >>> from silot.federation import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0], [1.0]]})
    >>> fed.run(Gathering().among(["a"])).measures["a"]
    Measure(2 records, 1 features)
    """

    name = "gathering"

    labels: bool = option("Labels too.", truth(), default=False, flag=False)

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Gathered]:
        names = tuple(holders)
        return Protocol(
            self.name,
            names,
            self.disclosure,
            lambda: self._steps(names),
            self.values("labels"),
            expected_rounds=2,
        )

    def _steps(self, names: tuple[str, ...]) -> Steps[Gathered]:
        first = ClassSizes() if self.labels else Describe()
        answers = yield dict.fromkeys(names, first)
        replies = {name: required(answers, name) for name in names}
        classes: list[str] = []
        if self.labels:
            texts = [str(answer.scalars.get("classes", "")) for answer in replies.values()]
            classes = sorted({kind for text in texts for kind in decode_classes(text)})
        question = LabelledRecords(classes=encode_classes(classes) if classes else "")
        answers = yield dict.fromkeys(names, question)
        measures: dict[str, Measure] = {}
        for name in names:
            answer = required(answers, name)
            points = answer.array("points", ndim=2)
            labels = None
            if self.labels:
                codes = answer.arrays["codes"]
                sound = codes.dtype.kind == "i" and codes.shape == (len(points),)
                if not sound or codes.min() < 0 or codes.max() >= len(classes):
                    raise build_misfit_error()
                labels = np.array(classes)[codes]
            measures[name] = Measure(points, read_weights(answer, len(points)), labels)
        agree_on_dimension({name: measure.dimension for name, measure in measures.items()})
        return Gathered(measures=measures, status=f"the records of {len(names)} holders")
