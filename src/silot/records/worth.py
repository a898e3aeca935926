"""What holders are worth: the distance of their records, and how useful and faulty these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..distances.shared_options import switch
from ..distances.sides import build_misfit_error
from ..distances.worth.contributions import Valuation
from ..distances.worth.result import Contributions, Utility
from ..distances.worth.shares import rank_by_utility
from ..errors import InputError, WireError
from ..federation.answer import Answer, Failure
from ..federation.protocol import Protocol, Steps
from ..federation.question import Answerer
from .questions.judge import JudgeRecords
from .screen import Screen
from .validation import fitted

# Level of the flags behind the estimated shares of faulty records.
_FDR = 0.1
# How far gains of holders depart from what the validation records and faults predict, as a part
# of the gain of models of the validation records, and the least such gain (nats).
_DEPARTURE, _LEAST = 0.2, 0.02
# No sound gain or error is larger: shares are 1e-3 at least.
_LARGEST = 100.0
# Half the length of a 95 % interval in standard errors.
_MARGIN = 1.959964


class Worth(Valuation):
    r"""Value holders by distance, and with labels by how useful and how faulty records are.

    With labels, validation data and the method ``"target"`` every holder receives the models of
    ``silot.records``, and answers with its shares of faulty records and the gain :math:`g` of
    models of its own records. Its utility is

    .. math:: u = s\, (w g + (1 - w)\, s\, G), \qquad
              s = \Bigl(1 - \frac{\pi C}{C - 1}\Bigr)_+, \quad w = \frac{v^2}{v^2 + e^2}, \quad
              v = 0.2\, G

    with :math:`G` the gain of the coordinator's models of validation records for other ones,
    :math:`\pi` the share of faulty records, :math:`C` classes and :math:`e` the error of the gain:
    a gain measured on few validation records says less than how many records are faulty, and what
    faulty ones add counts for nothing. Ranks and shares are by utility where every holder answers.
    """

    faults: bool = switch(
        "With labels and validation data, ask every holder for the shares of its faulty records "
        "and the gain of models of its records: eleven more exact numbers. Ranks and shares are "
        'then by utility. For ``"target"``; holders see models of the validation records.',
        default=True,
        brief="With labels: also estimate utility and faulty records, from eleven more numbers.",
    )

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Contributions]:
        protocol = super().among(holders, own)
        if own is None or self.labels == "none" or self.method != "target" or not self.faults:
            return protocol

        def start() -> Steps[Contributions]:
            worth = yield from protocol.start()
            return (yield from self._judge(worth, own))

        return replace(protocol, start=start, expected_rounds=protocol.expected_rounds + 1)

    def _judge(self, worth: Contributions, own: Answerer) -> Steps[Contributions]:
        try:
            screen, _, classes = fitted(own, labels=True, seed=self.seed)
        except InputError as error:
            return worth.with_note(f"no utility: {error.message.rstrip('.')} ({error.code})")
        if screen.experts is None:
            return worth.with_note("no utility: the validation data have only one class")
        question = JudgeRecords.of(screen, classes, fdr=_FDR, seed=self.seed)
        answers = yield dict.fromkeys(worth.names, question)
        utilities: dict[str, Utility] = {}
        failed: list[str] = []
        for name in worth.names:
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                failed.append(f"{name} ({answer.code})")
                continue
            try:
                utilities[name] = read_utility(answer, screen)
            except WireError as error:
                failed.append(f"{name} ({error.code})")
        worth = rank_by_utility(worth, utilities)
        if not failed:
            return worth
        return worth.with_note(
            f"no utility of {', '.join(failed)}: ranks and shares are by distance"
        )


def read_utility(answer: Answer, screen: Screen) -> Utility:
    """Read what a holder sent of its records, and predict their utility."""
    shares = answer.array("shares", ndim=2, columns=3)
    numbers = answer.array("gain", ndim=1)
    value, low, high = shares.T
    ordered = bool(np.all((low >= 0) & (low <= value) & (value <= high) & (high <= 1)))
    if len(shares) != 3 or numbers.shape != (2,) or not ordered:
        raise build_misfit_error()
    gain, error = numbers.tolist()
    if abs(gain) > _LARGEST or not 0 <= error <= _LARGEST:
        raise build_misfit_error()
    codes, masses = screen.codes, screen.weights
    frequencies = np.bincount(codes, masses, minlength=screen.classes)
    others = screen.shares[np.arange(len(codes)), codes] - np.log(frequencies)[codes]
    best = max(float(masses @ others), _LEAST)
    chance = 1.0 - 1.0 / screen.classes
    # The part of the records that says anything: labels of chance are right by chance.
    sound = max(1.0 - float(value[2]) / chance, 0.0)
    square = (_DEPARTURE * best) ** 2
    weight = square / (square + error**2)
    expected = weight * gain + (1.0 - weight) * best * sound
    of_sound = float(high[2] - low[2]) / (2.0 * _MARGIN) / chance
    slope = expected + (1.0 - weight) * best * sound
    table: Mapping[str, tuple[float, float, float]] = {
        kind: (float(row[0]), float(row[1]), float(row[2]))
        for kind, row in zip(("label", "features", "all"), shares, strict=True)
    }
    return Utility(
        # Adding zero makes minus zero zero.
        value=sound * expected + 0.0,
        error=float(np.hypot(sound * weight**0.5 * error, slope * of_sound)),
        gain=gain,
        faulty=table,
    )
