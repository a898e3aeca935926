"""Decide what to do with the data of a site, from the evidence about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from silot_transport import TwoSampleResult

from ..data.measure import Measure
from ..distances.naming import Columns
from ..distances.verdict import detectable_words, driver_words
from ..errors import InputError, SilotError
from ..render.words import count, listed, printable
from .evidence import (
    LEVEL,
    Accuracy,
    Evidence,
    Interval,
    group_sites,
    keep,
    lacking_classes,
    missing_words,
    shift_of,
    test,
    unite,
    with_p_values,
    without_copies,
)
from .result import RecordScores

Verb = Literal["use", "convert", "clean", "ask", "apart", "exclude"]

# Share of flagged records beyond which a site differs as a whole, and nothing is cleaned.
_MOST_FLAGGED = 0.5
# Share of faulty records, at least, of a site whose data are not worth cleaning.
_MOST_FAULTY = 0.2
ORDER: tuple[Verb, ...] = ("use", "convert", "clean", "ask", "apart", "exclude")
"""Verbs in the order in which decisions are listed."""


@dataclass(frozen=True)
class Step:
    """One thing to do: a verb, and what it is done to."""

    verb: Verb
    object: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What to do with the data of one site, and why.

    Attributes
    ----------
    site
        Its name.
    records
        How many it has.
    steps
        What to do, in this order; the last says what the data are good for then.
    reason
        Why, in a sentence.
    test
        The two-sample test of its records and the reference, after all steps but the last.
    p_value
        Of the test, adjusted for the number of sites (Holm).
    shift
        Largest shift of one column that drives a difference, else of any, in its standard
        deviations in the reference, with an interval that holds for all columns together; ``None``
        where no column was tested.
    gain
        By how many points the accuracy on the reference's records rises, if the site's records are
        added to train on; ``None`` without labels.
    faulty
        How many records are faulty; ``None`` where they were not scored.
    flagged
        How many are flagged as faulty.
    group
        Number of the group that a site to keep apart belongs to, from 1; else 0.
    notes
        What a person should look at.
    """

    site: str
    records: int
    steps: tuple[Step, ...]
    reason: str
    test: TwoSampleResult
    p_value: float
    shift: Interval | None = None
    gain: Interval | None = None
    faulty: Interval | None = None
    flagged: int = 0
    group: int = 0
    notes: tuple[str, ...] = ()

    @property
    def verb(self) -> Verb:
        """What the data can be used for after all steps."""
        return self.steps[-1].verb

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        parts = ("shift", "gain", "faulty")
        plain = ("site", "records", "reason", "p_value", "flagged", "group")
        return {
            **{name: getattr(self, name) for name in plain},
            "steps": [vars(step) for step in self.steps],
            "test": self.test.to_dict(),
            **{name: value and vars(value) for name in parts for value in [getattr(self, name)]},
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Decisions about several sites, and what they rest on.

    ``notes`` say what could not be done, and why.
    """

    decisions: Sequence[Decision]
    reference: str
    reference_records: int
    groups: tuple[tuple[str, ...], ...]
    scores: Mapping[str, RecordScores]
    notes: Sequence[str]


def decide_all(
    here: Mapping[str, Measure],
    trusted: Measure | None,
    called: str,
    *,
    labels: bool,
    columns: Columns,
    seed: int,
    score: Callable[[Evidence], RecordScores],
    prepared: Mapping[str, Sequence[tuple[Verb, str]]],
    remarks: Mapping[str, Sequence[str]],
    step: Callable[[], None],
) -> Decisions:
    """Decide about sites from their records: flag, test against a reference, measure accuracy.

    Parameters
    ----------
    here
        Records by site.
    trusted, called
        The records that sites are compared with, and their name. Without, each site is compared
        with the largest group of others.
    score
        Scores the records of a site by models of the trusted ones.
    prepared, remarks
        What was done to the records of a site when they were read, and what was noticed.
    step
        Called after each step: two for each site, and one.
    """
    notes: list[str] = []
    groups: tuple[tuple[str, ...], ...] = ()
    if trusted is None:
        groups = group_sites(here, labels, seed)
        # A site that is alone in its group is no reference for itself.
        others = {name: [other for other in groups[0] if other != name]
                  or [other for other in here if other != name] for name in here}  # fmt: skip
        references = {name: unite([here[o] for o in others[name]]) for name in here}
        called, total = "the largest group of sites", sum(here[name].size for name in groups[0])
        notes.append("no validation data: records were not scored, and accuracy was not measured")
    else:
        references, total = dict.fromkeys(here, trusted), trusted.size
    step()
    untested = TwoSampleResult.of_untestable("no test yet", LEVEL, (0, 0))
    items: list[Evidence] = []
    for name, measure in here.items():
        item = Evidence(site=name, delivered=measure, kept=measure, test=untested)
        if trusted is not None:
            item = _clean(item, score, notes)
            item, references[name] = without_copies(item, trusted, seed)
        result = test(item.kept, references[name], labels=labels, columns=columns,
                      sites=len(here), seed=seed)  # fmt: skip
        items.append(replace(item, test=result))
        step()
    items = with_p_values(items)
    accuracy = None if trusted is None or not labels else Accuracy(trusted, seed)
    if accuracy is not None and not accuracy.is_measurable:
        notes.append(
            "accuracy was not measured: this needs two classes with 5 validation records each"
        )
        accuracy = None
    decisions: list[Decision] = []
    for item in items:
        reference, lacking = references[item.site], ()
        if labels and item.is_different:
            lacking = lacking_classes(
                item.kept, reference, columns=columns, sites=len(here), seed=seed
            )
        gain = None if accuracy is None else accuracy.gain(item.kept, len(here))
        item = replace(item, gain=gain, lacking=lacking)
        steps = [Step(verb, what) for verb, what in prepared.get(item.site, ())]
        decisions.append(decide(item, reference, called, steps, remarks.get(item.site, ())))
        step()
    if not labels:
        notes.append("labels were not compared: name their column to have them judged too")
    return Decisions(
        decisions=_number_groups(decisions, here, labels, seed),
        reference=called,
        reference_records=total,
        groups=groups,
        scores={item.site: item.scores for item in items if item.scores is not None},
        notes=notes,
    )


def _clean(item: Evidence, score: Callable[[Evidence], RecordScores], notes: list[str]) -> Evidence:
    """Return the records of a site that models of the reference's do not flag as faulty."""
    try:
        scores = score(item)
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


def decide(
    item: Evidence, reference: Measure, called: str, prepared: Sequence[Step] = (),
    notes: Sequence[str] = (),
) -> Decision:  # fmt: skip
    """Decide about one site, whose records were ``prepared`` as they were read.

    ``reference`` are the records that sites are compared with, and what they are ``called``.
    """
    steps = list(prepared)
    if item.cleaned:
        steps.append(Step("clean", count(item.cleaned, "record")))
    if item.copies:
        words = "equal a record of the reference and are excluded here"
        notes = (f"{item.copies:,} of {item.delivered.size:,} records {words}", *notes)
    notes = (*missing_words(item, reference, called), *notes)
    verb, object, reason = _judge(item, called)
    shift = shift_of(item.test, reference)
    return Decision(
        site=item.site,
        records=item.delivered.size,
        steps=(*steps, Step(verb, object)),
        reason=reason,
        test=item.test,
        p_value=item.p_value,
        shift=None if shift is None else shift[0],
        gain=item.gain,
        faulty=_faulty(item),
        flagged=item.cleaned,
        notes=tuple(notes),
    )


def refuse(site: str, error: SilotError) -> Decision:
    """Return the decision about a site whose table cannot be read."""
    untested = TwoSampleResult.of_untestable("its table cannot be read", LEVEL, (0, 0))
    return Decision(
        site=site, records=0, steps=(Step("exclude", "until its table can be read"),),
        reason=f"its table cannot be read: {error.message.rstrip('.')}", test=untested, p_value=1.0,
    )  # fmt: skip


def _judge(item: Evidence, called: str) -> tuple[Verb, str, str]:
    """Return what the data are good for, of what more is needed, and why."""
    test, gain = item.test, item.gain
    if item.copies and item.copies == item.delivered.size - item.cleaned:
        return "exclude", "", f"all its records are also in {called}, so they add nothing"
    if gain is not None and gain.high < 0:
        return (
            "exclude",
            "",
            f"with its records accuracy on {called} falls by {-gain.value:.1f} points",
        )
    faulty, kept = _faulty(item), item.delivered.size - item.cleaned
    if faulty is not None and faulty.low - item.cleaned > _MOST_FAULTY * kept:
        share = f"{(faulty.low - item.cleaned) / kept:.0%}"
        return (
            "exclude",
            "",
            f"at least {share} of its records are faulty, but it is not known which ones",
        )
    if test.verdict == "cannot be tested":
        return "apart", "", f"it cannot be compared: {test.why}"
    if not item.is_different:
        return "use", "", f"it is not distinguishable from {called}"
    if item.lacking:
        objects = listed([f"class {printable(name)}" for name, _ in item.lacking], 3)
        parts = [f"{_rounded(more)} of {printable(name)}" for name, more in item.lacking]
        counts = listed(parts, 3)
        return "ask", objects, f"only the shares of its classes differ: about {counts} are missing"
    cause = driver_words(test) or "all columns together"
    if gain is not None and gain.low > 0:
        return (
            "use",
            "",
            f"accuracy rises by {gain.value:.1f} points, although it differs by {cause}",
        )
    return "apart", "", f"it differs by {cause}"


def _rounded(number: int) -> str:
    # More digits would promise more than shares of so few records say.
    return f"{float(f'{number:.2g}'):,.0f}"


def _faulty(item: Evidence) -> Interval | None:
    if item.scores is None or item.scores.screening is None:
        return None
    estimate = item.scores.screening.broken["all"]
    return Interval(estimate.value, estimate.low, estimate.high)


def in_order(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return decisions in the order of their verbs, those of larger gain first."""

    def key(item: Decision) -> tuple[int, int, float, str]:
        gain = 0.0 if item.gain is None else -item.gain.value
        return ORDER.index(item.verb), len(item.steps), gain, item.site

    return tuple(sorted(decisions, key=key))


def _number_groups(
    decisions: Sequence[Decision], here: Mapping[str, Measure], labels: bool, seed: int
) -> list[Decision]:
    """Return decisions with the number of the group of each site that is to be kept apart."""
    apart = {item.site: here[item.site] for item in decisions if item.verb == "apart"}
    if len(apart) < 2:
        return list(decisions)
    number = {
        name: k
        for k, names in enumerate(group_sites(apart, labels, seed), start=1)
        for name in names
    }
    return [replace(item, group=number.get(item.site, 0)) for item in decisions]


def summarize(decisions: Sequence[Decision]) -> str:
    """Say in one sentence what to do with all sites."""
    alike: dict[tuple[Verb, ...], list[Decision]] = {}
    for item in decisions:
        alike.setdefault(tuple(step.verb for step in item.steps), []).append(item)
    text = "; ".join(map(_clause, alike.values()))
    return f"{text[0].upper()}{text[1:]}."


def _clause(items: list[Decision]) -> str:
    """Say in a clause what to do with sites that have the same steps."""
    sites = listed([printable(item.site) for item in items], 3)
    several = len(items) > 1
    it = "them" if several else "it"
    phrases: list[str] = []
    for k, step in enumerate(items[0].steps):
        of = sites if k == 0 else it
        named = dict.fromkeys(item.steps[k].object for item in items if item.steps[k].object)
        objects = listed(list(named), 3)
        phrases.append(
            {
                "use": f"use {of}{' as they are' if several else ' as it is'}" if k == 0
                else f"use {of}",
                "convert": f"convert {objects} of {of}",
                "clean": f"clean {objects} of {of}",
                "ask": f"ask {of} for more of {objects}",
                "apart": f"keep {of} apart",
                "exclude": f"exclude {of}",
            }[step.verb]
        )  # fmt: skip
    words = ", then ".join(phrases)
    last = items[0].verb
    if last in ("apart", "exclude"):
        # Details after a colon are on the card.
        words += f", because {items[0].reason.partition(': ')[0]}" if not several else ""
    return words


def test_words(item: Decision, reference: str) -> str:
    """Write the outcome of the test of a site, with its error rate or its power."""
    test = item.test
    if test.verdict == "cannot be tested":
        return f"cannot be tested: {test.why}"
    if item.p_value <= LEVEL:
        cause = driver_words(test)
        words = f"different from {reference}, p = {item.p_value:.2g}"
        return f"{words}, by {cause}" if cause else words
    return (
        f"not distinguishable from {reference}, p = {item.p_value:.2g}; "
        f"{detectable_words(test.detectable)}"
    )
