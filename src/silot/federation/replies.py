"""What a party replied last: asked again, it says the same without computing it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable


class Replies:
    """The last replies of a party that tells everything.

    Parameters
    ----------
    most
        How many are kept.
    size
        Bytes of those that are kept together: a hundred parties of one process share its memory.
    """

    def __init__(self, most: int, size: int) -> None:
        self._most = most
        self._size = size
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def reply(self, key: str, compute: Callable[[], bytes]) -> bytes:
        """The reply given before, or a new one."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        reply = compute()
        with self._lock:
            self._kept[key] = reply
            held = sum(map(len, self._kept.values()))
            while len(self._kept) > self._most or held > self._size:
                held -= len(self._kept.popitem(last=False)[1])
        return reply


__all__ = ["Replies"]
