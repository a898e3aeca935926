"""Messages of long runs lie in a file, and are what they were."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from silot.distances.direct import direct
from silot.distances.questions import DistanceTo
from silot.federation import Answer, Entry, LocalFederation, Transcript
from silot.federation.answer import encode_reply
from silot.federation.party import Replies
from silot.federation.transcript import Spool, Stored

pytestmark = pytest.mark.all_cases


def test_messages_beyond_the_limit_are_read_back_as_they_were() -> None:
    spool = Spool(in_memory=10_000)
    rng = np.random.default_rng(0)
    messages = [rng.bytes(size) for size in (9_000, 5_000, 100, 7_000)]
    kept = [spool.keep(message) for message in messages]
    assert [isinstance(each, Stored) for each in kept] == [False, True, False, True]
    for message, each in zip(messages, kept, strict=True):
        entry = Entry(0, "a", "received", 0.0, each)
        assert entry.payload == message
        assert entry.size == len(message)
        assert each == message
        copies = (copy.deepcopy(entry), pickle.loads(pickle.dumps(entry)))
        assert all(other.payload == message for other in copies)
    assert kept[1] != kept[3]


def test_a_file_that_cannot_be_made_leaves_messages_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(**_: object) -> object:
        raise OSError

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert Spool(in_memory=0).keep(b"a" * 5_000) == b"a" * 5_000


def test_a_transcript_in_a_file_is_that_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(300, 4))
    federation = LocalFederation({"a": x[:150], "b": x[150:]})
    plain = federation.run(direct("a", "b"))
    monkeypatch.setattr("silot.federation.run.Spool", lambda: Spool(in_memory=0))
    stored = LocalFederation({"a": x[:150], "b": x[150:]}).run(direct("a", "b"))
    assert plain.transcript is not None and stored.transcript is not None
    assert isinstance(stored.transcript.entries[-1].message, Stored)
    pairs = zip(plain.transcript.entries, stored.transcript.entries, strict=True)
    assert all(one.payload == other.payload for one, other in pairs)
    assert stored.bytes_received == plain.bytes_received
    stored.transcript.save(tmp_path / "run")
    assert (
        Transcript.load(tmp_path / "run").entries[-1].payload
        == plain.transcript.entries[-1].payload
    )


def test_replies_are_kept_while_they_are_few_and_small() -> None:
    replies = Replies(most=3, size=20_000)
    computed: list[int] = []

    def ask(number: int, size: int) -> bytes:
        def compute() -> bytes:
            computed.append(number)
            return encode_reply(Answer({"cloud": np.full(size, float(number))}))

        question = DistanceTo(
            reference=np.full((1, 1), float(number)), reference_weights=np.ones(1)
        )
        return replies.reply(question.key, compute)

    assert ask(1, 1_000) == ask(1, 1_000)
    assert computed == [1]
    ask(2, 5_000)
    ask(2, 5_000)
    assert computed == [1, 2, 2]


def test_worth_does_not_load_scikit_learn() -> None:
    code = (
        "import silot, sys; silot.value_holders([[[0.0]], [[1.0]]], [[0.5]]); "
        "print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
