"""``silot distance barycenter`` and ``silot train coreset``: few points that stand for records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..api.coreset import coreset
from ..api.value import barycenter
from ..data.measure import Measure
from ..distances.methods import parse_weights
from ..distances.worth.fedbary import FedBary
from ..distances.worth.result import Barycenter
from ..errors import InputError
from ..teaching.federated.coreset import Condensing, Coreset
from .console import ARRAYS, FIGURES, save_arrays, save_plot, steps
from .generate import Flags, command, flag
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where, names_of

if TYPE_CHECKING:
    from ..sites.run_connection import Connection


class Atoms(Flags):
    """How points are computed, and the files that they are written to."""

    method: Literal["fedbary", "sketch"] = flag(
        "FedBary (fedbary), or private sketches (sketch).", "-m", default="fedbary"
    )
    weights: str | None = flag("Weight of each holder, comma separated, in their order.")
    out: Path | None = flag("Save the atoms to this .npz file.", "-o", endings=ARRAYS)
    plot: Path | None = flag("Draw the objective by round to this file.", endings=FIGURES)

    def read(self, loaded: Mapping[str, Measure] | Connection) -> dict[str, Any]:
        """Return the options about the holders that were loaded."""
        weights = parse_weights(self.weights, list(names_of(loaded)))
        return {"method": self.method, "weights": weights}

    def save(self, result: Barycenter | Coreset) -> None:
        """Write the points and the figure where paths name their files."""
        if self.out is not None:
            labels = {} if result.labels is None else {"y": result.labels}
            save_arrays(self.out, {"X": result.points, "w": result.weights, **labels})
        save_plot(result, self.plot, height=4)


@command([FedBary])
def barycenter_command(
    holders: HoldersArgument = None,
    *,
    atoms: Atoms,
    where: Where,
    tables: Tables,
    release: Release,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Compute the barycenter of the holders, and the distance of each from it."""
    loaded, _ = where.load(tables, holders)
    options |= release.read(tables) | atoms.read(loaded) | {"labels": tables.labels}
    with steps("barycenter") as progress:
        result = barycenter(loaded, progress=progress, **options)
    atoms.save(result)
    outputs.finish(result)


@command([Condensing])
def coreset_command(
    holders: HoldersArgument = None,
    *,
    atoms: Atoms,
    test: Path | None = flag("Labelled records to test the 1-nearest-neighbour classifier on."),
    where: Where,
    tables: Tables,
    release: Release,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Compute a few points that represent the holders' records, and a classifier on them."""
    if test is not None and not tables.labels:
        raise InputError(
            "--test needs a classifier, and points without labels cannot classify. Give --labels.",
            code="labels-absent",
        )
    loaded, mine = where.load(tables, holders, test)
    options |= release.read(tables) | atoms.read(loaded) | {"labels": tables.labels}
    with steps("coreset") as progress:
        result = coreset(loaded, test=mine, progress=progress, **options)
    atoms.save(result)
    outputs.finish(result)
