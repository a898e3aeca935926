"""Decide what to do with the data of a site, from the evidence about it."""

from __future__ import annotations

from collections.abc import Sequence

from silot_transport import TwoSampleResult

from ...data.measure import Measure
from ...distances.verdict import detectable_words, driver_words
from ...errors import SilotError
from ...render.words import count, listed, printable
from .evidence import Evidence, missing_words, shift_of
from .result import LEVEL, Decision, Interval, Step, Verb

# Share of faulty records, at least, of a site whose data are not worth cleaning.
_MOST_FAULTY = 0.2
ORDER: tuple[Verb, ...] = ("use", "convert", "clean", "ask", "apart", "exclude")
"""Verbs in the order in which decisions are listed."""


def decide(
    item: Evidence, reference: Measure, called: str, prepared: Sequence[Step] = (),
    notes: Sequence[str] = (),
) -> Decision:  # fmt: skip
    """Decide about one site.

    Parameters
    ----------
    item
        The evidence.
    reference
        The records that sites are compared with.
    called
        What these are called.
    prepared
        What was done to the records as they were read.
    notes
        What a person should look at.
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
