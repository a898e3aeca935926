"""Distances by secure multi-party computation: one number is opened, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .distance import secure_distance
    from .forecast import Forecast, forecast
    from .method import SECURE
    from .options import SecureOptions
    from .party import Played, play
    from .peers import Peers, make_keys

__all__ = [
    "SECURE",
    "Forecast",
    "Peers",
    "Played",
    "SecureOptions",
    "forecast",
    "make_keys",
    "play",
    "secure_distance",
]

lazily(__name__)
