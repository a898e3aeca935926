"""The command line. One file per command group."""

import sys


def main() -> None:
    """Run the command line."""
    # What is slow to import may be interrupted too.
    try:
        from .app import main as run
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    run()


__all__ = ["main"]
