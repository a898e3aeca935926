"""What a report is made of, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..render.words import printable
from ._arrays import Flags
from .quality import Quality, quality
from .result import Contents, RecordScores

Records = Mapping[str, RecordScores] | Sequence[RecordScores] | RecordScores


@dataclass(frozen=True, eq=False)
class Scored:
    """The scored records of a holder, and what the caller knows of them."""

    name: str
    scores: RecordScores
    images: npt.NDArray[Any] | None = field(default=None, repr=False)
    truth: Flags | None = field(default=None, repr=False)
    contents: Contents | None = field(default=None, repr=False)

    @property
    def raw(self) -> bool:
        """Whether values of records are at hand."""
        return self.images is not None or (self.contents is not None and self.contents.raw)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.scores.scores)

    @property
    def flagged(self) -> int:
        """How many of them are flagged."""
        return int(self.scores.flagged.sum())

    @property
    def flagged_share(self) -> float:
        """Their part of the records."""
        return self.flagged / max(self.records, 1)

    @property
    def quality(self) -> Quality | None:
        """How well flags and scores agree with what is known, if anything is."""
        return None if self.truth is None else quality(self.scores, self.truth)


def collect(
    records: Records | None,
    images: Mapping[str, npt.ArrayLike] | None,
    truth: Mapping[str, npt.ArrayLike] | None,
    contents: Mapping[str, Contents] | None = None,
) -> list[Scored]:
    """Bring scores, images, truth and contents together by holder."""
    scores = _by_name(records)
    images, truth, contents = images or {}, truth or {}, contents or {}
    for what, by_name in (("images", images), ("truth", truth), ("contents", contents)):
        for name in by_name:
            if name not in scores:
                raise InputError(
                    f"{what} has {_quoted(name)}, whose records are not scored. Give records for "
                    "it as well, under the same name.",
                    code=f"report-{what}",
                )
    return [
        Scored(
            name,
            item,
            _images(name, images[name], len(item.scores)) if name in images else None,
            _truth(name, truth[name], len(item.scores)) if name in truth else None,
            contents.get(name),
        )
        for name, item in scores.items()
    ]


def _by_name(records: Records | None) -> dict[str, RecordScores]:
    if records is None:
        return {}
    if isinstance(records, RecordScores):
        return {records.name: records}
    if isinstance(records, Mapping):
        pairs = list(records.items())
    else:
        pairs = [(getattr(item, "name", ""), item) for item in records]
    scores: dict[str, RecordScores] = {}
    for name, item in pairs:
        if not isinstance(item, RecordScores) or not isinstance(name, str):
            raise InputError(
                f"records has a {type(item).__name__}. Give RecordScores, one for each holder.",
                code="report-records",
            )
        if name in scores:
            raise InputError(
                f"records has {_quoted(name)} twice. Give a mapping with a name for each.",
                code="report-records",
            )
        scores[name] = item
    return scores


def _images(name: str, values: npt.ArrayLike, records: int) -> npt.NDArray[Any]:
    images = _array(values)
    right = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    if not right or images.dtype.kind not in "buif" or 0 in images.shape[1:]:
        raise InputError(
            f"images of {_quoted(name)} are {images.dtype} of shape {images.shape}. Numbers of "
            f"shape ({records}, height, width) or ({records}, height, width, 3) are needed.",
            code="report-images",
        )
    if len(images) != records:
        raise InputError(
            f"{_quoted(name)} has {records} scored records and {len(images)} images. Give one "
            "image for each record, in the same order.",
            code="report-images",
        )
    return images


def _truth(name: str, values: npt.ArrayLike, records: int) -> Flags:
    truth = _array(values)
    if truth.shape != (records,):
        raise InputError(
            f"truth of {_quoted(name)} is of shape {truth.shape}; shape ({records},) is needed: "
            "one truth value for each record.",
            code="report-truth",
        )
    if truth.dtype.kind not in "bui" or not np.isin(truth, (0, 1)).all():
        raise InputError(
            f"truth of {_quoted(name)} is {truth.dtype}; truth values are needed, True for a "
            "record known to be faulty.",
            code="report-truth",
        )
    return truth.astype(bool)


def _array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array; what cannot be one is an object without axes, which every check refuses."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        return np.asarray(None)


def _quoted(name: object) -> str:
    return repr(printable(name)) if isinstance(name, str) else repr(type(name).__name__)
