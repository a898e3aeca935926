"""What axe, which finds faults of pages for assistive software, says of an open page."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# The package drives another browser as well; its script is all that is used here.
_PACKAGE = find_spec("axe_playwright_python")
needs_axe = pytest.mark.skipif(_PACKAGE is None, reason="axe is needed: make .venv/.dev")
_RUN = """
const done = arguments[0];
axe.run().then(r => done(r.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html])));
"""


@cache
def _script() -> str:
    assert _PACKAGE is not None and _PACKAGE.submodule_search_locations
    place = Path(_PACKAGE.submodule_search_locations[0])
    return (place / "axe.min.js").read_text(encoding="utf-8")


def axe_faults(browser: Any) -> list[Any]:
    """Return rules that the open page breaks, how often, and the first element that does."""
    browser.execute_script(_script())
    return browser.execute_async_script(_RUN)
