"""The verdict on two samples, or on several: how it travels, and how it reads.

A distance says how far samples are apart; the verdict says whether that is more than sampling
makes, which columns drive it, and what would have been detected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from silot_transport import ColumnChange, GroupsResult, TwoSampleResult, group_samples, two_sample
from silot_transport.resampling import distinct_records

from .. import render
from ..data.foreign import parse_json
from ..data.measure import Embedding, features_of
from ..data.preflight import Preflight
from ..federation.answer import Answer, build_malformed_error
from ..federation.question import Array, Codes, Names
from ..render.words import listed, printable

Sides = tuple[Array, Array, Names | Codes | None]

_VERDICTS = ("different", "not distinguishable", "cannot be tested")
# Columns, pairs and classes that are named, and rows of columns on a terminal.
_NAMED, _MOST_CHANGES = 5, 8
# Relative difference of weights that is rounding.
_ROUNDING = 1e-9


def compare(
    x: Sides, y: Sides, embedding: Embedding, *, permutations: int = 199, seed: int = 0
) -> TwoSampleResult:
    """Test two samples: points, weights, and labels, which count where both sides have them."""
    (points, weights, labels), (others, other_weights, other_labels) = map(_without_copies, (x, y))
    # Labels of one side alone say nothing of the other: then features are compared alone.
    labelled = labels is not None and other_labels is not None
    return two_sample(
        # Coordinates of labels depend on all records of a side; the labels themselves do not.
        features_of(points, embedding),
        features_of(others, embedding),
        x_weights=_unequal(weights),
        y_weights=_unequal(other_weights),
        x_labels=labels if labelled else None,
        y_labels=other_labels if labelled else None,
        permutations=permutations,
        seed=seed,
    )


def _without_copies(side: Sides) -> Sides:
    """Return a side without its copies: all records repeated add no information."""
    points, weights, labels = side
    codes = np.zeros(len(points), dtype=np.int64)
    if labels is not None:
        codes = np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)
    # A holder must not look more certain, or more different, by sending its table twice.
    rows = distinct_records(points, weights, codes)
    return points[rows], weights[rows], None if labels is None else labels[rows]


def compare_several(
    clouds: Sequence[tuple[Array, Array]],
    labels: Sequence[Names | None],
    embedding: Embedding,
    *,
    level: float,
    seed: int,
) -> GroupsResult:
    """Test several samples, as ``compare`` does two."""
    return group_samples(
        [features_of(points, embedding) for points, _ in clouds],
        weights=[_unequal(weights) for _, weights in clouds],
        labels=None if any(names is None for names in labels) else labels,
        level=level,
        seed=seed,
    )


def _unequal(weights: Array) -> Array | None:
    # Equal weights keep the test exact; those of a normalised table differ by rounding.
    return None if np.ptp(weights) <= _ROUNDING * weights.max() else weights


def add_verdict(answer: Answer, own: Sides, target: Sides, embedding: Embedding) -> Answer:
    """Add the verdict on a holder's records and a target to its answer, as numbers."""
    points, weights, labels = own
    # Records without weight are part of no sample.
    used = weights > 0
    mine = (points[used], weights[used], None if labels is None else labels[used])
    result = compare(mine, target, embedding)
    numbers = {
        # One array for all numbers: no name of a column, which may be a holder's own, travels.
        "p": result.p_value, "level": result.level, "n": result.sizes[0], "m": result.sizes[1],
        # A shift that no power reaches has no number.
        # Infinity does not travel: numbers on the wire are finite.
        "detectable": result.detectable if math.isfinite(result.detectable) else -1.0,
        "verdict": _VERDICTS.index(result.verdict),
    }  # fmt: skip
    changes = [
        [change.p_value, change.shift, *change.shift_interval, change.spread_ratio]
        for change in result.columns
    ]
    # Columns travel by their places; whoever asked has the names.
    place = {change.name: k for k, change in enumerate(result.columns)}
    named = {
        "drivers": [place[name] for name in result.drivers],
        "pairs": [[place[a], place[b]] for a, b in result.pairs[:_NAMED]],
        "classes": [*result.classes[:_NAMED]],
    }
    arrays = {"verdict": np.array([*numbers.values()], dtype=np.float64)}
    if changes:
        arrays["changes"] = np.nan_to_num(np.array(changes, dtype=np.float64), nan=-1.0)
    scalars = {"named": json.dumps(named), "why": result.why}
    return Answer({**answer.arrays, **arrays}, {**answer.scalars, **scalars})


