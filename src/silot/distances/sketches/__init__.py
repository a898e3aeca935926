"""One differentially private release of a holder, and all that follows from it."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .drift import Drift
    from .questions import CountRecords, SketchRecords, SketchTree
    from .release_file import ReleaseFile
    from .result import Sketches
    from .sketch import Sketch, Sketching, sketch, sketches

__all__ = [
    "CountRecords",
    "Drift",
    "ReleaseFile",
    "Sketch",
    "SketchRecords",
    "SketchTree",
    "Sketches",
    "Sketching",
    "sketch",
    "sketches",
]

lazily(__name__)
