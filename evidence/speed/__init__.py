"""Seconds, bytes and memory, side by side with what everybody has; printed, not written."""
