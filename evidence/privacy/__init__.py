"""Sketches, releases and audits: our own tables, no paper has them."""
