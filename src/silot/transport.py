"""Optimal transport on plain arrays: the package ``silot_transport`` by its name in silot."""

from silot_transport import *  # noqa: F403
