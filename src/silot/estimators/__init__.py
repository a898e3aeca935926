"""Estimators of scikit-learn: screen records, clean before a classifier, detect shifts, adapt.

They run where the data are, send nothing, and keep what they were fitted on: a fitted estimator,
and so a file of it, contains records.
"""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .adaptation import DomainChange
    from .adapter import DomainAdapter
    from .classifier import CleanedClassifier
    from .screener import RecordScreener
    from .shift import Shift, ShiftDetector

__all__ = [
    "CleanedClassifier",
    "DomainAdapter",
    "DomainChange",
    "RecordScreener",
    "Shift",
    "ShiftDetector",
]

lazily(__name__)
