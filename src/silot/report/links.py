"""The report of a plan: who teaches whom."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..adaptation.costs import LinkCosts
from ..adaptation.network import Network
from ..errors import MismatchError
from ..files import write_whole
from ..results import LinkPlan
from ._link_sections import Known, plan_parts, plan_summary
from ._sections import Summary
from ._templates import template
from ._words import printable

_TITLE = "Who can teach whom"


def render_links(
    plan: LinkPlan,
    costs: LinkCosts,
    *,
    network: Network | None = None,
    title: str = _TITLE,
) -> str:
    """Make the report of a plan as the text of one HTML file.

    The file needs nothing beside itself: no network, no scripts, no fonts. The same plan gives
    the same text.

    Parameters
    ----------
    plan
        Who teaches whom.
    costs
        The costs the plan was made for.
    network
        The devices the costs were made from. It adds counts of records, errors and divergences,
        and energy is then in joule.
    title
        Heading of the report.

    Returns
    -------
    str
        The HTML file.

    Raises
    ------
    MismatchError
        ``report-links``: plan, costs and network are not of the same devices.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.adaptation.costs import LinkCosts
    >>> from silot.results import LinkPlan, LinkTerms
    >>> costs = LinkCosts(source=[1, 9], transfer=[[0, 1], [1, 0]], energy=[[0, 2], [2, 0]])
    >>> plan = LinkPlan(names=("0", "1"), psi=np.array([0, 1]), alpha=np.array([[0.0, 1], [0, 0]]),
    ...                 objective=8.0, terms=LinkTerms(1.0, 5.0, 2.0), lower_bound=8.0, gap=0.0,
    ...                 status="proven optimal", optimal=True, seconds=0.0, method="exact",
    ...                 energy=2.0)
    >>> "1 device trains (0) and 1 receives a model, over 1 link." in render_links(plan, costs)
    True
    """
    _check(plan, costs)
    known = Known(phi=costs.phi) if network is None else _known(network, plan, costs)
    return page(title, plan, costs, known, plan_summary(plan, costs, known))


def write_links(
    path: str | Path,
    plan: LinkPlan,
    costs: LinkCosts,
    *,
    network: Network | None = None,
    title: str = _TITLE,
) -> None:
    """Write the report of a plan to one HTML file, whole or not at all.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    plan, costs, network, title
        As for ``render_links``.

    Raises
    ------
    MismatchError
        As for ``render_links``; nothing is written.
    FileError
        The folder is missing or not writable, or the disk is full.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from silot.adaptation.costs import LinkCosts
    >>> from silot.results import LinkPlan, LinkTerms
    >>> costs = LinkCosts(source=[1, 9], transfer=[[0, 1], [1, 0]], energy=[[0, 2], [2, 0]])
    >>> plan = LinkPlan(names=("0", "1"), psi=np.array([0, 1]), alpha=np.array([[0.0, 1], [0, 0]]),
    ...                 objective=8.0, terms=LinkTerms(1.0, 5.0, 2.0), lower_bound=8.0, gap=0.0,
    ...                 status="proven optimal", optimal=True, seconds=0.0, method="exact",
    ...                 energy=2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_links(Path(folder) / "links.html", plan, costs)
    ...     [path.name for path in Path(folder).iterdir()]
    ['links.html']
    """
    write_whole(Path(path), render_links(plan, costs, network=network, title=title).encode())


def page(
    title: str,
    plan: LinkPlan,
    costs: LinkCosts,
    known: Known,
    summary: Summary,
    outcome: object | None = None,
) -> str:
    """The template filled in; ``outcome`` is what a run on data adds."""
    return template("links").render(
        title=printable(title.strip() or _TITLE, 200),
        summary=summary,
        plan=plan_parts(plan, costs, known),
        outcome=outcome,
    )


def _known(network: Network, plan: LinkPlan, costs: LinkCosts) -> Known:
    if network.names != plan.names:
        raise MismatchError(
            f"the plan is of {len(plan.names)} devices and the network of {len(network.names)}, "
            "or they are not the same devices in the same order.",
            code="report-links",
        )
    errors = [np.nan if device.error is None else device.error for device in network.devices]
    return Known(
        labelled=np.array([device.labelled for device in network.devices], dtype=np.float64),
        unlabelled=np.array([device.unlabelled for device in network.devices], dtype=np.float64),
        errors=np.array(errors),
        divergence=np.array(network.divergence, dtype=np.float64),
        measure="divergence d_H",
        unit="J",
        phi=costs.phi,
    )


def _check(plan: LinkPlan, costs: LinkCosts) -> None:
    if plan.names != costs.names:
        raise MismatchError(
            f"the plan is of {len(plan.names)} devices and the costs of {costs.size}, or they are "
            "not the same devices in the same order. Give the costs the plan was made for.",
            code="report-links",
        )
