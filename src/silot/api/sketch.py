"""Sketches of data the caller owns, through a local federation with ledgers in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..data.columns import matched
from ..data.measure import Covariance, Data, Embedding, Measure
from ..distances.pairwise import check_asked
from ..distances.result import Distance, DistanceMatrix
from ..errors import FileError, InputError, MismatchError, RefusedError
from ..federation.local import LocalFederation, Progress
from ..federation.party import Holder, Own
from ..federation.policy import Policy
from ..federation.protocol import COORDINATOR, Protocol
from ..federation.result import Run
from ..options import check_known
from ..privacy.accounting import ROUNDING, compose, epsilon_of, mu_of
from ..privacy.ledger import Ledger
from ..sketch.methods import Sketch
from ..sketch.result import Sketches
from ..sketch.sketch import sketches as sketches_of
from ..transport._check import flag, real
from ..value.result import Contributions
from ._holders import checked_measures, column_names, measure_named, named_holders, unreserved

EPSILON, DELTA = 1.0, 1e-5


def sketches(
    holders: Mapping[str, Data] | Sequence[Data],
    validation: Data | None = None,
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Sketches:
    """One differentially private release of every holder, and all that follows from it.

    Parameters
    ----------
    holders
        Measures, arrays or data frames by name; a sequence is named ``"0"``, ``"1"`` and so on.
    validation
        Data of the coordinator, to value holders by; no noise is added to them.
    labels, covariance
        Whether to sketch class by class (for data frames the name of the column that has the
        labels), and the covariance block of the OTDD vectors that distances then compare. Class
        names must be public: those of ``public``, or ``classes``.
    progress
        Called after every exchange.
    **options
        Options of ``silot.sketch.sketches``: ``public`` (or ``public_mean`` and
        ``public_scale``), ``privacy_epsilon``, ``privacy_delta``, ``size``, ``cells``,
        ``classes``, ``mass_limit`` and ``seed``. And ``ledgers``: a folder with a durable
        ledger for each holder, ``NAME.ledger``, that the release is charged to, and refused when
        all releases together would exceed ``budget_epsilon`` (default 1). Without it nothing
        remembers the run, and what several runs spend adds up.

    Returns
    -------
    Sketches
        ``distance``, ``matrix``, ``barycenter``, ``values`` and ``clusters`` spend nothing more.

    Raises
    ------
    InputError, MismatchError
        Data that are no measures or do not fit together, options out of range, too few records.
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(400, 2)), rng.normal(size=(4500, 2))
    >>> found = sketches(
    ...     {"a": x[:1500], "b": x[1500:3000], "c": x[3000:] + 5.0}, public=public
    ... )
    >>> found.clusters(2)
    {'a': 0, 'b': 0, 'c': 1}
    """
    check_known(sketches_of, options, "sketches", own=("ledgers", "budget_epsilon"))
    named = named_holders(holders)
    own = None
    if validation is None:
        measures = checked_measures(unreserved(named), labels)
    else:
        measures = checked_measures({**unreserved(named), COORDINATOR: validation}, labels)
        own = Own(measures.pop(COORDINATOR))
    return run_sketches(
        measures, own=own, labels=labels, covariance=covariance, progress=progress, **options
    )


def run_sketches(
    measures: dict[str, Measure],
    *,
    own: Own | None = None,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    ledgers: str | Path | None = None,
    budget_epsilon: float = 1.0,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Sketches:
    """Sketch measures that were checked."""
    protocol = _protocol(measures, own, labels, covariance, options)
    delta = options.get("privacy_delta", DELTA)
    if ledgers is None:
        found = LocalFederation(measures).run(protocol, progress=progress)
        return replace(found, columns=column_names(measures))
    policy = budget_policy(budget_epsilon, delta)
    kept = ledgers_of(measures, ledgers)
    mu = mu_of(options.get("privacy_epsilon", EPSILON), delta)
    for name, question in next(protocol.start()).items():
        # All of the run or none of it: a count alone would be charged, and serve nothing.
        if kept[name].find(question.key) is None:
            check_budget(name, kept[name].spent, mu, policy.budget_mu or 0.0, delta)
    holders = {name: Holder(each, policy, kept[name]) for name, each in measures.items()}
    found = LocalFederation(holders).run(protocol, progress=progress)
    return replace(found, columns=column_names(measures))


def check_sketches(
    measures: dict[str, Measure],
    *,
    labels: bool | str = False,
    ledgers: str | Path | None = None,
    budget_epsilon: float = 1.0,
    **options: Any,
) -> None:
    """Raise where ``run_sketches`` would for its options, and ask nobody anything."""
    _protocol(measures, None, labels, "diagonal", options)
    if ledgers is not None:
        budget_policy(budget_epsilon, options.get("privacy_delta", DELTA))
        ledgers_of(measures, ledgers)


def _protocol(
    measures: dict[str, Measure],
    own: Own | None,
    labels: bool | str,
    covariance: Covariance,
    options: dict[str, Any],
) -> Protocol[Sketches]:
    check_masses(measures, options.get("mass_limit"))
    check_asked(Sketch, options)
    if options.pop("p", 2) != 2:
        raise InputError("sketches tell W2 only. Give p=2.", code="option-p")
    if options.get("public") is not None:
        column = labels if isinstance(labels, str) and options.get("classes") is None else None
        options["public"] = public_of(options["public"], column, measures)
    embedding: Embedding = covariance if labels else "none"
    return sketches_of(list(measures), own=own, embedding=embedding, **options)


def public_of(public: Data, labels: str | None, measures: Mapping[str, Measure]) -> Measure:
    """Public records with their features in the order of the holders'."""
    name = "public records"
    found = measure_named(name, public, labels)
    matched({**measures, name: found})
    first, measure = next(iter(measures.items()))
    if found.dimension != measure.dimension:
        raise MismatchError(
            f"{first!r} has {measure.dimension} features and the public records have "
            f"{found.dimension}. Give both the same features.",
            code="dimension-mismatch",
        )
    order = next((each.columns for each in measures.values() if each.columns), None)
    return found if order is None else found.ordered(order)


