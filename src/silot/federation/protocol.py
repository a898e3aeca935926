"""Protocols: generators that yield questions and receive answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..errors import HolderError, MismatchError, RefusedError, UnfitError, WaitingError
from .answer import WAITING, Answer, Failure
from .disclosure import Disclosure
from .message import Scalar
from .question import Answerer, Question

R = TypeVar("R")

Questions = Mapping[str, Question]
Answers = Mapping[str, Answer | Failure]
Steps = Generator[Questions, Answers, R]

COORDINATOR = "coordinator"
"""Name of the coordinator's own side in a protocol; no holder may be called so."""


@dataclass(frozen=True)
class Protocol(Generic[R]):
    """What to ask whom, as data: the same object runs on every runtime, any number of times.

    Attributes
    ----------
    name
        Name of the method.
    holders
        Names of the holders it talks to.
    disclosure
        Finest thing any of its answers discloses.
    parameters
        Options it was built with, for the record.
    start
        Makes a fresh generator: it yields questions by holder, is sent answers by holder, and
        returns the result.
    expected_rounds
        Most exchanges it will make.
    engine
        Who computes in place of questions, if holders answer none: it takes the parties, and what
        to tell a forecast to, and returns the result and its bill.
    """

    name: str
    holders: tuple[str, ...]
    disclosure: Disclosure
    start: Callable[[], Steps[R]] = field(repr=False)
    parameters: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    expected_rounds: int = 1
    engine: Callable[[Any, Callable[[Any], None] | None], tuple[R, Any]] | None = field(
        default=None, repr=False
    )

    def __post_init__(self) -> None:
        doubled = len(set(self.holders)) < len(self.holders)
        if doubled or not self.holders or COORDINATOR in self.holders:
            raise MismatchError(
                f"holders are {list(self.holders)}: distinct names are needed, none of them "
                f"{COORDINATOR!r}.",
                code="holder-names",
            )


def ask(questions: Questions, own: Answerer | None = None) -> Steps[Answers]:
    """Ask the holders, and answer the question of ``COORDINATOR`` with its own measure."""
    remote = {name: question for name, question in questions.items() if name != COORDINATOR}
    answers: dict[str, Answer | Failure] = dict((yield remote))
    if COORDINATOR in questions:
        if own is None:
            raise MismatchError("the coordinator has no measure of its own.", code="holder-names")
        answers[COORDINATOR] = own.answer(questions[COORDINATOR])
    return answers


def required(answers: Answers, name: str) -> Answer:
    """Return the answer of ``name``, or raise what its failure means."""
    answer = answers.get(name, Failure("holder-silent"))
    if isinstance(answer, Answer):
        return answer
    raise failure_error(name, answer)


