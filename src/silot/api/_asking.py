"""Public computations that files can carry: each is its function, run on recorded replies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from ..data.loading import load_measure
from ..data.measure import Measure
from ..data.schema import Schema
from ..data.site import Site
from ..errors import FileError, InputError, MismatchError
from ..federation.recorded import Records
from .cluster import cluster
from .coreset import coreset
from .distances import distance, distance_matrix, pooled_distance
from .plan import plan
from .records import value_records
from .value import barycenter, value_holders

# Secret shares need a connection; sketches have files of their own.
_NO_FILES = ("secure", "sketch", "private")


class OwnData(BaseModel):
    """The asker's own data: a file, how it is read, and what it was when the run began.

    Attributes
    ----------
    path, site
        The file, and the one that says how a site writes it.
    digests
        SHA-256 of both.
    label_column, weight_column, id_column, columns
        What columns of a table are, as for ``load_measure``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    digests: dict[str, str]
    site: str | None = None
    label_column: str | None = None
    weight_column: str | None = None
    id_column: str | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, path: str | Path, site: str | Path | None = None, **columns: Any) -> Self:
        """A file as it is now."""
        files = [str(Path(file).absolute()) for file in (path, site) if file is not None]
        digests = {file: _digest(file) for file in files}
        return cls(path=files[0], site=files[1] if site else None, digests=digests, **columns)

    def measure(self, schema: Schema | None) -> Measure:
        """The records, if they are what they were.

        Raises
        ------
        MismatchError
            ``run-changed``: a file changed since the run began.
        """
        for file, digest in self.digests.items():
            if _digest(file) != digest:
                raise MismatchError(
                    f"{file} changed since the run began, and answers were to questions that "
                    "follow from it. Put it back, or begin anew in a new folder.",
                    code="run-changed",
                )
        return load_measure(
            self.path,
            label_column=self.label_column,
            weight_column=self.weight_column,
            id_column=self.id_column,
            columns=self.columns,
            schema=schema,
            site=None if self.site is None else Site.load(self.site),
        )


@dataclass(frozen=True)
class Computation:
    """A public function, and who takes part: how many holders, and the asker with own data."""

    call: Callable[[Records, Measure | None, dict[str, Any]], Any]
    least: int = 1
    most: int | None = None
    own: Literal["none", "optional", "needed"] = "none"
    flag: str = "--validation"
    takes: Sequence[str] = ("labels",)

    @property
    def wanted(self) -> str:
        """How many holders, in words."""
        least = {1: "one", 2: "two"}[self.least]
        names = f"{least} name{'s' * (self.least > 1)}"
        return names if self.most == self.least else f"{names} or more"


def run_public(
    computation: str,
    replies: Records,
    own: Measure | None,
    labelled: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Run a public function on recorded replies; ``Unanswered`` where they end."""
    kind = COMPUTATIONS[computation]
    for name in ("method", "map"):
        if options.get(name) in _NO_FILES:
            raise InputError(
                f"{name} is {options[name]!r}, which no files of questions carry. Use `silot "
                "release` and `silot combine` for sketches, a connection for secret shares.",
                code="option-method",
            )
    taken = {name: value for name, value in labelled.items() if name in kind.takes}
    return kind.call(replies, own, {**taken, **options})


def _digest(file: str) -> str:
    try:
        with Path(file).open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise FileError(
            f"{file} cannot be read ({type(error).__name__}). Check the path.", code="file-missing"
        ) from None


_VECTORS = ("labels", "covariance")

COMPUTATIONS = {
    "distance": Computation(
        lambda replies, _, more: distance(*replies.names[:2], federation=replies, **more),
        least=2, most=2, takes=_VECTORS,
    ),
    "matrix": Computation(
        lambda replies, _, more: distance_matrix(replies, **more), least=2, takes=_VECTORS
    ),
    "pooled": Computation(
        lambda replies, own, more: pooled_distance(replies, own, **more),  # pyright: ignore[reportArgumentType]
        own="needed", flag="--buyer", takes=_VECTORS,
    ),
    "value": Computation(
        lambda replies, own, more: value_holders(replies, own, **more), own="optional"
    ),
    "barycenter": Computation(lambda replies, _, more: barycenter(replies, **more)),
    "cluster": Computation(
        lambda replies, _, more: cluster(replies, **more), least=2, takes=_VECTORS
    ),
    "coreset": Computation(
        lambda replies, own, more: coreset(replies, test=own, **more), own="optional", flag="--test"
    ),
    "plan": Computation(
        lambda replies, own, more: plan(replies, own, **more),  # pyright: ignore[reportArgumentType]
        own="needed",
    ),
    "records": Computation(
        lambda replies, own, more: value_records(replies, own, name=replies.names[0], **more),  # pyright: ignore[reportArgumentType]
        most=1, own="needed",
    ),
}  # fmt: skip
"""By the word that asks for them."""


__all__ = ["COMPUTATIONS", "Computation", "OwnData", "run_public"]
