"""Compare the data of several sites with trusted data, and decide what to do with each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from silot_transport import TwoSampleResult

from ..data.drafts.site_tables import SiteTables, as_measure, name_by_file, read_sites
from ..data.measure import Measure
from ..data.reading import Schema
from ..data.site import Site
from ..distances.gathering import Gathering
from ..distances.sketches.drift import compare_two
from ..distances.sketches.sketch import Sketching
from ..errors import InputError
from ..federation.parties import Parties, check_names, name_holders
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation, Progress, Runtime
from ..options import Options, check_known, option, part, seed, taking
from ..records.decisions import Decision, Step, decide, in_order, number_groups, refuse
from ..records.evidence import (
    LEVEL,
    Accuracy,
    Evidence,
    group_sites,
    keep,
    lacking_classes,
    test,
    unite,
    with_p_values,
    without_copies,
)
from .comparison import SiteComparison
from .records import value_records
from .sketch import Spending, run_sketches

if TYPE_CHECKING:
    from ..keywords import CompareKeywords

Tell = Callable[[Progress], None]
# Share of flagged records beyond which a site differs as a whole, and nothing is cleaned.
_MOST_FLAGGED = 0.5
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
    is_remote = isinstance(sites, Federation | Runtime)
    if is_remote:
        tables = SiteTables({}, None if validation is None else as_measure(validation))
    else:
        if not isinstance(sites, Mapping) and all(isinstance(item, str | Path) for item in sites):
            sites = name_by_file(sites)
        tables = read_sites(
            check_names(name_holders(sites)), validation, COORDINATOR, schema=schema,
            label=labels if isinstance(labels, str) else "", site_files=site_files,
            is_private=is_private,
        )  # fmt: skip
    # A schema says which column has the labels.
    is_labelled = bool(labels or tables.sources.label)
    is_single = not is_remote and len(tables.measures) < 2
    if (is_remote or is_private or is_single) and tables.reference is None:
        raise InputError(
            "sites are compared with trusted data, but none are given. Give validation= "
            "(on the command line --validation FILE).",
            code="validation-absent",
        )
    parties = Parties.of(sites if is_remote else tables.measures, is_labelled, tables.reference)
    if is_private:
        result = _from_sketches(parties, tables, comparing, others)
    elif is_remote:
        run = parties.run(Gathering(labels=is_labelled).among(parties.names))
        # Records of sites arrive without the names of columns.
        here = {name: _named(run.measures[name], parties) for name in parties.names}
        result = _from_records(here, parties, tables, comparing, progress).with_run(run)
    else:
        # The caller has all tables: nothing is sent, and nothing is disclosed to anybody else.
        result = _from_records(parties.measures, parties, tables, comparing, progress)
        result = result.with_preflight(parties.preflight)
    decisions = [*result.decisions, *(refuse(*pair) for pair in tables.unread.items())]
    return replace(result, decisions=in_order(decisions), seconds=time.perf_counter() - started)


def _named(measure: Measure, parties: Parties) -> Measure:
    """Return records as they arrived, with the columns and the schema that the caller knows."""
    like = next(iter(parties.measures.values()), None) or (parties.own and parties.own.measure)
    if like is None or like.columns is None:
        return measure
    return Measure(measure.points, measure.masses, measure.labels, like.columns, schema=like.schema)


def _from_records(
    here: Mapping[str, Measure], parties: Parties, tables: SiteTables, comparing: Comparing,
    progress: Tell | None,
) -> SiteComparison:  # fmt: skip
    done, most = itertools.count(1), 2 * len(here) + 1

    def step() -> None:
        if progress is not None:
            progress(Progress("compare", next(done), most))

    labels, columns = bool(parties.labels), parties.columns
    drafted = tables.sources.draft
    notes = [note.sentence for note in drafted.notes if note.kind == "absent"] if drafted else []
    groups: tuple[tuple[str, ...], ...] = ()
    if parties.own is None:
        groups = group_sites(here, labels, comparing.seed)
        main = groups[0]
        # A site that is alone in its group is no reference for itself.
        references = {
            name: unite([here[o] for o in main if o != name]
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
                [Step(verb, what) for verb, what in tables.prepared.get(item.site, ())], remarks,
            )
        )  # fmt: skip
        step()
    decisions = number_groups(decisions, here, labels, comparing.seed)
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


def _from_sketches(
    parties: Parties, tables: SiteTables, comparing: Comparing, options: dict[str, Any]
) -> SiteComparison:
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
