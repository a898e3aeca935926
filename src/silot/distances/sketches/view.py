"""What is shown of sketches: records, guarantee and cost."""

from __future__ import annotations

from collections.abc import Mapping

from ...federation.view import bill_rows, cost_content
from ...render import Content, Headline, counts, facts, names, plain_table, section
from ...render.words import count
from .result import Sketches


def sketches_content(result: Sketches) -> Content:
    """Declare how many records the sketches of holders tell, the guarantee and the bill."""
    holders = count(len(result.names), "holder")
    rows = [(name, result.records[name]) for name in result.names]
    return [
        Headline(
            "Sketches of the holders",
            f"{holders}, each in one differentially private release: counts of records in "
            f"{count(result.cells, 'cell')}. What is computed from them spends nothing more.",
        ),
        section(
            "Records of the holders",
            "records",
            plain_table([names(), counts("records, about")], rows),
            facts(sketch_rows(result), terminal=bill_rows(result)),
            link="Records",
        ),
        cost_content(result),
    ]


def sketch_rows(result: Sketches) -> Mapping[str, str]:
    """Return what protects the records behind sketches, and what kind of result they are."""
    return {
        "cells": str(result.cells),
        "guarantee": f"epsilon {result.privacy_epsilon:g}, delta {result.privacy_delta:g} for "
        "each holder's release",
        "status": result.status,
    }
