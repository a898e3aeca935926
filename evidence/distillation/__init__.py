"""Confident Sinkhorns: one model from teachers' predictions."""
