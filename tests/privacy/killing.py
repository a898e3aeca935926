"""A server that forks holders which answer until they are killed; imported once, forked often.

Standard input says ``go SEED``; standard output says the child's process id, then how it ended.
Answers go to the pipe whose number is the second argument, one write each: a write as short as
that arrives whole or not at all, also from a process that is being killed.
"""

from __future__ import annotations

import hashlib
import os
import random
import struct
import sys
import traceback
from pathlib import Path

import numpy as np

from silot import Measure, Policy
from silot.distances.questions import DistanceTo, Moments, Records
from silot.federation import Answer, Holder, Question
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.privacy import Ledger
from silot.privacy.mechanism import add_noise
from silot.teaching.questions import MeanFeatures

from .toys import ToyHistogram, known

# So little that 200 lives on a fast machine do not come to the end of the budget.
MU, BUDGET_EPSILON, DELTA = 0.004, 4.0, 1e-5
QUESTIONS = 100_000
RECORDS = np.random.default_rng(1).uniform(size=(60, 200))
NAMED = (MeanFeatures, Moments)
FRAME = struct.Struct("<IdI")


def question(number: int) -> Question:
    """Of any kind: releases, exact statistics, and what is refused."""
    kind = number % 4
    if kind == 1:
        atoms = np.random.default_rng(number).uniform(size=(3, RECORDS.shape[1]))
        return DistanceTo(reference=atoms, reference_weights=np.full(3, 1 / 3))
    if kind == 2:
        features = MeanFeatures(features=8, bandwidth=1.0, seed=0)
        return (features, Moments(), Records())[number // 4 % 3]
    return ToyHistogram(privacy_mu=MU, nonce=number)


def policy() -> Policy:
    # A policy names kinds of questions that there are.
    known()
    return Policy(
        level="statistics",
        questions=[DistanceTo.kind, *(kind.kind for kind in NAMED), ToyHistogram.kind],
        privacy_epsilon=BUDGET_EPSILON,
        privacy_delta=DELTA,
    )


def release(path: Path, answers: int, seed: int) -> None:
    """Answer questions, old ones now and then, until little is left (or for ever)."""
    draw = random.Random(seed)
    with Ledger(path) as ledger:
        holder = Holder(Measure(RECORDS), policy(), ledger)
        refused = 0
        while refused < 5:
            number = draw.choice([draw.randrange(QUESTIONS), draw.randrange(20)])
            reply = decode_reply(holder.reply(encode_question(question(number))))
            if not isinstance(reply, Answer):
                assert reply.code in ("ledger-budget", "policy-question"), reply
                refused += reply.code == "ledger-budget"
                continue
            told = b"".join(array.tobytes() for _, array in sorted(reply.arrays.items()))
            told = told or repr(reply.scalars["distance"]).encode()
            charged = float(str(reply.scalars.get("charged_mu", 0.0)))
            # Short, or a kill in the middle of a write would leave a part of it in the pipe.
            told = hashlib.sha256(told).digest()
            os.write(answers, FRAME.pack(number, charged, len(told)) + told)


def serve(path: Path, answers: int) -> None:
    # What is slow the first time is done once, before any fork.
    _ = policy().budget_mu
    add_noise(np.zeros(1, dtype=np.int64), 1.0, 1.0)
    known()
    warm = Holder(Measure(RECORDS), policy(), Ledger())
    for number in range(8):
        warm.answer(question(number))
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                release(path, answers, int(line.split()[1]))
                status = 0
            except Exception:  # noqa: BLE001 - whatever it is, the child ends and says it
                traceback.print_exc()
            finally:
                os._exit(status)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
