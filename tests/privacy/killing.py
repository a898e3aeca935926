"""A server that forks holders which release until they are killed; imported once, forked often.

Standard input says ``go SEED``; standard output says the child's process id, then how it ended.
Answers go to the pipe whose number is the second argument, one write each: a write as short as
that arrives whole or not at all, also from a process that is being killed.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from pathlib import Path

import numpy as np

from silot import Holder, Measure, Policy
from silot.federation import Answer
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.privacy import Ledger
from silot.privacy.mechanism import add_noise

from .toys import ToyHistogram, known

# So little that 200 lives on a fast machine do not come to the end of the budget.
MU, BUDGET_EPSILON, DELTA = 0.004, 4.0, 1e-5
QUESTIONS = 100_000
RECORDS = np.random.default_rng(1).uniform(size=(50, 2))
FRAME = struct.Struct("<IdI")


def question(number: int) -> ToyHistogram:
    return ToyHistogram(privacy_mu=MU, nonce=number)


def policy() -> Policy:
    return Policy(level="sketch", privacy_epsilon=BUDGET_EPSILON, privacy_delta=DELTA)


def release(path: Path, answers: int, seed: int) -> None:
    """Answer questions, old ones now and then, until the budget is spent (or for ever)."""
    draw = random.Random(seed)
    with Ledger(path) as ledger:
        holder = Holder(Measure(RECORDS), policy(), ledger)
        refused = 0
        while refused < 5:
            number = draw.choice([draw.randrange(QUESTIONS), draw.randrange(20)])
            reply = decode_reply(holder.reply(encode_question(question(number))))
            if not isinstance(reply, Answer):
                assert reply.code == "ledger-budget", reply
                refused += 1
                continue
            counts = reply.arrays["counts"].tobytes()
            charged = float(str(reply.scalars["charged_mu"]))
            os.write(answers, FRAME.pack(number, charged, len(counts)) + counts)


def serve(path: Path, answers: int) -> None:
    # What is slow the first time is done once, before any fork.
    _ = policy().budget_mu
    add_noise(np.zeros(1, dtype=np.int64), 1.0, 1.0)
    known()
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                release(path, answers, int(line.split()[1]))
                status = 0
            finally:
                os._exit(status)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