_CURES = {
    "policy-level": "its policy does not allow this disclosure level. Ask the holder to raise "
    "Policy(level=...), or use a method that discloses less",
    "policy-question": "its policy does not allow this kind of question",
    "policy-records": "it has fewer records than its policy answers about",
    "policy-numbers": "it has told as many exact numbers as its policy, or its data, allow. Use "
    "method 'sketch' or 'secure', or ask its owner for Policy(numbers=...) or level='record'; "
    "`silot policy explain` says what that means",
    "policy-once": "it tells each kind of statistic once, and has told this one of other options. "
    "Use the options of the first time, or method 'sketch'",
    "policy-version": "its records are not those that its exact numbers were told of: the "
    "difference would tell single records. Use method 'sketch' or 'secure'",
    "policy-rare": "one record has so large a part of the variance along some direction that "
    "statistics of pairs of features would single it out. Use method 'sketch' or 'secure'",
    "policy-seed": "its policy tells random statistics for one public seed only. Give that seed "
    "(Policy(seed=...), by default 0)",
    "policy-budget": "its policy has no budget for differentially private releases. Ask for "
    "Policy(privacy_epsilon=...)",
    "ledger-absent": "its owner gave it no ledger to account for what it tells: "
    "Holder(..., ledger=Ledger(path))",
    "ledger-budget": "its privacy budget does not allow the release, for what was asked before is "
    "charged too. Ask its owner for a larger budget (--budget, Policy(privacy_epsilon=...)), or "
    "for a smaller privacy_epsilon, or for what was released before",
    "ledger-broken": "its ledger is broken, so nothing may be released. Its owner must see "
    "`silot ledger verify`",
    "ledger-gone": "its ledger is gone, so nothing may be told. Its owner must put it back",
    "ledger-replaced": "its ledger is another file than it was. Its owner must put the right one "
    "back",
    "ledger-older": "its ledger is an older copy than was used last. Its owner must put the newest "
    "back",
    "ledger-unknown": "its ledger was never used on that machine. Its owner must see `silot ledger "
    "trust`",
    "ledger-head": "the last row of its ledger cannot be noted, so nothing may be told",
    "answer-large": "a number is too large to be told rounded. Scale the features",
    "ledger-locked": "another process keeps its ledger locked. Try again",
    "ledger-full": "its ledger cannot be written: the disk is full",
    "ledger-disk": "its ledger cannot be written: its disk is full, or fails",
    "log-unwritable": "it cannot write down who asked what, so nothing is told: its disk is full, "
    "or may only be read",
    "data-changed": "its data were changed after it was started. Its owner must start it again",
    "ledger-read-only": "its ledger may only be read",
    "extra-privacy": "it cannot add noise: silot[privacy] is not installed there",
    "release-embedding": "releases are of records alone: label vectors depend on all records",
    "memory-short": "the problem does not fit into its memory. Take fewer records, or method "
    "'sketch'",
    "labels-disjoint": "none of its records has a label of those asked about. Write labels alike "
    "on both sides (`I21.4` is not `I214`), or compare without labels",
    "labels-absent": "its records have no labels. Leave the label option out",
    "answer-fine": "the answer would hold too many numbers for its records, which could be solved "
    "for them. Ask for fewer features, directions or quantiles, or for a larger least",
    "answer-malformed": "its answer did not have the form of one: it runs other code, or a broken "
    "one",
    "records-flagged": "all records it would train on are flagged. Leave it out, or train on all "
    "records",
    "records-few": "it has too few records, or one that weighs as much as many",
    "labels-few": "too few of its records have labels. Lower minimum_labelled, or label more",
    "evaluation-absent": "it has no evaluation records: Holder(..., evaluation=Measure(...))",
    "training-diverged": "its training diverged. Lower the rate, or scale the features",
    "extra-torch": "it cannot train this model: silot[torch] is not installed there",
    "batch-large": "it takes fewer inputs a question. Lower the batch",
    "inputs-absent": "it has no transfer set of its own: Teacher(..., inputs=...), or shared=False",
    "inputs-mismatch": "its transfer set is another one, or in another order",
    "labels-mismatch": "it has a label that is none of the label space, or one twice",
    "parts-mismatch": "its model has fewer parts, so the noise asked for is too small",
    "policy-asker": "it does not answer this asker",
    "prediction-labels": "it predicts another number of labels",
    "prediction-nan": "its predictions are not finite",
    "prediction-rows": "it gave not one prediction per input",
    "prediction-simplex": "its predictions are no probabilities. Ask it to apply softmax once",
    "size-absent": "it does not tell its size. Use other weights, or ask for Teacher(..., size=) "
    "and a policy that tells it",
    "teacher-absent": "it has records and no model",
    "teacher-question": "it has a model and no records",
    "dimension-mismatch": "its records have another number of features than the reference",
    "extra-secure": "it cannot compute on secret shares: silot[secure] is not installed there",
    "secure-addresses": "its policy names no addresses for secure distances. Ask its owner to add "
    "`secure:` with listen and peers to it",
    "secure-peer": "its policy names no address of one of the other parties. Ask its owner to add "
    "it to `secure:`",
    "secure-members": "it takes no part in a run of these parties",
    "secure-busy": "it computes another secure distance. Try again once that is over",
    "secure-again": "it took part in this run before, and was charged. Begin a run anew",
    "secure-ledger": "it has no ledger to remember the run by",
    "secure-stopped": "another party stopped",
    "secure-lost": "another party is gone",
    "secure-unreachable": "it did not reach another party. See the addresses in both policies, and "
    "the firewalls between",
    "secure-certificate": "it and another party do not trust the certificates of one another: "
    "one is of another name or project, expired or revoked",
    "secure-address": "it cannot listen at the address in its policy",
    "secure-timeout": "time was up before all parties were done",
    "secure-engine": "the engine stopped there. Take fewer records or features",
    "secure-version": "it, or another party, runs another version of silot or of the engine",
    "secure-scale": "its records are too far apart for the public scale. Agree on a larger one",
    "secure-weights": "it has weights that are too small, or unequal where noise was asked for",
    "question-waits": "somebody there must approve the question first (`silot site inbox`). Go on "
    "with the run later",
    "question-denied": "somebody there denied the question",
    "question-crowd": "too many questions of this asker wait there for a decision",
    "holder-paused": "it tells nothing for now. Go on with the run later",
    "holder-unreachable": "no message came through. See that it runs and is connected",
    "server-unreachable": "the server could not be reached. `silot deploy check` says why",
    "server-name": "the name of the server is not known here. Check DNS, or /etc/hosts",
    "server-refuses": "the server does not take the certificate of who asks: `silot deploy check`",
    "server-certificate": "who listens at the address of the server has no certificate of this "
    "project. See whose kit this is, and `silot deploy check`",
    "server-expired": "the certificate of the server is not valid now. Have the coordinator renew "
    "it (`silot deploy renew`), or set this machine's clock",
    "site-unknown": "the server knows no site of that name. Give it the newest `server.signed`",
    "certificate-authority": "a certificate is of another project: its own, or that of who asks",
    "certificate-early": "a certificate is not valid yet: its own, or that of who asks. Set the "
    "clock that is wrong",
    "certificate-expired": "a certificate expired: its own, or that of who asks. Renew it "
    "(`silot deploy sign`, then `silot site join`), or set the clock that is wrong",
    "certificate-revoked": "a certificate was revoked: its own, or that of who asks. Ask the "
    "coordinator of the project",
    "certificate-role": "a certificate is for another part: askers ask, and sites answer",
    "certificate-name": "who answers in its name has the certificate of another. Use nothing of "
    "it, and ask the coordinator of the project",
    "certificate-proof": "a message was signed by a key that is not the certificate's. Use nothing "
    "of it, and ask the coordinator of the project",
    "revocation-format": "the list of revoked certificates cannot be read, there, here or at the "
    "server. Give it anew (`silot site revoke`)",
    "silot-version": "it runs another version of silot. Install the same on all machines",
    "question-site": "the question reached another site than it was for",
    "answer-question": "it answered another question than it was asked",
    "sealed-locked": "a message was locked for keys that it, or who asks, no longer has. Ask again",
    "sealed-signature": "a message was changed or cut off on its way. Ask again",
    "wire-format": "a message was none that silot knows, or was changed on its way. Ask again",
    "site-raised": "its code raised an error; the holder's own log says more",
    "run-cancelled": "the run was cancelled before it answered",
    "holder-timeout": "it did not answer in time. Raise the timeout",
    "holder-raised": "its code raised an error; the holder's own log says more",
    "holder-silent": "it gave no answer",
}


_KINDS = {"refused": RefusedError, WAITING: WaitingError}


def cure_of(code: str) -> str:
    """What a holder's refusal or failure means, in words made on this side of the wire."""
    return _CURES.get(code, "it could not answer")


def failure_error(name: str, failure: Failure) -> HolderError:
    """The exception a failure stands for, in words made on this side of the wire."""
    error = f" ({failure.error})" if failure.error else ""
    figures = ", ".join(f"{what} {number:.4g}" for what, number in failure.numbers.items())
    message = f"holder {name!r} {failure.kind}{error}: {cure_of(failure.code)}."
    if figures:
        message += f" In figures: {figures}."
    kind = _KINDS.get(failure.kind, HolderError)
    if failure.error == MismatchError.__name__:
        # One code has one exit status, whoever finds out.
        kind = UnfitError
    made = kind(message, code=failure.code)
    made.holder = name
    return made
