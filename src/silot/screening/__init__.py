"""Which records are broken: models of sound records that travel, and what they say of others.

``Screen.fit`` reads validation records; a ``Screen`` called with a holder's records says of each
how likely its label or its features are wrong, what its label should be, which columns do not fit,
and of which record it is a copy.
"""

from .flags import Share, flag, needed, share_above, share_broken
from .screen import FEWEST, KINDS, NAMED, Screen, Screened

__all__ = [
    "FEWEST",
    "KINDS",
    "NAMED",
    "Screen",
    "Screened",
    "Share",
    "flag",
    "needed",
    "share_above",
    "share_broken",
]
