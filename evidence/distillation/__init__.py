"""Confident Sinkhorns (paper 004): one model from teachers' predictions."""
