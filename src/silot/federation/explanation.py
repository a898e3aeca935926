"""What a policy lets askers learn at most, in plain sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .answer import BITS

if TYPE_CHECKING:
    from .policy import Limits, Policy


def sentences(policy: Policy, limits: Limits | None) -> list[str]:
    """Sentences about a policy, with figures where the limits of some data are given."""
    lines: list[str] = []
    if policy.questions is not None:
        kinds = ", ".join(sorted(policy.questions)) or "none"
        lines.append(f"Only these kinds of questions are answered: {kinds}.")
    if policy.ask:
        levels = ", ".join(sorted(policy.ask))
        lines.append(
            f"Questions of level {levels} wait until a person here approves them, and lapse after "
            "14 days."
        )
        if policy.tells_records and "record" in policy.ask:
            noisy = ", and noisy ones" if policy.privacy_epsilon == math.inf else ""
            lines.append(
                f"So do all exact answers about records{noisy}: enough of what nothing bounds "
                "gives the records."
            )
    if policy.secure is not None:
        peers = ", ".join(f"{name} ({at})" for name, at in sorted(policy.secure.peers.items()))
        lines.append(
            f"A site computes secure distances with {peers} and nobody else, and listens at "
            f"{policy.secure.listen} while one lasts."
        )
    if policy.level != "scalar" and policy.privacy_epsilon is not None:
        if math.isinf(policy.privacy_epsilon):
            lines.append("Noisy releases: without any limit, so their noise protects nothing.")
        else:
            lines.append(
                f"Noisy releases: together ({policy.privacy_epsilon:g}, "
                f"{policy.privacy_delta:g})-differentially private for each record, for ever. "
                "Whatever anybody knows, or asks later, whether a record is in the data shows "
                f"through them by a factor of at most e^{policy.privacy_epsilon:g} "
                f"(= {math.exp(min(policy.privacy_epsilon, 700.0)):.3g}), save with probability "
                f"{policy.privacy_delta:g}."
            )
    elif policy.privacy_epsilon is not None:
        lines.append(
            "Noisy releases: none of records; a secure distance with noise is charged to "
            f"({policy.privacy_epsilon:g}, {policy.privacy_delta:g})."
        )
    else:
        lines.append("Noisy releases: none.")
    if policy.tells_records:
        lines.append(
            "Exact answers: everything, the records themselves included. An asker can have every "
            "record, and nothing is counted."
        )
        return lines
    if policy.level == "sketch":
        lines.append(
            "Exact answers: none, not even the number of records; no secure distance, for its "
            "parties tell each other how many there are."
        )
        return lines
    lines.append(
        "How many records and features there are, and whether all weigh the same, is told exactly "
        "to whoever asks, whenever the data change too."
    )
    if policy.questions is not None:
        lines.append("What follows holds for the kinds of questions named above.")
    lines += _exact(policy, limits)
    lines.append(
        "Exact answers are no differential privacy. Whoever knows all other records can test with "
        "one number whether a guessed record is in the data, and narrow an unknown one down by the "
        "bits above. Only level sketch bounds what can be inferred about a person."
    )
    return lines


def _exact(policy: Policy, limits: Limits | None) -> list[str]:
    lines: list[str] = []
    if limits is not None and limits.records < policy.behind:
        return [
            f"These data count as {limits.records} records, fewer than {policy.behind}: no other "
            "exact answer will be given."
        ]
    if policy.level == "aggregate":
        held = f"one for every {policy.behind} numbers that the records hold"
        if limits is not None:
            held = f"{policy.named(limits)} numbers"
        lines.append(
            "Named statistics (moments, spread, sizes of public classes, mean random features, "
            f"averaged quantiles, from seed {policy.seed}): each kind once for ever, of the data "
            f"as they were then, {held} in all. Classes of fewer "
            f"than {policy.behind} records count as absent (how many they hold together follows "
            "from the number of records). They sum up many records; but whoever knows all records "
            "but one can narrow that one down."
        )
    else:
        lines.append("Named statistics: none.")
    lines.append(
        "Every such number, and every one below, is told as a multiple of a step that is larger "
        "than what any one record moves it by; counts are told as they are."
    )
    most = policy.numbers if limits is None else policy.chosen(limits)
    fewer = " or fewer, where the data hold less" if limits is None and most else ""
    each = "" if policy.numbers_each is None else f", {min(policy.numbers_each, most)} to one asker"
    bits = most * BITS
    lines.append(
        f"Chosen inputs (a distance to records the asker brings): {most} numbers{fewer} in all, "
        f"for ever{each}, {bits:.0f} bits of one record together. "
        "(An exact secure distance is one of them, and counts 40 bits: all its digits are opened, "
        "without any step.)"
    )
    if limits is None:
        lines.append(
            "A record of d features needs d numbers to be solved for. Give the data (--data FILE) "
            "to see how many they allow: always fewer than that."
        )
    else:
        lines.append(
            f"A record of these data needs {limits.rank} numbers to be solved for and holds about "
            f"{limits.bits:.0f} bits, so no record can be solved for from chosen numbers, not even "
            "by an asker who knows all others, unless values of a record follow from one another."
        )
    return lines
