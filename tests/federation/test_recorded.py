"""A runtime of recorded replies gives what the run that made them gave, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from silot.distances import direct, trianglewad
from silot.federation import LocalFederation
from silot.federation.recorded import Recorded, Records, Unanswered, digest_of
from silot.federation.run import run

pytestmark = pytest.mark.all_cases

DATA = {"a": np.random.default_rng(0).normal(size=(30, 2)), "b": np.ones((20, 2))}


def records_of(transcript: Any) -> list[Recorded]:
    asked = {(each.round, each.holder): each.payload for each in transcript.entries
             if each.direction == "sent"}  # fmt: skip
    return [
        Recorded(each.holder, digest_of(asked[each.round, each.holder]), each.payload)
        for each in transcript.entries
        if each.direction == "received"
    ]


@pytest.mark.parametrize("method", [direct, trianglewad])
def test_a_transcript_runs_again_to_the_same_result(method: Any) -> None:
    first = LocalFederation(DATA).run(method("a", "b"))
    again = run(method("a", "b"), Records(records_of(first.transcript)))
    assert (again.value, again.bounds, again.status) == (first.value, first.bounds, first.status)
    assert (again.rounds, again.bytes_received) == (first.rounds, first.bytes_received)


def test_what_no_record_answers_is_given_back() -> None:
    found = LocalFederation(DATA).run(trianglewad("a", "b"))
    records = records_of(found.transcript)
    rounds = [each.round for each in found.transcript.entries if each.direction == "received"]
    early = [each for each, k in zip(records, rounds, strict=True) if k == 0]
    second = {
        each.holder: each.payload
        for each in found.transcript.entries
        if (each.round, each.direction) == (1, "sent")
    }
    with pytest.raises(Unanswered) as caught:
        run(trianglewad("a", "b"), Records(early))
    assert caught.value.messages == second
    first = [record for record in early if record.name == "a"]
    nobody = Recorded("b", "of another question", b"")
    with pytest.raises(Unanswered) as caught:
        run(trianglewad("a", "b"), Records([*first, nobody]))
    assert set(caught.value.messages) == {"a", "b"}
