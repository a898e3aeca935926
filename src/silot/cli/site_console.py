"""``silot site console``: a site's page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import OUT


def console_command(
    kit: Annotated[
        Path, typer.Argument(envvar="SILOT_KIT", help="The site's kit. Default: this folder.")
    ] = Path(),
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any that is free.")
    ] = 0,
) -> None:
    """Show what was asked and told in a browser of this machine, and decide on what waits."""
    from ..sites.authority import Role
    from ..sites.console import Console
    from ..sites.kit import Kit

    page = Console(Kit.load(kit, Role.SITE), port=port)
    OUT.print(
        f"Open this link in a browser on this machine. It works once:\n\n  {page.url}\n\n"
        "The page is there until you press Ctrl-C here.",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    try:
        page.serve()
    except KeyboardInterrupt:
        OUT.print("closed", highlight=False)
