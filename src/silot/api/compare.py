"""Compare the data of several sites with trusted data, and decide what to do with each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ..data.drafts.site_tables import SiteTables, as_measure, name_by_file, read_sites
from ..data.measure import Measure
from ..data.reading import Schema
from ..data.site import Site
from ..distances.gathering import Gathering
from ..distances.sketches.drift import compare_two
from ..distances.sketches.sketch import Sketching
from ..errors import InputError
from ..federation.accounts import Spending
from ..federation.parties import Parties, check_names, name_holders
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation, Progress, Runtime
from ..options import Options, check_known, option, part, seed, taking
from ..records.decisions import decide, decide_all, in_order, refuse
from ..records.evidence import LEVEL, Evidence, with_p_values
from ..records.result import RecordScores
from .comparison import SiteComparison
from .records import value_records
from .sketch import run_sketches

if TYPE_CHECKING:
    from ..keywords import CompareKeywords

Tell = Callable[[Progress], None]


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

    def score(item: Evidence) -> RecordScores:
        assert parties.own is not None
        return value_records(
            item.delivered, parties.own, labels=labels, name=item.site, fdr=comparing.fdr,
            seed=comparing.seed,
        )  # fmt: skip

    labels, drafted, sources = bool(parties.labels), tables.sources.draft, tables.sources
    decided = decide_all(
        here, None if parties.own is None else parties.own.measure,
        sources.reference or "the validation data", labels=labels, columns=parties.columns,
        seed=comparing.seed, score=score, prepared=tables.prepared, remarks=tables.notes, step=step,
    )  # fmt: skip
    notes = [note.sentence for note in drafted.notes if note.kind == "absent"] if drafted else []
    return SiteComparison(
        decisions=in_order(decided.decisions),
        reference=decided.reference,
        reference_records=decided.reference_records,
        groups=decided.groups,
        sources=sources,
        scores=decided.scores,
        measures={**here, **({} if parties.own is None else {"": parties.own.measure})},
        fdr=comparing.fdr,
        status="; ".join(["from all records", *dict.fromkeys([*notes, *decided.notes])]),
        seed=comparing.seed,
    )


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
