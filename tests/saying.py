"""Holders of tests that say what they like."""

from silot.federation import Answer, Failure, Holder, Question
from silot.federation.answer import encode_reply
from silot.federation.question import decode_question


class Saying(Holder):
    """A holder of a test, that says what ``says`` returns."""

    def says(self, question: Question) -> Answer | Failure:
        return self.answer(question)

    def reply(self, message: bytes, asker: str = "coordinator") -> bytes:
        try:
            return encode_reply(self.says(decode_question(message)))
        except Exception as error:  # noqa: BLE001 - as a holder does
            return encode_reply(Failure.of(error))


class Quiet(Saying):
    """A holder that keeps its distances to itself."""

    def says(self, question: Question) -> Answer | Failure:
        answer = self.answer(question)
        if isinstance(answer, Failure):
            return answer
        if question.kind == "distance-to":
            return Failure("policy-question", "refused")
        kept = ("distance", "distance_lower", "displacement")
        return Answer(answer.arrays, {k: v for k, v in answer.scalars.items() if k not in kept})
