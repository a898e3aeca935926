"""Sketches: the tables of a terminal, and the page."""

from __future__ import annotations

from ...federation.view import bill_rows, bill_sections, facts
from ...render import Block, Column, Heading, Paragraph, Table, plain_table, textual
from ...render.words import count
from .result import Sketches


def sketches_sections(result: Sketches) -> list[Block]:
    """How many records the sketches of holders tell, the guarantee and the bill."""
    return [_counted(result), facts({**_guarantee(result), **bill_rows(result)})]


def sketches_page(result: Sketches) -> list[Block]:
    """The page of the same."""
    holders = count(len(result.names), "holder")
    return [
        Heading("Sketches of the holders", level=1),
        Paragraph(
            f"{holders}, each in one differentially private release: counts of records in "
            f"{count(result.cells, 'cell')}. What is computed from them spends nothing more.",
            "lead",
        ),
        Heading("Records of the holders", "records", "Records"),
        _counted(result),
        facts(_guarantee(result)),
        *bill_sections([("", result)]),
    ]


def _counted(result: Sketches) -> Table:
    rows = [[name, f"{result.records[name]:.0f}"] for name in result.names]
    return plain_table([textual("holder"), Column("records, about")], rows)


def _guarantee(result: Sketches) -> dict[str, str]:
    return {
        "cells": str(result.cells),
        "guarantee": f"epsilon {result.privacy_epsilon:g}, delta {result.privacy_delta:g} for "
        "each holder's release",
        "status": result.status,
    }
