"""The command line. One file per command group."""

from .app import main

__all__ = ["main"]
