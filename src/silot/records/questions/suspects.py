"""How many records are suspect, with noise: scores stay with the holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...distances.questions import decode_classes
from ...distances.sketches.questions import ByMass
from ...errors import InputError, MismatchError, WireError
from ...federation.answer import Answer
from ...federation.question import Array, Codes, Names, register
from ..alone import Alone
from ..counted import places_of
from ..screen import Screen
from .scores import ScreenModels

# Bins beyond which noise is all there is, and records that each one is compared with.
_MOST_BINS, _MOST_POINTS = 64, 1 << 14
# Steps to a leaf: a longer way, for chosen records only, would tell by the time it takes.
_DEEPEST = 256


@dataclass(frozen=True, kw_only=True)
class CountSuspects(ScreenModels, ByMass):
    r"""How many records lie in public bins of how suspect their label and features are.

    The models it brings must be fitted only on public records ; how these are weighted may come
    from a differentially private release, as whatever is computed from one. With ``classes``, a
    public list, labels are judged, and records of any other class are counted together.

    Notes
    -----
    A record is in one bin for its features and, with ``classes``, in one for its label; in which
    depends on that record and on public fields only (``silot.records.alone``). It adds at most K
    units to each, so one record moves the vector by at most :math:`K \sqrt 2` in the Euclidean
    norm, K without classes.
    """

    kind: ClassVar[str] = "count-suspects"
    mechanism: ClassVar[str] = "discrete Gaussian, suspects"

    label_edges: Array
    feature_edges: Array

    @property
    def sensitivity(self) -> float:
        """One record adds the resolution once, or twice with labels, to different counts."""
        self._check()
        # Room for the rounding of the square root.
        return self.resolution * (2.0**0.5 if self.classes else 1.0) * (1.0 + 1e-12)

    def check(self, dimension: int, labelled: bool) -> None:
        self._check()
        screen = self.screen()
        if screen.dimension != dimension:
            raise MismatchError(
                "the public records have another number of features than the records.",
                code="dimension-mismatch",
            )
        if self.classes and not labelled:
            raise InputError("the records have no labels.", code="labels-absent")
        if screen.experts is not None and screen.experts.forest.deeper(_DEEPEST):
            raise WireError("a tree is too deep.", code="question-fields")
        self._try(screen)

    def exact(self, points: Array, masses: Array, labels: Names | None = None) -> Codes:
        self._check()
        screen = self.screen()
        units = np.floor(self.resolution * self.weigh(masses)).astype(np.int64)
        listed = decode_classes(self.classes) if self.classes and labels is not None else []
        codes = None
        if labels is not None and listed:
            place = {name: code for code, name in enumerate(listed)}
            codes = np.array([place.get(name, len(listed)) for name in labels.tolist()])
        by_label, by_features = Alone(screen)(points, codes, units > 0)
        counts = [_binned(by_features, self.feature_edges, units)]
        if codes is not None:
            strange = codes == len(listed)
            counts += [
                _binned(by_label[~strange], self.label_edges, units[~strange]),
                units[strange].sum(keepdims=True),
            ]
        return np.concatenate(counts)

    def answer_of(self, noisy: Codes) -> Answer:
        return Answer({"counts": noisy})

    @property
    def length(self) -> int:
        """Numbers in an answer: bins of features, then of labels and one for other classes."""
        labels = len(self.label_edges) + 2 if self.classes else 0
        return len(self.feature_edges) + 1 + labels

    def _check(self) -> None:
        self.check_masses()
        for edges, used in ((self.feature_edges, True), (self.label_edges, bool(self.classes))):
            shaped = edges.ndim == 1 and used <= len(edges) < (_MOST_BINS if used else 1)
            if not shaped or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise WireError("the edges of the bins do not rise.", code="question-fields")
        if self.compared > _MOST_POINTS:
            raise WireError("there are too many public records.", code="question-fields")
        if self.classes and len(decode_classes(self.classes)) != len(self.base):
            raise WireError("the models know other classes.", code="question-fields")

    def _try(self, screen: Screen) -> None:
        """Return whether models work at all: only the question decides, and nothing was charged."""
        try:
            points, codes = screen.first()
            used = np.ones(1, dtype=np.bool_)
            ratios = Alone(screen)(points, codes if self.classes else None, used)
        except Exception:  # noqa: BLE001 - whatever it is, the fields are no models
            ratios = (np.full(1, np.nan), np.full(1, np.nan))
        if np.isnan(ratios[1][0]) or (self.classes and np.isnan(ratios[0][0])):
            raise WireError("the models say nothing of public records.", code="question-fields")


def _binned(ratios: Array, edges: Array, units: Codes) -> Codes:
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(counts, places_of(ratios, edges), units)
    return counts


register(CountSuspects)