def read_verdict(answer: Answer) -> TwoSampleResult | None:
    """Read the verdict that a holder added; ``None`` where it added none."""
    if "verdict" not in answer.arrays:
        return None
    # Six numbers in the order in which they were written.
    numbers = answer.array("verdict", ndim=1)
    # A holder may run other code: nothing it sends is used before it is checked.
    if numbers.shape != (6,) or not 0 <= numbers[0] <= 1 or numbers[5] not in (0.0, 1.0, 2.0):
        raise build_malformed_error("a verdict of an unknown kind")
    p, level, n, m, detectable, kind = numbers.tolist()
    changes = np.zeros((0, 5))
    if "changes" in answer.arrays:
        changes = answer.array("changes", ndim=2, columns=5)
    names = [str(k) for k in range(len(changes))]
    named = _read_names(answer, len(names))
    return TwoSampleResult(
        verdict=_VERDICTS[int(kind)],
        why=str(answer.scalars.get("why", ""))[:200],
        p_value=p,
        level=level,
        drivers=tuple(names[k] for k in named["drivers"]),
        pairs=tuple((names[a], names[b]) for a, b in named["pairs"]),
        classes=tuple(named["classes"]),
        detectable=math.inf if detectable < 0 else detectable,
        columns=tuple(
            ColumnChange(name, chance, shift, (low, high), math.nan if ratio < 0 else ratio)
            for name, (chance, shift, low, high, ratio) in zip(names, changes.tolist(), strict=True)
        ),
        sizes=(int(n), int(m)),
        histograms=(),
    )


def _read_names(answer: Answer, columns: int) -> dict[str, list[Any]]:
    try:
        named = parse_json(str(answer.scalars.get("named")), build_malformed_error)
        drivers = [int(k) for k in named["drivers"]]
        pairs = [(int(a), int(b)) for a, b in named["pairs"]]
        classes = [str(name)[:80] for name in named["classes"]]
    except (KeyError, TypeError, ValueError):
        raise build_malformed_error("a verdict without its drivers") from None
    # Names are places until the asker puts its own in.
    places = [*drivers, *(k for pair in pairs for k in pair)]
    # A place beyond the columns would end in an error of the reader, far from its cause.
    if any(not 0 <= k < columns for k in places):
        raise build_malformed_error("a verdict on columns that do not exist")
    return {"drivers": drivers, "pairs": pairs, "classes": classes}


def verdict_words(result: TwoSampleResult) -> str:
    """Write a verdict in one sentence."""
    if result.verdict == "cannot be tested":
        return f"cannot be tested: {result.why}"
    words = f"{result.verdict} (p = {result.p_value:.3g})"
    if result.verdict == "different":
        drivers = driver_words(result)
        # Where nothing single drives it the sentence ends there, and claims nothing.
        return f"{words}, driven by {drivers}" if drivers else words
    return f"{words}; {detectable_words(result.detectable)}"


def driver_words(result: TwoSampleResult) -> str:
    """Name what drives a difference, with effects; empty where it is no single thing."""
    # The clearest first; a long list would hide that most columns moved.
    shown = [_driver(result[name]) for name in result.drivers[:_NAMED]] or _causes(result)
    more = len(result.drivers) - _NAMED
    return ", ".join([*shown, *([f"{more} more columns"] if more > 0 else [])])


def _causes(result: TwoSampleResult) -> list[str]:
    """Name columns that differ; without any the pairs and classes that do."""
    if result.drivers:
        return [printable(name) for name in result.drivers]
    pairs = [f"the dependence of {printable(a)} and {printable(b)}" for a, b in result.pairs[:2]]
    return [*pairs, *(f"class {printable(name)}" for name in result.classes[:_NAMED])]


def _driver(change: ColumnChange) -> str:
    low, high = (f"{end:+.3g}" for end in change.shift_interval)
    # Effects come with their interval: a p-value does not say whether a difference matters.
    words = f"{printable(change.name)} {change.shift:+.3g} [{low}, {high}]"
    if change.shift_interval[0] <= 0 <= change.shift_interval[1]:
        # What differs is not where its values are: how far they spread says more.
        ratio = change.spread_ratio
        words += ", from one value" if math.isnan(ratio) else f", spread x {ratio:.2g}"
    return words


