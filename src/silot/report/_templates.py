"""Templates of reports."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


@cache
def template(report: str) -> Template:
    """The template of a report, by its name: every value is escaped, and none may be missing."""
    environment = Environment(
        loader=PackageLoader("silot.report", ""),
        # Every template, whatever its name ends with.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = files("silot.report").joinpath("table.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The one script that a page may run: its policy names the digest.
    environment.globals.update(table_script=Markup(script), table_digest=f"sha256-{digest}")
    return environment.get_template(f"{report}.html.jinja")
