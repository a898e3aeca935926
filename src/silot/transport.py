"""Optimal transport on plain arrays: the package ``silot_transport`` by its name in silot."""

from silot_transport import *  # noqa: F403
from silot_transport import __all__ as __all__
