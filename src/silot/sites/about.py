"""What a site says of itself, as an asker keeps it: short, plain, and never more than was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import WireError

_FACTS = ("schema", "schema_name", "paused", "stopped")
_LONGEST, _LONGEST_VERSION = 200, 40


@dataclass(frozen=True)
class About:
    """What a site says of itself.

    Attributes
    ----------
    name
        In its certificate.
    silot
        Its version.
    clock
        Seconds by which its clock is ahead.
    until
        When its certificate expires.
    facts
        The rest, such as the hash of its schema.
    """

    name: str
    silot: str
    clock: float
    until: datetime
    facts: Mapping[str, str | bool]

    @classmethod
    def of(
        cls,
        name: str,
        said: Mapping[str, Any],
        *,
        until: datetime,
        asked: datetime,
        answered: datetime,
    ) -> About:
        """What a site said between two moments here.

        Raises
        ------
        WireError
            It has no time.
        """
        try:
            ahead = (datetime.fromisoformat(str(said["clock"])) - asked).total_seconds()
        except (KeyError, ValueError, TypeError):
            raise WireError(
                f"what {name!r} says of itself has no time. It runs other code, or a broken one.",
                code="wire-format",
            ) from None
        facts = {key: said[key] for key in _FACTS if key in said and _plain(said[key])}
        clock = ahead - (answered - asked).total_seconds() / 2
        return cls(name, str(said.get("silot", ""))[:_LONGEST_VERSION], clock, until, facts)


def _plain(fact: object) -> bool:
    """Whether it can be shown: a site that was broken into may say anything."""
    if isinstance(fact, str):
        return len(fact) <= _LONGEST and fact.isprintable()
    return isinstance(fact, bool)


__all__ = ["About"]
