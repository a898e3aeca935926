"""Reproductions of published figures and tables, one module each, written to docs/results."""
