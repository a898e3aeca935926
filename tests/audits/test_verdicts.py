"""Whatever was run: an audit says what was tried, what was not, and that silence is not safety."""

import json
import re
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import silot
from silot import Measure
from silot.api.report import render
from silot.audits.result import NEVER_TRIED, SILENCE
from silot.audits.run import ATTACKS
from silot.distances.pooled import pooled
from silot.distances.questions import Records, encode_classes
from silot.distances.worth.contributions import contributions
from silot.distances.worth.fedbary import fedbary
from silot.distillation.protocol import distill
from silot.distillation.teacher import Teacher
from silot.federation import Entry, Failure, LocalFederation, Own, Transcript
from silot.federation.answer import encode_reply
from silot.federation.question import encode_question
from silot.records.gradients import gradients
from silot.records.validation import records
from silot.teaching.divergences import divergences
from silot.teaching.federated import ModelSpec
from silot.teaching.questions import ClassFeatures, TrainModel

RNG = np.random.default_rng(3)
X, Y, Z = (RNG.normal(size=(24, 3)) + shift for shift in (0.0, 0.4, 0.8))
CLASSES = np.array(["a", "b"])[RNG.integers(2, size=24)]
REASSURING = re.compile(
    r"\b(safe|safely|secure|secured|private|protected|harmless|no risk|nothing leaks|anonymous|"
    r"passed|clean|all good|no problem|holds)\b",
    re.IGNORECASE,
)


@cache
def transcripts() -> dict[str, Transcript]:
    fed, own = LocalFederation({"x": X, "y": Y}), Own(Measure(Z))
    rng = np.random.default_rng(1)
    found = {
        name: silot.distance(X, Y, method=name, **options).transcript
        for name, options in (
            ("direct", {}), ("fedwad", {"support": 12, "rounds": 2}),
            ("trianglewad", {}), ("trianglewad", {"moments": False}),
        )
    }  # fmt: skip
    model = LogisticRegression().fit(X, CLASSES)
    teacher = LocalFederation({"x": Teacher(model.predict_proba)})
    found |= {
        "pooled": fed.run(pooled(["x", "y"], own=own, hidden=True)).transcript,
        "fedbary": fed.run(fedbary(["x", "y"], support=12)).transcript,
        "contributions": fed.run(contributions(["x", "y"], own=own)).transcript,
        "records": LocalFederation({"x": X}).run(records("x", own=own, fdr=0.0)).transcript,
        "gradients": LocalFederation({"x": X}).run(gradients("x", own=own)).transcript,
        "suspects": silot.count_broken(
            {"x": Measure(rng.normal(size=(60, 3)))}, public=rng.normal(size=(60, 3))
        ).transcript,
        "mmd": fed.run(divergences(["x", "y"], method="mmd")).transcript,
        "distill": teacher.run(distill(["x"], Y, labels=2)).transcript,
        "empty": Transcript("nothing", {}, ()),
        "unknown": Transcript("method-of-tomorrow", {}, fed.run(
            contributions(["x"], own=own)).transcript.entries),
    }  # fmt: skip
    labelled = {"x": Measure(X, labels=CLASSES), "y": Measure(Y, labels=CLASSES)}
    classes = encode_classes(["a", "b"])
    model_text = ModelSpec("logistic", (3,), 2).to_text()
    asked = (
        TrainModel(model=model_text, classes=classes, iterations=5),
        ClassFeatures(classes=classes, features=8, bandwidth=1.0),
    )
    entries: list[Entry] = []
    for round_, question in enumerate(asked):
        for name, data in labelled.items():
            told = question.compute(*data.arrays(), data.names)
            entries.append(Entry(round_, name, "sent", round_, encode_question(question)))
            entries.append(Entry(round_, name, "received", round_ + 0.5, encode_reply(told)))
    found["adapt"] = Transcript("adapt", {}, tuple(entries))
    refusal = encode_reply(Failure("policy-level", "refused"))
    found["refused"] = Transcript("direct", {}, (
        Entry(0, "x", "sent", 0.0, encode_question(Records())),
        Entry(0, "x", "received", 0.1, refusal),
    ))  # fmt: skip
    return found


# By name, so that collecting tests computes none.
NAMES = (
    "direct", "fedwad", "trianglewad", "pooled", "fedbary", "contributions", "records",
    "gradients", "suspects", "mmd", "distill", "empty", "unknown", "adapt", "refused",
)  # fmt: skip


def test_no_transcript_is_forgotten() -> None:
    assert tuple(transcripts()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_text_says_what_was_not_tried_and_reassures_nobody(name: str) -> None:
    run = transcripts()[name]
    holders = tuple(dict.fromkeys(one.holder for one in run.entries))
    for viewpoint in ("coordinator", "eavesdropper", *holders):
        for truth in ({}, {"x": X} if "x" in holders else {}):
            found = silot.audit(run, viewpoint, truth)
            told = found.to_dict()
            texts = [found.verdict, repr(found), found._repr_html_(), json.dumps(told)]
            page = re.sub(r"<style>.*?</style>", "", render(found), flags=re.DOTALL)
            for text in (*texts, page):
                plain = text.replace(SILENCE, "").replace("never that they are safe:", "")
                # The name of the level that was asked for, which is no verdict.
                plain = re.sub(r'"level": "private"|level[^a-z]{1,40}private', "", plain)
                assert not REASSURING.search(plain), REASSURING.search(plain)
                assert SILENCE in text or "<p>" in text
            assert found.verdict.endswith(SILENCE) and told["warning"] == SILENCE
            assert "tried: " in found.verdict and "not tried: " in found.verdict
            assert set(NEVER_TRIED) <= set(found.not_tried) == set(told["not_tried"])
            listed = " ".join(found.not_tried)
            for attack in ATTACKS if found.targets else ():
                assert (attack in found.tried) != (attack in re.findall(r"[\w-]+", listed))
            for target, text in found.verdicts.items():
                recovered = "recovered" in text and "not recovered" not in text
                assert recovered or "undecided" in text or "proven by the messages" in text, target


def test_level_record_without_a_hit_is_told_as_known() -> None:
    run = silot.distance(
        *np.split(RNG.normal(size=(120, 4)), 2), method="fedwad", support=6, rounds=2
    )
    found = silot.audit(run.transcript, truth={})
    assert "treat the records as disclosed" in found.verdict


def test_rates_are_none_where_nothing_was_measured() -> None:
    run = transcripts()["contributions"]
    found = silot.audit(run, "eavesdropper", {"x": X})
    assert found.exact_rates == {"x": None, "y": None}
