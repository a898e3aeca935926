"""``python -m silot``."""

from .cli import main

main()
