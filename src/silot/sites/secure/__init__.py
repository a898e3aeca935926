"""Distances by secure multi-party computation: one number is opened, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .forecast import Forecast, forecast
    from .method import Secure
    from .options import SecureOptions
    from .party import Played, play
    from .peers import Peers, make_keys

__all__ = [
    "Forecast",
    "Peers",
    "Played",
    "Secure",
    "SecureOptions",
    "forecast",
    "make_keys",
    "play",
]

lazily(__name__)
