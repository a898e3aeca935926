"""The command line. One file per command group."""

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"] and "_SILOT_COMPLETE" not in os.environ:
        # Without the commands, which take long to import.
        from .. import __version__

        print(f"silot {__version__}")
        return
    # What is slow to import may be interrupted too.
    try:
        from .app import main as run
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    run()


__all__ = ["main"]
