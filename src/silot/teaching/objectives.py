"""What a plan is to be good at: one object for each objective."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, get_args

import numpy as np

from ..errors import InputError
from ..federation.answer import Array
from ..options import anything, none_or, option, word
from .costs import LinkCosts
from .coverage import solve_coverage
from .plan import LinkPlan
from .pricing import PHI, Costs

Objective = Literal["coverage", "matched", "bound"]

# What a link of mean energy must lower the expected error by.
_LINK = 1e-3
# Share of the energy of all links, about that of the paper's table I.
_BUDGET = 0.275


class Choosing(Costs):
    """What a plan is to be good at."""

    objective: Objective | None = option(
        '``"coverage"``, the default: every class of a target by a source that knows it, within '
        '``budget`` (``adaptation.solve_coverage``). ``"matched"``: the paper\'s objective with '
        'expected errors of ``adaptation.match`` for :math:`T_{ij}`. ``"bound"``: the paper\'s '
        "objective with its eq. 17 and 18.",
        none_or(word(*get_args(Objective))),
        default=None,
        brief="Every class of a target taught, errors matched, or the paper's bound. Default: "
        "coverage, or bound with --method st-lf.",
    )
    budget: float | Literal["auto"] | None = option(
        'For ``"coverage"``: largest share of the energy of all links; one link a target is '
        'always allowed. ``None`` for no limit. ``"auto"`` is .275, about what the paper\'s plans '
        "use, or two links a target where no more than three devices can be sources.",
        anything("float, 'auto' or None", float),
        default="auto",
        brief="For coverage: share of the energy of all links. Default: 0.275, or two links a "
        "target where three devices or fewer have labels.",
    )

    def fit(self) -> None:
        super().fit()
        self.aim.check(self)

    @property
    def aim(self) -> Aim:
        """The objective as an object; ``"coverage"`` where none was given."""
        return AIMS[self.objective or "coverage"]

    def default_phi(self, energy: Array) -> tuple[float, float, float]:
        return self.aim.phi(energy)

    def budget_of(self, sources: int) -> float | None:
        """Largest share of the energy of all links, when so many devices may be sources."""
        if isinstance(self.budget, str) and self.budget != "auto":
            raise InputError(
                f"budget is {self.budget!r}; give a share above 0, 'auto' or None.",
                code="option-budget",
            )
        if self.budget != "auto":
            return self.budget
        # A share of few links is less than two of them, and classes need more than one.
        return _BUDGET if sources > 3 else min(1.0, 2.0 / sources)


class Aim:
    """An objective: here the paper's, with expected errors in place of bounds."""

    name: ClassVar[str] = "matched"
    estimates: ClassVar[bool] = True
    """Whether class proportions and errors at targets are estimated."""
    useless: ClassVar[tuple[str, ...]] = ("budget", "constants", "delta", "unlabelled_error")

    def check(self, options: Choosing) -> None:
        """Raise where options are out of range, or the objective has no use for them."""
        for name in self.useless:
            if getattr(options, name) not in _UNUSED[name]:
                users = " or ".join(k for k, aim in AIMS.items() if name not in aim.useless)
                raise InputError(
                    f"objective={self.name!r} has no use for {name}. Leave it out, or give "
                    f"objective={users}.",
                    code="option-objective",
                )
        self.try_out(options)

    def try_out(self, options: Choosing) -> None:
        """Solve a network of two: whatever the solver has against the options, it says now."""
        self.solve(options, options.toy())

    def phi(self, energy: Array) -> tuple[float, float, float]:
        """Scales where none are given: the paper's."""
        return PHI

    def solve(self, options: Choosing, costs: LinkCosts) -> LinkPlan:
        """The plan that is best at these costs."""
        return options.solve(costs)


class Coverage(Aim):
    """Every class of a target by a source that knows it; energy counts in that of a mean link."""

    name = "coverage"
    useless = ("method", "constants", "delta", "unlabelled_error")

    def check(self, options: Choosing) -> None:
        if options.mixing != "none":
            raise InputError(
                "objective='coverage' has its own reason to mix sources. Leave mixing out, or give "
                "objective='matched'.",
                code="option-mixing",
            )
        super().check(options)

    def try_out(self, options: Choosing) -> None:
        toy = options.toy()
        if options.allow_unserved is not None:
            raise InputError(
                "objective='coverage' serves every target. Leave allow_unserved out.",
                code="option-unserved",
            )
        shares, errors = np.ones((2, 1)), np.ones((2, 2, 1))
        solve_coverage(
            replace(toy, shares=shares, class_errors=errors), budget=options.budget_of(2)
        )

    def phi(self, energy: Array) -> tuple[float, float, float]:
        finite = energy[np.isfinite(energy) & ~np.eye(len(energy), dtype=bool)]
        mean = float(finite.mean()) if len(finite) else 0.0
        return 0.0, 1.0, _LINK / mean if mean > 0 else 0.0

    def solve(self, options: Choosing, costs: LinkCosts) -> LinkPlan:
        return solve_coverage(
            costs,
            budget=options.budget_of(int(costs.eligible.sum())),
            time_limit=options.time_limit,
            gap=options.gap,
        )


class Bound(Aim):
    """The paper's objective, with its bounds."""

    name = "bound"
    estimates = False
    useless = ("budget",)


AIMS: dict[str, Aim] = {aim.name: aim for aim in (Coverage(), Aim(), Bound())}

# Values that say nothing.
_UNUSED: dict[str, tuple[object, ...]] = {
    "method": ("exact",),
    "budget": ("auto",),
    "constants": (None, "none"),
    "delta": (0.1,),
    "unlabelled_error": (1.0,),
}