def run_sketch_distance(
    measures: dict[str, Measure], *, why: bool = False, **options: Any
) -> Distance:
    """Distance of two measures that were checked, with the bill of the run."""
    flag(why, "why", "option-why")
    found = run_sketches(measures, **options)
    assert found.transcript is not None
    return found.distance(*found.names, why=why).with_run(
        Run(
            found.rounds,
            found.bytes_sent,
            found.bytes_received,
            found.seconds,
            found.disclosure,
            found.transcript,
            found.privacy_mu,
        )
    )


def run_sketch_matrix(
    measures: dict[str, Measure], *, own: Own | None = None, why: bool = False, **options: Any
) -> DistanceMatrix:
    """Distances between all pairs of measures that were checked, from one release of each."""
    flag(why, "why", "option-why")
    return run_sketches(measures, own=own, **options).matrix(own=own is not None, why=why)


def run_sketch_values(
    measures: dict[str, Measure],
    *,
    why: bool = False,
    map: bool = False,
    shapley: bool = False,
    **options: Any,
) -> Contributions:
    """Worth of measures that were checked, from one release of each."""
    flag(why, "why", "option-why")
    flag(shapley, "shapley", "option-shapley")
    return run_sketches(measures, **options).values(why=why, map=map, shapley=shapley)


def check_budget(name: str, spent: float, asked: float, budget: float, delta: float) -> None:
    """Raise where a ledger does not allow what is asked."""
    if compose([spent, asked]) <= budget * (1 + ROUNDING):
        return
    left = max(budget**2 - spent**2, 0.0) ** 0.5
    figures = ", ".join(
        f"{word} epsilon {epsilon_of(mu, delta):.4g}"
        for word, mu in (("spent", spent), ("asked", asked), ("left", left))
    )
    raise RefusedError(
        f"the ledger of {name!r} does not allow the run ({figures}), and nothing was charged. Give "
        "a larger budget or a smaller privacy_epsilon, or ask what was told before.",
        code="ledger-budget",
    )


def budget_policy(epsilon: float, delta: float) -> Policy:
    """Rules under which releases alone are told, up to a budget."""
    if not real(epsilon, "budget_epsilon", "option-budget") > 0:
        raise InputError(
            f"budget_epsilon is {epsilon!r}; a number above 0 is needed.", code="option-budget"
        )
    return Policy(level="sketch", privacy_epsilon=epsilon, privacy_delta=delta)


def ledgers_of(measures: Mapping[str, Measure], folder: str | Path) -> dict[str, Ledger]:
    """Ledgers on the disk that releases are charged to, one file for each holder."""
    if set(measures) == {str(k) for k in range(len(measures))} or "/" in "".join(measures):
        # A name that depends on who else is in the run would find another holder's ledger.
        raise InputError(
            f"a ledger needs a name of its own for each holder; these are {', '.join(measures)}. "
            "Give names (in Python a mapping, on the command line files of different names).",
            code="option-ledgers",
        )
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}). Give a folder for ledgers.",
            code="file-unwritable",
        ) from None
    return {name: Ledger(place / f"{quote(name, safe='')}.ledger") for name in measures}


def check_masses(measures: Mapping[str, Measure], mass_limit: object) -> None:
    """Raise where weights differ and what a record counts for is not bounded publicly.

    Only for data the caller owns: a holder bounds its weights and says nothing.
    """
    for name, measure in measures.items():
        above = isinstance(mass_limit, int | float) and float(measure.masses.max()) > mass_limit > 0
        if above or (mass_limit is None and measure.weighted):
            raise InputError(
                f"the records of {name!r} have weights"
                + (" above mass_limit" if above else "")
                + ". Give mass_limit=, the largest weight a record may have: one that is public.",
                code="sketch-weights",
            )
