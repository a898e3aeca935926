"""Faulty records, and what holders are worth that have them: tables that chose nothing."""
