"""Data as silot takes them: measures, tables, documents and files."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .drafts.result import Draft, SchemaCheck
    from .loading import load_measure, save_measure
    from .measure import Measure
    from .reading import Schema
    from .reported import Result
    from .site import Site

__all__ = [
    "Draft",
    "Measure",
    "Result",
    "Schema",
    "SchemaCheck",
    "Site",
    "load_measure",
    "save_measure",
]

lazily(__name__)
