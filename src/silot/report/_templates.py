"""Templates of reports."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


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
    return environment.get_template(f"{report}.html.jinja")
