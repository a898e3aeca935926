"""Who may run with a kit: one process, of one copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from silot.sites import process_lock
from silot.sites.process_lock import BEAT, KitCopies

A, B = b"a" * 16, b"b" * 16


def test_of_two_copies_the_first_stays() -> None:
    now = [0.0]
    places = KitCopies(lambda: now[0])
    assert places.record("north", A) == ""
    assert places.record("south", B) == ""
    for _ in range(10):
        now[0] += BEAT
        # The other's attempts do not keep it away, nor let it in.
        assert places.record("north", B) == "kit-elsewhere"
        assert places.record("north", A) == ""


@pytest.mark.parametrize(("beats", "code"), [(0, "kit-elsewhere"), (2, "kit-elsewhere"), (4, "")])
def test_a_kit_that_moved_is_let_in_once_the_old_place_is_silent(beats: int, code: str) -> None:
    now = [0.0]
    places = KitCopies(lambda: now[0])
    places.record("north", A)
    now[0] = beats * BEAT
    assert places.record("north", B) == code


def test_a_restart_at_the_same_place_is_let_in() -> None:
    places = KitCopies(lambda: 0.0)
    assert [places.record("north", A) for _ in range(3)] == [""] * 3


def test_a_container_with_a_new_host_name_is_the_same_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Folder:
        folder, name = tmp_path, "north"

    def identified(host: str, place: str | None) -> bytes:
        monkeypatch.setattr(process_lock.socket, "gethostname", lambda: host)
        if place is None:
            monkeypatch.delenv("SILOT_PLACE", raising=False)
        else:
            monkeypatch.setenv("SILOT_PLACE", place)
        return process_lock.identify_copy(Folder())  # type: ignore[arg-type]

    assert identified("a1", None) != identified("b2", None)
    assert identified("a1", "ward") == identified("b2", "ward") != identified("a1", "other")
