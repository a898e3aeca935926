"""Distances by secure multi-party computation: one number is opened, nothing else."""
