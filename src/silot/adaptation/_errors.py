"""Errors of the network problem that callers may want to tell apart."""

from __future__ import annotations

from ..errors import InputError


class NoEligibleSource(InputError):  # noqa: N818 - says what is, as its code does
    """No device may be a source, and every target must be served.

    Give labels to a device, or allow targets without a model at a cost (``allow_unserved``).
    """