def detectable_words(detectable: float) -> str:
    """Write which shift would have been detected."""
    if not math.isfinite(detectable):
        return "no shift of one column would have been detected with 80 % power"
    return (
        f"a shift of {detectable:.2g} standard deviations of one column would have been "
        "detected with 80 % power"
    )


def verdict_rows(
    result: TwoSampleResult | None, preflight: Preflight | None = None
) -> dict[str, str]:
    """Return the parts of a verdict by name; findings about the tables stand before it."""
    if result is None:
        return {}
    # A wrong unit or a sentinel explains any difference: a verdict beside it would mislead.
    if preflight is not None and preflight.flags:
        return {"verdict": f"cannot be judged before {printable(preflight.where, 200)} is clear"}
    if result.verdict == "cannot be tested":
        return {"verdict": f"cannot be tested: {result.why}"}
    rows = {"verdict": f"{result.verdict}, p = {result.p_value:.3g} (level {result.level:g})"}
    if result.verdict == "different":
        # All columns may differ a little, and none enough to be named by itself.
        rows["driven by"] = driver_words(result) or "no single column: all columns together"
    # Of both verdicts: what is not seen may still be there, up to this size.
    rows["detectable"] = detectable_words(result.detectable)
    return rows


def changes_table(result: TwoSampleResult | None, most: int | None = None) -> render.Table | None:
    """Return how the columns differ, the clearest first."""
    if result is None or not result.columns:
        return None
    rows = [
        (
            change.name,
            change.p_value,
            (change.shift, change.shift_interval),
            change.spread_ratio,
            render.Cell("yes" if change.name in result.drivers else "", warn=True),
        )
        for change in sorted(result.columns, key=lambda item: item.p_value)[:most]
    ]
    columns = [
        render.names("column", 30), render.digits("p", 3), render.estimates("shift"),
        render.digits("spread x", 2), render.texts("drives it"),
    ]  # fmt: skip
    text = (
        "How the columns differ, in their own units, the clearest first; p is "
        "corrected for all columns."
    )
    if len(rows) < len(result.columns):
        text += f" These are {len(rows)} of {len(result.columns)} columns: --json has all."
    return render.Table(text, columns, rows, filter=True, most=_MOST_CHANGES)


def describe_groups(result: GroupsResult, names: Sequence[str]) -> str:
    """Write a verdict on several samples in one sentence."""
    if result.verdict == "cannot be tested":
        return f"cannot be tested: {result.why}"
    if result.k == 1:
        return (
            f"one group: holders are not distinguishable (p = {result.p_value:.3g}); of one of "
            f"them {detectable_words(result.detectable)}"
        )
    # Of all splits together: which column separates whom is in the table of splits.
    causes = dict.fromkeys(name for split in result.splits for name in _causes(split.change))
    drivers = ", ".join(list(causes)[:_NAMED])
    groups = f"{result.k} groups (p = {result.p_value:.3g})"
    return f"{groups}, driven by {drivers}" if drivers else groups


def group_rows(result: GroupsResult, names: Sequence[str]) -> dict[str, str]:
    """Return the parts of a verdict on several samples by name."""
    rows = {"verdict": describe_groups(result, names)}
    if result.k > 1:
        groups = [
            listed([printable(name) for name, code in zip(names, result.groups, strict=True)
                    if code == group], 8)
            for group in range(result.k)
        ]  # fmt: skip
        # Members by group, in the order of the groups.
        rows["who"] = "; ".join(groups)
        rows["detectable"] = f"of one holder {detectable_words(result.detectable)}"
    return rows


def pairs_of_groups(result: GroupsResult | None, names: Sequence[str]) -> render.Content:
    """Return the groups that were distinguished, with what differs between them."""
    if result is None or not result.splits:
        return None
    rows = [
        (
            *(listed([printable(names[k]) for k in side], 6) for side in (one.first, one.second)),
            one.p_value,
            one.level,
            driver_words(one.change) or "no single column",
        )
        for one in result.splits
    ]
    columns = [
        render.texts("group"), render.texts("other group"), render.digits("p", 4),
        render.digits("level", 4), render.texts("driven by"),
    ]  # fmt: skip
    return render.Table("Groups that the tests distinguish, the coarsest first.", columns, rows)
