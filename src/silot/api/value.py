"""Value holders for a target, and compute the barycenter of holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Unpack

from silot_transport._check import flag

from ..data.measure import Data
from ..distances.private import PrivateDistance
from ..distances.result import DistanceMatrix
from ..distances.sketches.release_options import Private
from ..distances.sketches.sketch import Sketching
from ..distances.worth.fedbary import FedBary
from ..distances.worth.result import Barycenter, Contributions
from ..errors import InputError, SilotError
from ..federation.accounts import Spending, prepare_release, run_private
from ..federation.parties import Holders, Parties
from ..federation.party import Own
from ..federation.result import Run
from ..federation.run import Progress
from ..options import check_known, none_or, part_options, taking, word
from ..records.worth import Worth
from ..sites.secure._engine import missing_spu
from ..teaching.federated.clustering import finest
from ._methods import Comparison
from .sketch import run_sketches

if TYPE_CHECKING:
    from ..keywords import BarycenterKeywords, ValueKeywords

MapMethod = Literal["direct", "sketch", "secure"]


@taking(FedBary, also=(Sketching, Spending), without=("embedding",))
def barycenter(
    holders: Holders,
    *,
    method: str = "fedbary",
    labels: bool | str = False,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[BarycenterKeywords],
) -> Barycenter:
    r"""Compute the barycenter: the minimiser of :math:`\sum_i \lambda_i W_2^2(P_i, Q)`.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on. Or a
        federation (as for ``distance_matrix``).
    method
        ``"fedbary"``, or ``"sketch"``: from one differentially private release of each holder.
    labels
        Find it class by class; its atoms then have labels. For data frames the name of the
        column that has the labels.
    progress
        Called after every exchange.
    **options
        With ``"sketch"`` also those of ``silot.api.sketches``.

    Returns
    -------
    Barycenter

    Raises
    ------
    InputError, MismatchError
        Data that are not measures or do not fit together, options out of range; before any
        question is sent.

    Examples
    --------
    >>> result = barycenter({"a": [[0.0], [1.0]], "b": [[4.0], [5.0]]}, support=2)
    >>> round(result.objective, 6)
    4.0
    """
    parties = Parties.of(holders, labels)
    if method == "sketch":
        own, of_release = part_options(options, "weights", "support", "rounds")
        return run_sketches(parties, progress=progress, **of_release).barycenter(**own)
    word("fedbary", "sketch").of(method, "method", "option-method")
    own = check_known(FedBary, options, "barycenter")
    protocol = FedBary(labels=bool(labels), **own).among(parties.names)
    return parties.run(protocol, progress)


@taking(Worth, Spending, also=(Sketching,), without=("embedding",))
def value_holders(
    holders: Holders,
    validation: Data | None = None,
    *,
    labels: bool | str = False,
    label_metric: str = "classes",
    map: MapMethod | None = None,
    map_options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[ValueKeywords],
) -> Contributions:
    """Return what every holder's data are worth for a target.

    Parameters
    ----------
    holders
        Data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on. Or a
        federation (as for ``distance_matrix``).
    validation
        Data of the right distribution. Without them the target is the holders' barycenter.
    labels
        As for ``barycenter``.
    label_metric
        ``"classes"``: two labels are as far apart as the records of their classes.
        ``"vectors"``: OTDD vectors.
    map
        Distances between holders, and to the target, all by one method, which the result has as
        ``between``. ``"direct"``: exact, and it discloses every record. ``"sketch"``: one
        differentially private release of each holder. ``"secure"``: on secret shares. Labels
        are then compared as vectors. With ``method="sketch"`` the sketches of the run serve.
    map_options
        Options of ``silot.api.sketches`` or ``silot.sites.secure.SecureOptions``, for such a map.
    progress
        Called after every exchange.
    **options
        With ``method="sketch"`` those of ``silot.api.sketches``; labels are then compared as
        vectors.
        With ``privacy_epsilon`` the default method is ``"private"``: one release of each holder.

    Returns
    -------
    Contributions

    Raises
    ------
    InputError, MismatchError
        As ``barycenter``.

    Examples
    --------
    >>> result = value_holders({"near": [[0.0], [1.0]], "far": [[8.0], [9.0]]}, [[0.5], [1.5]])
    >>> result.ranking[0].holder, round(result.shares["near"], 3)
    ('near', 0.938)
    """
    parties = Parties.of(holders, labels, validation)
    mapped = HolderMap(map, dict(map_options or {}), parties)
    mapped.check(options.get("method"), label_metric)
    if "privacy_epsilon" in options:
        # A budget means noise: the exact default would spend none of it.
        options.setdefault("method", "private")
    if options.get("method") == "sketch":
        shown, of_release = part_options(options, "why", "shapley")
        for name in ("why", "shapley"):
            flag(shown.get(name, False), name, f"option-{name}")
        del of_release["method"]
        result = run_sketches(parties, progress=progress, **of_release)
        return result.values(map=map is not None, **shown)
    direct = "direct" if map == "direct" else None
    if label_metric not in ("classes", "vectors"):
        raise InputError(
            f"label_metric is {label_metric!r}; give 'classes' or 'vectors'.",
            code="option-label-metric",
        )
    metric: Any = label_metric if labels else "none"
    check_known(Worth, options, "value_holders", own=Spending.options)
    spending, valuing = Spending.split(options)
    valuation = Worth(labels=metric, map=direct, **valuing)
    _check_spending(valuation, valuing, spending)
    if isinstance(valuation.between, PrivateDistance):
        prepare_release(parties, valuing, spending)
    protocol = valuation.among(parties.names, parties.own)
    result = run_private(parties, protocol, valuation, spending, progress)
    return mapped.added(result.named(parties.columns), progress)


def _check_spending(valuation: Worth, options: Mapping[str, Any], spending: Spending) -> None:
    """Raise where a budget is given for a method that adds no noise."""
    if isinstance(valuation.between, PrivateDistance):
        return
    budgets = [name for name in Private.options if name in options]
    budgets += [name for name in ("ledgers",) if spending.ledgers is not None]
    if budgets:
        raise InputError(
            f"{budgets[0]} is an option of releases, and method {valuation.method!r} has none. "
            "Give method='private' or 'sketch', or leave it out.",
            code="option-privacy",
        )


@dataclass(frozen=True)
class HolderMap:
    """How the distances of a map are found beside the worth of holders."""

    method: MapMethod | None
    options: Mapping[str, Any]
    parties: Parties

    def check(self, worth: object, label_metric: str) -> None:
        """Raise where a map cannot be made as requested, before any question is sent.

        ``worth`` is the method that values the holders.
        """
        none_or(word("direct", "sketch", "secure")).of(self.method, "map", "option-map")
        if worth == "sketch" and self.method not in (None, "sketch"):
            raise InputError(
                f"map is {self.method!r}, and with method 'sketch' the distances of a map come "
                "from the sketches, without another question. Give map='sketch'.",
                code="option-map",
            )
        apart = self.method in ("sketch", "secure") and worth != "sketch"
        if self.options and not apart:
            raise InputError(
                f"{next(iter(self.options))!r} is an option of a map by method 'sketch' or "
                "'secure'. Leave it out, or give map=.",
                code="option-map",
            )
        if apart and self.parties.own is None and self.parties.labels and label_metric == "vectors":
            raise InputError(
                f"map is {self.method!r}, and it cannot compare with a barycenter of label "
                "vectors. Give validation data, or label_metric='classes'.",
                code="option-map",
            )
        if apart:
            self._comparison(self.parties)
        if apart and self.method == "secure" and find_spec("spu") is None:
            raise missing_spu()

    def added(
        self, worth: Contributions, progress: Callable[[Progress], None] | None
    ) -> Contributions:
        """Add a map made by runs of its own, whose cost and disclosure count.

        Where they fail, the map alone is left out, and the status says so.
        """
        if self.method in (None, "direct"):
            return worth
        if len(worth.holders) < 2:
            return worth.with_note("no map of holders: a map needs two")
        parties = replace(self.parties, names=tuple(worth.names))
        if parties.own is None and worth.barycenter is not None:
            parties = replace(parties, own=Own(worth.barycenter.measure))
        steps = progress and (lambda done, of: progress(Progress("map", done, of)))
        try:
            between = self._comparison(parties, seed=worth.seed).matrix(steps)
        except SilotError as error:
            without = worth.with_note(
                f"no map of holders: {error.message.rstrip('.')} ({error.code})"
            )
            # What it disclosed and charged before it failed counts.
            run: Run | None = error.run
            return without if run is None else _with_cost(without, run)
        return _with_cost(replace(worth, between=between), between)

    def _comparison(self, parties: Parties, **options: Any) -> Comparison:
        return Comparison.of(str(self.method), parties, options={**options, **self.options})


def _with_cost(worth: Contributions, more: Run | DistanceMatrix) -> Contributions:
    """Return a result with the cost of another run added."""
    return replace(worth, **vars(worth.cost + more.cost), disclosure=finest(worth, more))
