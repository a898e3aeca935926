"""Descriptions of questions and levels, for people who never saw a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ..errors import reason
from ..federation.question import question_kinds
from ..render.words import count

KINDS = {
    "class-features": "averages of random functions of the records, class by class",
    "class-sizes": "the number of records in each class",
    "cost-parts": "how far the records are from the asker's own data, column by column",
    "count-labelled": "how many records have a label, and how many columns they have",
    "count-records": "the number of records, blurred by noise",
    "count-suspects": "how many records look wrong, counted in groups and blurred by noise",
    "describe": "how many records and columns there are",
    "describe-teacher": "which labels the site's model predicts",
    "distance-to": "how far the records are from the asker's own data, as one number",
    "distance-with-error": "how far the records are from the asker's own data, the error of that "
    "number, and how far the median and spread of each column are from the asker's data",
    "domain-errors": "how often trained models confuse the records with those of another site",
    "domain-scores": "how certain trained models are that records belong to this site",
    "evaluate-combination": "how often a combination of models is right on the test records",
    "interpolant-costs": "all distances of points computed from the records to the asker's points",
    "interpolant-distance": "how far points computed from the records are from the asker's own "
    "data, as one number",
    "interpolate": "points half way between each record and a public one",
    "interpolate-by-class": "points half way between the records and public ones, class by class",
    "judge-records": "how many of the records look faulty, and how well models of them predict the "
    "labels of the asker's own records",
    "labelled-distance-to": "how far the labelled records are from the asker's data, as one number",
    "labelled-distance-with-error": "how far the labelled records are from the asker's data, "
    "the error of that number, how far the median and the spread of each column are from those of "
    "the asker, and which classes differ",
    "labelled-records": "the records themselves, with their labels",
    "mean-features": "averages of random functions of all records",
    "moments": "the averages of all columns, and how they vary together",
    "predict": "what the site's model predicts for inputs of the asker",
    "predict-noise": "what the site's model predicts for inputs without any content",
    "records": "the records themselves",
    "summarize-records": "how many records there are and how far they are from the asker's own "
    "data, blurred by noise",
    "release-predictions": "what the site's model predicts, blurred by noise",
    "score-records": "one score for every record: how far it is from the asker's own data",
    "score-models": "how well trained models predict the labels here, and where they disagree",
    "screen-records": "one score for every record: how likely it is faulty",
    "secure-distance": "how far the records are from those of another site, computed under "
    "encryption, as one number",
    "sketch-period": "a summary of where the records of one period lie, blurred by noise",
    "sketch-records": "a summary of where the records lie, blurred by noise",
    "sketch-tree": "how many records lie in each square of a map, blurred by noise",
    "spread": "the average and the variance of every column",
    "train-alone": "the accuracy of a model that the site trains for itself",
    "train-domain": "models trained to distinguish the records from those of another site",
    "train-model": "a model trained on the labelled records",
    "train-round": "a model trained further on the labelled records, and its earlier accuracy",
}

LEVELS = {
    "public": "nothing about records",
    "private": "a summary blurred by noise",
    "statistics": "exact statistics, by which one can test who is in the data",
    "record": "every record",
}

# The name that ledgers keep of a noisy secure distance.
_SECURE = "secure distance"


def count_waiting(questions: int) -> str:
    """Say how many questions wait for a decision."""
    return f"{count(questions, 'question')} {'waits' if questions == 1 else 'wait'}"


def describe_question(kind: str) -> str:
    """Say what a kind of question requests."""
    return KINDS.get(kind, "something unknown to this version of silot")


def describe_release(mechanism: str) -> str:
    """Say what a release discloses, by the name that ledgers keep."""
    if mechanism == _SECURE:
        return "the distance to another site's records, computed under encryption, with noise"
    if mechanism in KINDS:
        return KINDS[mechanism]
    kinds = (
        name for name, kind in question_kinds().items() if vars(kind).get("mechanism") == mechanism
    )
    return describe_question(next(kinds, ""))


def describe_level(level: str) -> str:
    """Say a level by its name, and what it is."""
    return f"{level}: {LEVELS[level]}" if level in LEVELS else "not known"


# Seconds that a site's clock may be off, and how long before its end a certificate is renewed.
_SKEW, _SOON = 60.0, timedelta(days=30)


def describe_state(facts: dict[str, Any]) -> str:
    """Say whether a site answers, by what a check of it returned."""
    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    if facts.get("stopped"):
        return f"answers nothing: {reason(facts['stopped'])} ({facts['stopped']})"
    return "paused" if facts.get("paused") else "answers"


def describe_clock(facts: dict[str, Any]) -> str:
    """Say by how much the clock of a site is off, if it matters."""
    return f"{facts['clock']:+.0f} s off" if abs(facts["clock"]) > _SKEW else ""


def describe_schema(facts: dict[str, Any]) -> str:
    """Return name and hash of the schema by which a site reads its table, if by one."""
    schema = facts.get("schema")
    return f"{facts.get('schema_name') or ''} {schema[:8]}".strip() if schema else ""


def is_soon(until: datetime) -> bool:
    """Return whether a certificate that ends then is to be renewed."""
    return until - datetime.now(UTC) < _SOON


def warn_of_end(until: datetime) -> str:
    """Say that a certificate must be renewed, where it must."""
    return " (soon: renew it)" if is_soon(until) else ""


def describe_site(facts: dict[str, Any]) -> str:
    """Describe what a site stated of itself."""
    # Slow to import from a clone, where it is read from git.
    from .. import __version__

    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    until = datetime.fromisoformat(facts["until"])
    # Numbers of two commits may differ, as of two releases, though each reads the other's messages.
    mixed = "" if facts["silot"] == __version__ else f" (warning: this machine has {__version__})"
    parts = [f"silot {facts['silot']}{mixed}"]
    parts.append(f"certificate until {until:%Y-%m-%d}{warn_of_end(until)}")
    if clock := describe_clock(facts):
        parts.append(f"its clock is {clock}")
    if schema := describe_schema(facts):
        parts.append(f"schema {schema}")
    return "; ".join([*parts, describe_state(facts)])
