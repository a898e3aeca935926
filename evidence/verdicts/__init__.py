"""Verdicts of all kinds: false alarms, power beside peers, columns named, detectable shifts."""
