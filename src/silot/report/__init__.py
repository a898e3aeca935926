"""Reports for people: one HTML file that needs nothing else, and no network."""

from .adaptation import render_adaptation, write_adaptation
from .audit import render_audit, write_audit
from .distillation import render_distillation, write_distillation
from .html import render_report, write_report
from .links import render_links, write_links

__all__ = [
    "render_adaptation",
    "render_audit",
    "render_distillation",
    "render_links",
    "render_report",
    "write_adaptation",
    "write_audit",
    "write_distillation",
    "write_links",
    "write_report",
]
