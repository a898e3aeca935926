"""Send all records of several holders to the coordinator, for what is computed from them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.measure import Measure
from ..federation.protocol import Protocol, Steps, required
from ..federation.question import Answerer
from ..federation.result import RunResult
from ..options import option, truth
from .methods import Joint
from .questions import ClassSizes, Describe, LabelledRecords, decode_classes, encode_classes
from .sides import agree_on_dimension, build_misfit_error, read_weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered(RunResult):
    """The records of all holders, by name."""

    measures: Mapping[str, Measure] = field(repr=False)
    status: str

    def to_dict(self) -> dict[str, Any]:
        """Return how many records there are, and the cost: no record."""
        sizes = {name: measure.size for name, measure in self.measures.items()}
        return {"records": sizes, "status": self.status, **self._cost_dict()}


class Gathering(Joint[Gathered]):
    """Ask every holder for its records, with their labels where these count.

    Examples
    --------
    >>> from silot.federation import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0], [1.0]]})
    >>> fed.run(Gathering().among(["a"])).measures["a"]
    Measure(2 records, 1 features)
    """

    name = "gathering"

    labels: bool = option("Labels too.", truth(), default=False, flag=False)

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Gathered]:
        names = tuple(holders)
        return Protocol(
            self.name,
            names,
            self.disclosure,
            lambda: self._steps(names),
            self.values("labels"),
            expected_rounds=2,
        )

    def _steps(self, names: tuple[str, ...]) -> Steps[Gathered]:
        first = ClassSizes() if self.labels else Describe()
        answers = yield dict.fromkeys(names, first)
        replies = {name: required(answers, name) for name in names}
        classes: list[str] = []
        if self.labels:
            texts = [str(answer.scalars.get("classes", "")) for answer in replies.values()]
            classes = sorted({kind for text in texts for kind in decode_classes(text)})
        question = LabelledRecords(classes=encode_classes(classes) if classes else "")
        answers = yield dict.fromkeys(names, question)
        measures: dict[str, Measure] = {}
        for name in names:
            answer = required(answers, name)
            points = answer.array("points", ndim=2)
            labels = None
            if self.labels:
                codes = answer.arrays["codes"]
                sound = codes.dtype.kind == "i" and codes.shape == (len(points),)
                if not sound or codes.min() < 0 or codes.max() >= len(classes):
                    raise build_misfit_error()
                labels = np.array(classes)[codes]
            measures[name] = Measure(points, read_weights(answer, len(points)), labels)
        agree_on_dimension({name: measure.dimension for name, measure in measures.items()})
        return Gathered(measures=measures, status=f"the records of {len(names)} holders")
