"""Reports for people: one HTML file that needs nothing else, no network and no scripts."""

from .audit import render_audit, write_audit
from .html import render_report, write_report

__all__ = ["render_audit", "render_report", "write_audit", "write_report"]
