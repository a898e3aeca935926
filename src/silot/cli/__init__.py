"""The command line. One file per command group."""

from .app import app, main

__all__ = ["app", "main"]
