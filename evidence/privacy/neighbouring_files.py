"""How far releases of random neighbouring files are from one another."""

from __future__ import annotations

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from evidence.common import Context
from evidence.report import Claim, Judged, Report, Table, number, pick, verdict
from tests.privacy.neighbours import Movement, movements, noiseless

SENSITIVITY = Claim(
    "one record moves a release by at most its sensitivity",
    "the promise of the package, not of a paper",
)

ALL, OVER, OTHERS = "releases", "beyond 1", "by others"
PAIRS = (5_000, 100_000)  # as usual, and with --full
_ALONE = 0.25
_BLOCK, _PROCESSES = 100, os.cpu_count() or 1


def _block(block: int) -> list[list[Movement]]:
    """Movements of a block of random files."""
    with tempfile.TemporaryDirectory() as folder, noiseless():
        return [
            pair
            for k in range(block * _BLOCK, (block + 1) * _BLOCK)
            for pair in movements(np.random.default_rng([k, 7]), Path(folder), alone=_ALONE)
        ]


QUICK = {"PAIRS": (500,)}


def run(context: Context) -> Report:
    wanted = context.size(PAIRS)
    worst: dict[str, float] = defaultdict(float)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    pairs, files = 0, 0
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        while pairs < wanted:
            # As many as are likely still needed, and always the same ones first.
            blocks = max(_PROCESSES, min(20, (wanted - pairs) // (3 * _BLOCK)))
            for found in pool.map(_block, range(files // _BLOCK, files // _BLOCK + blocks)):
                files += _BLOCK
                for pair in found:
                    pairs += 1
                    for one in pair:
                        worst[one.release] = max(worst[one.release], one.ratio)
                        flags = {ALL: 1, OVER: one.ratio > 1.0, OTHERS: not one.additive}
                        counts[one.release].update(flags)
            context.say(f"{pairs} pairs, worst {max(worst.values()):.6f}")
    table = Table.of(
        "Largest movement, in units of the sensitivity that noise is scaled to; releases that "
        "moved further, and those moved by anything but the record's own part.",
        sorted(worst),
        {
            "file and release": str,
            **{name: lambda key, name=name: counts[key][name] for name in (ALL, OVER, OTHERS)},
            "worst ratio": lambda key: f"{worst[key]:.6f}",
        },
    )
    return Report(
        title="Random neighbouring files",
        about="Two files are neighbours when one has a record that the other has not. The types of "
        "their columns are what programs choose that look at all records: texts as soon as one "
        "label is a text, floats as soon as one is a fraction. Both are loaded, holders are asked "
        "every kind of release as bytes, and their replies, without the noise, are compared.",
        setup=[
            f"{files:,} random files of 2 to 9 records, each with all its neighbours that lack "
            f"one: {pairs:,} pairs of which both were loaded. The others are refused, and a holder "
            "that cannot load its data releases nothing.",
            "csv (quoted in three ways), csv.gz, parquet and npz; labelled, weighted; labels such "
            "as 007, 1.0, 1e3, true, 0x1, dates, quotes, line ends, missing ones, bytes; features "
            "of all widths, with whole numbers beyond 2^53; masses of 0, tiny and huge.",
            "Read alone: for a quarter of the records, the difference of the two replies has to "
            "be the reply about a file of that record alone, where such a file can be loaded.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the sums over files and releases."""
    rows = pick(tables, ALL, OVER, OTHERS, "worst ratio")
    releases, over, others = (sum(int(row[name]) for row in rows) for name in (ALL, OVER, OTHERS))
    return [
        SENSITIVITY.judged(
            f"worst {max(number(row['worst ratio']) for row in rows):.6f}; {over} of "
            f"{releases:,} releases beyond 1",
            verdict(over == 0),
        ),
        Claim("how a record is read depends on no other record", "the same").judged(
            f"{others} releases moved by anything but the record's own part",
            verdict(others == 0),
        ),
    ]
