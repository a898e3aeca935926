"""Who may have one more connection with the server: nobody locks anybody out."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lazily import package
from tests.tiers import examples

lines = package("silot.sites.lines", needs="nvflare")

MOST, MOST_OF_MEMBER = 6, 3


class Line:
    """A connection that is idle or not."""

    def __init__(self, member: str, idle: bool) -> None:
        self.member, self.idle, self.code = member, idle, ""

    def end(self, code: str) -> None:
        assert not self.code
        self.code = code


arrivals = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=40)


@settings(max_examples=examples(200), deadline=None)
@given(arrivals)
def test_limits_hold_and_nobody_is_locked_out(arrivals: list[tuple[str, bool]]) -> None:
    kept: Any = lines.Lines(MOST, MOST_OF_MEMBER)
    came, refused = list[Line](), 0
    for member, idle in arrivals:
        line, before = Line(member, idle), list(kept)
        counts = Counter(other.member for other in before)
        is_admitted = kept.admit(line)
        ended = [other for other in before if other.code]
        came.append(line)
        refused += not is_admitted
        now = list(kept)
        assert len(now) <= MOST
        assert max(Counter(other.member for other in now).values()) <= MOST_OF_MEMBER
        assert (line in now) is is_admitted and len(ended) <= 1
        is_full = counts[member] >= MOST_OF_MEMBER or len(before) >= MOST
        if not is_full:
            assert is_admitted and not ended
        for victim in ended:
            assert victim.code == "server-full" and victim not in now
            # One in use gives way to a member with fewer alone, and only where none is idle.
            assert victim.idle or (
                not any(other.idle for other in before)
                and counts[victim.member] == max(counts.values()) > counts[member] + 1
            )
            # Another one never makes room for a member that has its share.
            assert counts[member] < MOST_OF_MEMBER or victim.member == member
        if not is_admitted:
            assert is_full and not ended
            # Those that count for the limit are all in use, and no member has more.
            if counts[member] < MOST_OF_MEMBER:
                assert max(counts.values()) <= counts[member] + 1
    assert kept.full == refused + sum(bool(line.code) for line in came)
