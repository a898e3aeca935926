"""Audits: what a party of a run could compute from what it saw."""
