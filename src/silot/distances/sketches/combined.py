"""What releases of several sites tell together: distances, worth, and groups."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...federation.result import Preflighted
from ..worth.result import Contributions
from .result import Sketches

if TYPE_CHECKING:
    from ...data.preflight import Preflight


@dataclass(frozen=True, kw_only=True, eq=False)
class Combined(Preflighted):
    """Sketches with what is computed of them, to be shown together.

    Attributes
    ----------
    sketches
        Of the sites.
    values
        What each site is worth, with the distances between them in ``between`` and the barycenter,
        where that is the target, in ``barycenter``.
    groups
        By site, the number of its group; empty where none were asked for.
    """

    view: ClassVar = "release_view:combined"

    sketches: Sketches
    values: Contributions = field(repr=False)
    groups: Mapping[str, int] = field(repr=False)

    @property
    def preflight(self) -> Preflight | None:
        """What was seen of columns that no schema describes: those of the sites by nobody."""
        return self.sketches.preflight

    @classmethod
    def of(cls, sketches: Sketches, groups: int | None = None) -> Combined:
        """Everything that follows; so many groups, none by default."""
        found = {} if groups is None else sketches.clusters(groups)
        return cls(sketches=sketches, values=sketches.values(map=True), groups=found)

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        matrix, barycenter = self.values.between, self.values.barycenter
        return {
            **self.sketches.to_dict(),
            "releases": [each.to_dict() for each in self.sketches.releases],
            "matrix": None if matrix is None else matrix.to_dict(),
            "values": self.values.to_dict(),
            "barycenter": None if barycenter is None else barycenter.to_dict(),
            "groups": dict(self.groups),
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)
