"""Descriptions of questions and levels, for people who never saw a terminal."""

from __future__ import annotations

from ..federation.question import question_kinds
from ..render.words import count

KINDS = {
    "class-features": "averages of random functions of the records, class by class",
    "class-sizes": "how large each class of records is",
    "cost-parts": "how far the records are from the asker's own data, column by column",
    "count-labelled": "how many records have a label, and how wide they are",
    "count-records": "the number of records, blurred by noise",
    "count-suspects": "how many records look wrong, counted in groups and blurred by noise",
    "describe": "how many records and columns there are",
    "describe-teacher": "which labels the site's model predicts",
    "distance-to": "how far the records are from the asker's own data, as one number",
    "distance-with-error": "how far the records are from the asker's own data, how sure that "
    "number is, and for each column how far its median and its spread are from the asker's",
    "domain-errors": "how often trained models take the records for those of another site",
    "domain-scores": "how sure trained models are that records are of this site",
    "evaluate-combination": "how often a combination of models is right on the test records",
    "interpolant-costs": "all distances between points computed from the records and the asker's",
    "interpolant-distance": "how far points computed from the records are from the asker's own "
    "data, as one number",
    "interpolate": "points half way between each record and a public one",
    "interpolate-by-class": "points half way between the records and public ones, class by class",
    "judge-records": "how many of the records look faulty, and how well models of them predict the "
    "labels of the asker's own records",
    "labelled-distance-to": "how far the labelled records are from the asker's own, as one number",
    "labelled-distance-with-error": "how far the labelled records are from the asker's own, how "
    "sure that number is, for each column how far its median and its spread are from the asker's, "
    "and which classes differ",
    "labelled-records": "the records themselves, with their labels",
    "mean-features": "averages of random functions of all records",
    "moments": "the averages of all columns, and how they vary together",
    "predict": "what the site's model predicts for inputs the asker brings",
    "predict-noise": "what the site's model predicts for inputs without any content",
    "records": "the records themselves",
    "summarize-records": "how many records there are and how far they are from the asker's, "
    "blurred by noise",
    "release-predictions": "what the site's model predicts, blurred by noise",
    "score-records": "one score for every record: how far it is from the asker's own data",
    "score-models": "how well trained models predict the labels here, and where they disagree",
    "screen-records": "one score for every record: how suspect it is",
    "secure-distance": "how far the records are from another site's, computed under encryption, "
    "as one number",
    "sketch-period": "a summary of where the records of one period lie, blurred by noise",
    "sketch-records": "a summary of where the records lie, blurred by noise",
    "sketch-tree": "how many records lie in each square of a map, blurred by noise",
    "spread": "the average and the variance of every column",
    "train-alone": "how good a model is that the site trains for itself",
    "train-domain": "models trained to tell the records from those of another site",
    "train-model": "a model trained on the labelled records",
    "train-round": "a model trained further on the labelled records, and how good it was",
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
    return KINDS.get(kind, "something that this version of silot does not know")


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
