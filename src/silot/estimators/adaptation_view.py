"""What is shown of what an adapter found."""

from __future__ import annotations

from ..render import Content, Headline, Table, digits, facts, names, numbers, shares, texts
from .adaptation import DomainChange

_MOST = 8
_VERDICTS = {
    "none": "No change: what differs is within chance",
    "classes": "Other shares of the classes explain the target",
    "units": "Other units of the columns, and shares of the classes, explain the target",
    "transport": "Nothing less explains the target: each record was moved to its image there",
    "unexplained": "Neither shares nor units explain the target: nothing was changed",
}


def adaptation_content(result: DomainChange) -> Content:
    """Declare what explains the target, and how."""
    verdict = _VERDICTS[result.change]
    steps = [
        (step.change, step.distance, step.p_value, "explains" if step.explains else "")
        for step in result.steps
    ]
    classes = [(name, *ends) for name, ends in result.shares.items()]
    order = sorted(result.scale, key=lambda name: -abs(result.scale[name] - 1.0))
    units = [(name, result.scale[name], result.offset[name]) for name in order]
    return [
        Headline("How does the target differ?", f"{verdict}."),
        facts({}, terminal={"verdict": verdict}),
        Table(
            "What was tried: how far the source so changed is from the target, and the chance of a "
            "difference as clear.",
            [texts("change"), numbers("W2"), digits("p", 3), texts("")],
            steps,
        ),
        Table(
            "Shares of the classes.",
            [names("class", 30), shares("source"), shares("target")],
            classes,
        )
        if result.change in ("classes", "units", "transport")
        else None,
        Table(
            "Target from source, column by column.",
            [names("column", 30), numbers("times"), numbers("plus")],
            units,
            most=_MOST,
        )
        if result.change == "units"
        else None,
    ]
