"""Evidence: what was measured, by commands that measure it again."""
