"""Options about plans."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class LinkMethod(StrEnum):
    """How a plan is found."""

    exact = "exact"
    gp = "gp"
    st_lf = "st-lf"


class MixingChoice(StrEnum):
    """What mixing several sources adds to the objective."""

    none = "none"
    variance = "variance"
    ambiguity = "ambiguity"
    mmd = "mmd"


class ObjectiveChoice(StrEnum):
    """What a plan is to be good at."""

    coverage = "coverage"
    matched = "matched"
    bound = "bound"


class ConstantsChoice(StrEnum):
    """Rademacher constants of the bounds."""

    none = "none"
    natural = "natural"
    log10 = "log10"


MethodOption = Annotated[
    LinkMethod,
    typer.Option(
        "--method", "-m", help="Proven optimum, the paper's own solver, or all as published."
    ),
]
MixingOption = Annotated[
    MixingChoice, typer.Option(help="What mixing several sources adds to the objective.")
]
PhiOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option(help="Scales of training, transfer and energy.", metavar="S T E"),
]
ConstantsOption = Annotated[
    ConstantsChoice | None, typer.Option(help="Constants of the error bounds.")
]
UnservedOption = Annotated[
    float | None, typer.Option(min=0, help="Let targets go unserved, at this cost each.")
]
TimeOption = Annotated[float, typer.Option(help="Most seconds of the solver.")]
GapOption = Annotated[
    float, typer.Option(min=0, help="Relative gap to the bound that is good enough.")
]
