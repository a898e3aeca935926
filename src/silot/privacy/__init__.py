"""Differentially private releases: sketches, noise, accounting and the ledger."""
